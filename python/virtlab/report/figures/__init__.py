"""One file per kind of picture; `figure` is what they share, `plots` has all of a report, `vega` draws them."""
