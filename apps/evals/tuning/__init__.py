"""The curve: recall against latency over the knobs of search, on a tenant's own data."""
