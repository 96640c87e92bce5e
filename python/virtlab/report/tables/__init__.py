"""One file per kind of table; `table` is what they share."""
