"""Which runs, in what order, how often, until how precise."""
