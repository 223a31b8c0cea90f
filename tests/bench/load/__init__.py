"""What the load generator itself can do, and costs: `make bench-load`."""
