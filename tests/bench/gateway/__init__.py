"""What the gateway adds to a model server's times: `make bench-gateway`."""
