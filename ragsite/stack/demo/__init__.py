"""What a new install shows of itself: people, the documentation as a corpus, and one question."""
