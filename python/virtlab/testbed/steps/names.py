"""Kernel names of the Plan's objects: interfaces have at most 15 characters, names of a Plan up to 64.

A guest's vNIC keeps its name where it fits. Otherwise a name is shortened with a digest, the same every time.
"""

from __future__ import annotations

import hashlib

IFNAME_MAX = 15
RESERVED = {
    "lo",
    "all",
    "default",
}  # the last two are folders beside the interfaces' own in /proc/sys/net/*/conf
FABRIC = "fabric"


def host_namespace(host: str) -> str:
    """The namespace of a host."""
    return f"host:{host}"


def guest_namespace(guest: str) -> str:
    """The namespace of a guest that is not native."""
    return f"guest:{guest}"


def interface(name: str, taken: set[str] | None = None) -> str:
    """An interface name for `name`, unlike those taken and those that no interface may have; adds it to them.

    >>> interface("eth0"), interface("a-very-long-vnic-name")
    ('eth0', 'a-very-lo-df9c9')
    >>> interface("all").startswith("all-")
    True
    """
    taken = taken if taken is not None else set()
    taken |= RESERVED
    chosen = name
    salt = 0
    while len(chosen) > IFNAME_MAX or chosen in taken or "/" in chosen or chosen in {".", ".."}:
        digest = hashlib.sha256(f"{name}{salt or ''}".encode()).hexdigest()[:5]
        chosen = f"{name[: IFNAME_MAX - 6].replace('/', '-')}-{digest}"
        salt += 1
    taken.add(chosen)
    return chosen
