"""Queue disciplines of the kernel: what a Plan's queues become, on which port, and whether they are there as
requested.
"""
