"""What the samples of runs look like: their distributions, over time, and how often they recur."""
