"""Samples to run-level values, claims and verdicts."""
