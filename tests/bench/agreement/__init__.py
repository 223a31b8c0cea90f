"""Whether the load generator agrees with an independent tool: `scripts/bench-agreement`."""
