"""Chat pages."""
