"""One run in a built world, from Plan to disk: a single pass of its timeline, or the trials of a search and its
tests.
"""
