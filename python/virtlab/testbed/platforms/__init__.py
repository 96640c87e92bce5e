"""Guests that are more than a network namespace: how each platform starts them, reaches them and watches them.

`reach.py` says what the rest of the testbed asks of a guest, whatever it is; `clock.py` how its time compares to ours.
A platform is a folder here with a class that offers `Running`; `start.py` knows which guests are whose.
"""
