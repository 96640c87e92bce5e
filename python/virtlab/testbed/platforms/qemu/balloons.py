"""Balloons of virtual machines: memory that they give back to the machine before a run.

A balloon (virtio-balloon) is a driver inside that allocates pages and tells QEMU which, so that QEMU gives them back:
until then a machine keeps whatever it has once written to. It is filled as the world is built. It gives pages back to
the guest before that guest's kernel would end a process for want of memory (`deflate-on-oom`), and is not filled again:
so machines whose balloons together make room in a pool may want more than it has, all at once, and that is
over-allocation.

The same driver tells what its kernel counts: page faults, and those that had to read their page. QEMU asks it once a
second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.errors import GuestError
from virtlab.plan import Guest, Observer
from virtlab.testbed.platforms.qemu.command import BALLOON
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.units import PAGE_BYTES

FILL_TIMEOUT_S, TELL_TIMEOUT_S = 60.0, 5.0
LOOK_S = 0.1
ASK_S = 1  # QEMU's least period
DEVICE = f"/machine/peripheral/{BALLOON}"
COUNTED = {
    "stat-minor-faults": "page_faults",
    "stat-major-faults": "major_page_faults",
}  # Linux: the first is of both
NOT_TOLD = 2**64 - 1
CURE = "leave it more memory, or see in its console whether its kernel loaded virtio_balloon"


@dataclass(slots=True)
class Balloons:
    """The balloons of a session."""

    guests: Mapping[str, Guest]
    _left: dict[str, int] = field(default_factory=dict)  # machine -> bytes that its balloon leaves it

    def fill(
        self, monitors: Mapping[str, Monitor], whole: Mapping[str, int], observe: Observer
    ) -> dict[str, int]:
        """Fills those of machines with so much memory each, side by side: how much each holds. GuestError where one
        stays smaller than asked.
        """
        wanted = [name for name in monitors if self.guests[name].balloon_bytes is not None]
        for name in wanted:
            taken = int(self.guests[name].balloon_bytes or 0) // PAGE_BYTES * PAGE_BYTES
            self._left[name] = whole[name] - taken
            monitors[name].execute("balloon", {"value": self._left[name]})
        held: dict[str, int] = {}
        deadline = time.monotonic() + FILL_TIMEOUT_S
        for name in wanted:
            while (held_bytes := whole[name] - left(monitors[name])) < whole[name] - self._left[name]:
                if observe.cancelled():
                    raise GuestError(
                        f"guests.{name}", "its balloon was being filled when the run was cancelled"
                    )
                if time.monotonic() > deadline:
                    asked = whole[name] - self._left[name]
                    what = f"its balloon holds {held_bytes} B after {FILL_TIMEOUT_S:g} s, not {asked}"
                    raise GuestError(f"guests.{name}.balloon", what, CURE)
                time.sleep(LOOK_S)
            arguments = {"path": DEVICE, "property": "guest-stats-polling-interval", "value": ASK_S}
            monitors[name].execute("qom-set", arguments)
            held[name] = held_bytes
        deadline = (
            time.monotonic() + TELL_TIMEOUT_S
        )  # a kernel need not tell, and its counters are absent then
        while any(not _statistics(monitors[name]) for name in wanted) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return held

    def counters(self, name: str, monitor: Monitor, whole_bytes: int) -> Iterator[tuple[str, int]]:
        """What a machine's balloon holds now, and what its kernel had counted at most a second ago; of others
        nothing.
        """
        if name not in self._left:
            return
        yield "balloon_bytes", whole_bytes - left(monitor)
        said = _statistics(monitor)
        for key, counter in COUNTED.items():
            if (value := int(said.get(key, NOT_TOLD))) % 2**64 != NOT_TOLD:
                yield counter, value


def _statistics(monitor: Monitor) -> dict[str, Any]:
    """What a kernel counts, as it told last; nothing before it has."""
    said = monitor.execute("qom-get", {"path": DEVICE, "property": "guest-stats"})
    return dict(said["stats"]) if int(said["last-update"]) else {}


def left(monitor: Monitor) -> int:
    """How much memory a machine has beside its balloon."""
    return int(monitor.execute("query-balloon")["actual"])
