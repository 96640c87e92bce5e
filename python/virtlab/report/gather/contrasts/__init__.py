"""Settings beside each other: against a baseline, between factor levels, against what theory bounds."""
