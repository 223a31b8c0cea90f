"""Documents pages: reading for everybody a collection is open to, changing for corpus admins."""
