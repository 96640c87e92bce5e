"""One file per kind of picture: `samples` of values, `machines` of what computes; `grammar` is what they share.

`plots` has all pictures of a report.
"""
