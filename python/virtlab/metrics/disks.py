"""Entities of disks of guests in series and counters, on every arm."""

from __future__ import annotations


def disk_of(guest: str) -> str:
    """The disk of a guest.

    >>> disk_of("h1.g1")
    'guests.h1.g1.disk'
    """
    return f"guests.{guest}.disk"


def disks_of(host: str) -> str:
    """All disks of a host's guests.

    >>> disks_of("h1")
    'hosts.h1.disks'
    """
    return f"hosts.{host}.disks"
