"""From a file to text with pages and headings. Runs inside the sandbox; nothing of Django here."""
