"""Who is wired to whom: ports and boxes, ends of roles, addresses and routes."""
