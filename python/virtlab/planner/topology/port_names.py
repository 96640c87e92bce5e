"""What a guest's port is called as a link of its own, and the virtual switch of two ports between it and a machine's
tap.
"""

from __future__ import annotations


def port_of(guest: str, vnic: str) -> str:
    """The name of a guest's port as a link.

    >>> port_of("h1.g1", "eth0")
    'h1.g1.eth0'
    """
    return f"{guest}.{vnic}"


def port_there(guest: str, vnic: str, host: str) -> str:
    """The same of its port at a host that it moves to, which is built with the world.

    >>> port_there("h1.g1", "eth0", "h2")
    'h1.g1.eth0@h2'
    """
    return f"{port_of(guest, vnic)}@{host}"


def passage(port: str) -> str:
    """The virtual switch between such a link and the tap of a guest with a kernel of its own.

    >>> passage("h1.g1.eth0")
    'h1.g1.eth0.br'
    """
    return f"{port}.br"


def link_ends(port: str) -> tuple[str, str]:
    """Both ends of such a link: at the host's virtual switch, and at the guest.

    >>> link_ends("h1.g1.eth0")
    ('h1.g1.eth0.port', 'h1.g1.eth0.end')
    """
    return f"{port}.port", f"{port}.end"
