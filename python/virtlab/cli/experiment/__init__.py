"""Commands about an experiment file: written, checked, planned, run."""
