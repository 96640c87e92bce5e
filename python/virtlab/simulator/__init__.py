"""The model: plays the same Plan in virtual time."""
