"""The leader's end in Python: its process, the control stream, the owner of each channel, and what outlives a
process.
"""
