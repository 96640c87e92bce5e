"""Virtual machines that move to another host of the world in mid-run, by QEMU's own live migration.

Beside such a guest a second QEMU waits from the start, its destination: the same machine, with taps on the other host's
virtual switch, no instruction of its own yet. The copy goes by TCP over the loopback of the network in which both
processes are, and crosses no link of the world.

The agent inside speaks through a virtual serial port, whose bytes belong to whichever QEMU runs the guest. What is for it
is held back by the world's leader from before the copy until the guest runs at the destination, where the leader
continues its stream on the destination's serial port: no frame is lost or comes twice, and its channels stay what they
are. The guest's clock stands still while it is paused, so it is compared with ours again before anything is told by it.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from virtlab.errors import AgentError, GuestError
from virtlab.plan import Action
from virtlab.testbed.kinds.moved import Look, Moved
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu.monitor import Monitor

PORT = 4444  # of the network of the guest's own processes, where nothing else listens
BANDWIDTH_BYTE_PER_S = 128 << 20  # QEMU's defaults, which a Plan means that says neither
DOWNTIME_LIMIT_NS = 300_000_000
LOOK_NS = 50_000_000
HELD_S = 5.0  # within which an agent reads what was sent to it
RESUMED_S = 10.0
CURE = "see the console of the guest; on a busy machine lower the dirty rate, or raise the bandwidth"
_NS_PER_US = 1000


@dataclass(slots=True)
class Destination:
    """The QEMU in which a guest will run."""

    process: int  # channel
    monitor: Monitor
    pid: int = 0


@dataclass(slots=True)
class Move:
    """One move under way."""

    guest: str
    action: Action
    source: Monitor
    destination: Destination
    agent: int  # channel of the leader inside
    began_ns: int = 0
    next_look_ns: int = 0
    looks: list[Look] = field(default_factory=list)

    def begin(self, control: Control, now: Callable[[], int]) -> None:
        """Holds back what is for the agent inside, and has QEMU copy. GuestError when either does not work."""
        deadline = time.monotonic() + HELD_S
        while control.call("hand_over", {"channel": self.agent, "held": True})["unread"]:
            if time.monotonic() > deadline:
                control.call("hand_over", {"channel": self.agent, "held": False})
                raise GuestError(f"guests.{self.guest}", f"its agent read nothing for {HELD_S:g} s", CURE)
        self.began_ns = now()
        self.source.execute("migrate", {"uri": f"tcp:127.0.0.1:{PORT}"})

    def look(self, now: Callable[[], int]) -> str:
        """Asks QEMU how far it is, and keeps what it says: its word for the state."""
        said = self.source.execute("query-migrate")
        memory = said.get("ram", {})
        rate = memory.get("dirty-pages-rate")
        if memory:
            self.looks.append(
                Look(
                    now(),
                    int(memory["remaining"]),
                    int(memory["transferred"]),
                    int(rate) * int(memory["page-size"]) if rate is not None else None,
                    int(memory["dirty-sync-count"]),
                )
            )
        return str(said.get("status"))

    def arrive(self, control: Control, now: Callable[[], int], realtime: Callable[[], int]) -> Moved:
        """The guest runs at the destination: its agent is reached there from now on, and what is known of the move."""
        said = self.source.execute("query-migrate")
        deadline = time.monotonic() + RESUMED_S
        while self.destination.monitor.execute("query-status")["status"] != "running":
            if time.monotonic() > deadline:
                what = f"all of it is at the destination, and it did not run there within {RESUMED_S:g} s"
                raise GuestError(f"guests.{self.guest}", what, CURE)
        control.call("hand_over", {"channel": self.agent})
        to_ours = now() - realtime()
        paused = _when(self.source, "STOP", self.guest) + to_ours
        resumed = _when(self.destination.monitor, "RESUME", self.guest) + to_ours
        memory = said["ram"]
        return Moved(
            self.began_ns,
            paused,
            resumed,
            int(said["total-time"]) * 1_000_000,
            int(memory["transferred"]),
            int(memory["dirty-sync-count"]),
            tuple(self.looks),
        )

    def give_up(self, control: Control) -> None:
        """Has QEMU stop copying: the guest runs on where it is."""
        with contextlib.suppress(GuestError):
            self.source.execute("migrate_cancel")
        self.stay(control)

    def stay(self, control: Control) -> None:
        """It is where it was: its agent is reached there again, and the destination ends."""
        control.call("hand_over", {"channel": self.agent, "held": False})
        self.destination.monitor.close()
        with contextlib.suppress(AgentError):
            control.call("kill", {"channel": self.destination.process, "signal": int(signal.SIGKILL)})


def prepare(action: Action, source: Monitor, destination: Monitor) -> dict[str, Any]:
    """Tells both ends how the guest will move, before the clock starts; the limits that were applied."""
    limits = {
        "max-bandwidth": action.bandwidth_byte_per_s or BANDWIDTH_BYTE_PER_S,
        "downtime-limit": -(-(action.downtime_limit_ns or DOWNTIME_LIMIT_NS) // 1_000_000),  # ms
    }
    source.execute("migrate-set-parameters", limits)
    destination.execute("migrate-incoming", {"uri": f"tcp:127.0.0.1:{PORT}"})
    found = source.execute("query-migrate-parameters")
    return {key.replace("-", "_"): int(found[key]) for key in limits}


def _when(monitor: Monitor, event: str, guest: str) -> int:
    """The last instant of an event by CLOCK_REALTIME, ns."""
    found = [each["timestamp"] for each in monitor.events() if each["event"] == event]
    if not found:
        raise GuestError(f"guests.{guest}", f"QEMU told no {event}", CURE)
    return (int(found[-1]["seconds"]) * 1_000_000 + int(found[-1]["microseconds"])) * _NS_PER_US


@dataclass(slots=True)
class Moving:
    """All moves of a session."""

    control: Control
    now: Callable[[], int]
    destinations: dict[str, Destination] = field(default_factory=dict)
    under_way: dict[str, Move] = field(default_factory=dict)  # by action
    moved: dict[str, Moved] = field(default_factory=dict)  # by action

    def ended(self, channel: int) -> str | None:
        """The guest whose destination has a channel."""
        return next((name for name, each in self.destinations.items() if each.process == channel), None)

    def due(self) -> Iterator[Move]:
        """Moves at which to look now."""
        now_ns = self.now()
        for move in list(self.under_way.values()):
            if now_ns >= move.next_look_ns:
                move.next_look_ns = now_ns + LOOK_NS
                yield move
