"""One run in a built world: its timeline, its probes, the samples and counters that come back, and what taints it."""
