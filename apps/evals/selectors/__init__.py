"""What is read of labelled sets, runs, alerts and curves. Call inside the tenant's scope."""
