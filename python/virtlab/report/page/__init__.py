"""What a reader sees: the page, the text on a terminal, the same for programs, and the files they are written to."""
