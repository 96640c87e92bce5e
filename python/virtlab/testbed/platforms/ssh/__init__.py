"""Hosts and guests that exist already, reached by the system's ssh client: connected, read, led, and left as they
were.
"""
