"""Pages of the quality room, for who manages the corpus; searching, for every reader."""
