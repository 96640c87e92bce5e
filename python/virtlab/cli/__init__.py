"""One file per command, thin; `main.COMMANDS` is the table of them."""
