"""Tables, plots and the page; every figure from results only."""
