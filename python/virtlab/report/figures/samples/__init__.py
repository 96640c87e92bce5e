"""Figures of values and samples: intervals, distributions, courses over time."""
