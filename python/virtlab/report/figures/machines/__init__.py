"""Figures of what machines do: processors, disks, queues, guests that move."""
