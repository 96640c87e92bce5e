"""From a Plan to a built world: Steps, the kernel objects that they make, and what the kernel says of them
afterwards.
"""
