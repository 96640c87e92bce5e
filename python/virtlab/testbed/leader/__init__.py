"""The leader's end in Python: its process, the control stream, whose channel is whose, and what outlives a process."""
