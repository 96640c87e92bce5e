"""Commands about words: what one means, and which may follow on the command line."""
