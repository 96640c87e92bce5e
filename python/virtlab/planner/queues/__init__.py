"""Queues at ports and links: who holds back a sender, licences of routers, seeds of disciplines that draw."""
