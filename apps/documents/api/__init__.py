"""The HTTP API for documents, below `/api/v1/`: for programs, with a tenant's keys."""
