"""Guests that move in mid-run, and the hosts between which they are copied."""
