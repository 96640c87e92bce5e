"""Worlds of virtual machines, and why none can be booted here."""

from __future__ import annotations

from typing import Any

import process_world as processes
import testbed_world as worlds

from virtlab.testbed.platforms.qemu.platform import machines_missing
from virtlab.testbed.session import TestbedSession


def missing() -> str | None:
    """Why no virtual machine can be booted here, or None."""
    return worlds.missing() or machines_missing()


def machines(world: dict[str, Any], *names: str, **properties: Any) -> dict[str, Any]:
    """The world with some guests (all, when none is named) as virtual machines."""
    for name in names or tuple(world["guests"]):
        world["guests"][name] |= {"platform": "qemu", **properties}
    return world


def beside_a_namespace() -> dict[str, Any]:
    """Two guests on one bridge: g1 a virtual machine, g2 a namespace."""
    return machines(worlds.one_host(2), "g1")


def process_of(session: TestbedSession, guest: str) -> int:
    """The machine of a guest, by its command line."""
    return processes.process_of(session, f"guest={guest},".encode())
