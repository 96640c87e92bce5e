"""Run after run: which is next, how to resume, when it is precise enough; one at a time, or many at once."""
