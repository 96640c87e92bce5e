"""A platform and a virtual switch that nothing in virtlab names: a declaration each, and a tiny implementation.

`pause` has guests that are namespaces, and one more thing: who starts them waits a moment first, and says how long. `hub` is
the kernel's bridge that learns nothing and is told nothing, so every frame goes to every port.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from virtlab.catalogue import PLATFORMS, VSWITCHES, Features, Platform, VirtualSwitch
from virtlab.plan import Observer
from virtlab.testbed.kinds.platform import Counted, GuestPlatform, Running
from virtlab.testbed.kinds.registry import platforms, vswitches
from virtlab.testbed.kinds.switch import SwitchKind
from virtlab.testbed.vswitches.linux_bridge import Bridge

UNMEASURED = "nobody has measured what it costs"
PAUSE_NS = 1_000_000

PAUSE = Platform(
    name="pause",
    meaning="a namespace whose start takes a moment",
    guests_max=None,
    vswitch=True,
    limits=(),
    features=Features(
        type="in an operating system",
        virtualisation=("namespaces",),
        own_kernel=False,
        migration="none",
        snapshots="none",
        licence="any",
    ),
    shares_files=True,
    arms={"testbed": None, "simulator": UNMEASURED},
)
HUB = VirtualSwitch(
    name="hub", meaning="a bridge that floods every frame", ports_max=1024, arms={"testbed": None}
)


class Paused(Running):
    """Guests of a session."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def start(self, observe: Observer) -> None:
        observe.progress("pause")
        time.sleep(PAUSE_NS / 1e9)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        assert guest in self.names
        return {"pause_ns": PAUSE_NS}, {}

    def counters(self) -> Iterator[Counted]:
        return ((f"guests.{name}", "start_ns", PAUSE_NS) for name in self.names)


class Repeater(Bridge):
    """One hub."""

    def known(self, mac: str, port: str) -> None:
        """It is told nothing."""


def declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declares and registers both, until the test ends."""
    monkeypatch.setitem(PLATFORMS, PAUSE.name, PAUSE)
    monkeypatch.setitem(VSWITCHES, HUB.name, HUB)
    platforms.register(PAUSE.name, GuestPlatform(running=lambda world, names: Paused(names)))
    vswitches.register(
        HUB.name, SwitchKind(lambda vswitch, namespace, link, told: Repeater(namespace, link, learning=False))
    )
