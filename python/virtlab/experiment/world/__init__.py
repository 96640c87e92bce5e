"""What a design point is built of: hosts, cables, switches, addresses, and queues in front of links and ports."""
