"""Worlds of virtual machines, and why none can be booted here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import testbed_world as worlds

from virtlab.testbed.platforms.qemu.refusals import machines_missing
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
    """The process as this namespace of processes numbers it: the one whose command line names the guest."""
    wanted = f"guest={guest},".encode()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _descends(int(entry.name), session.leader.process.pid):  # type: ignore[attr-defined]
                try:
                    if wanted in (entry / "cmdline").read_bytes():
                        return int(entry.name)
                except OSError:
                    continue
    raise AssertionError("the machine has no process")


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
