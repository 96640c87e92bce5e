"""Worlds simulated in memory, and how sure what they show is."""
