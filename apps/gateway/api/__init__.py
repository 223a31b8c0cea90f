"""The OpenAI-compatible API below `/v1/`: for programs, with a tenant's keys."""
