"""Models calibrated from results, and how far they reach."""
