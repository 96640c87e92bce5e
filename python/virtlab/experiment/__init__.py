"""What a person asks for: the file, typed and checked."""
