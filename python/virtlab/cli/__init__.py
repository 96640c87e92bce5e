"""One file per command, thin; `table.COMMANDS` is the table of them."""
