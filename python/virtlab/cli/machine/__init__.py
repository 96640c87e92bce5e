"""Commands about this machine: what it can do, and what it holds for guests."""
