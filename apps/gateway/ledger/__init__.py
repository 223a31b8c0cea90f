"""What was used, what it cost, and the figures made of that."""
