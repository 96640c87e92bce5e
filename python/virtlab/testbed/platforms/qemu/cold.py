"""Guests that are shut down at their host and boot at another one: `mode: cold`.

Beside such a guest a second QEMU waits from the start, too, but for no memory: it is the same machine, switched on with
its processors held. The guest powers itself off by its own kernel (`poweroff`). Once QEMU says that it is off, its
agent's stream becomes that of the destination, whose processors are let go, and firmware and kernel begin there. The
guest gets its network again, as after a reset.

What ran in the guest is gone: who arms its servers again is the action (`play/actions/migrate.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from virtlab.agents.requests.leader import Exec, HandOver
from virtlab.errors import GuestError
from virtlab.plan import Action
from virtlab.testbed.kinds.moved import Moved
from virtlab.testbed.leader.channels import MACHINES
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.testbed.platforms.qemu.moving import CURE, LOOK_NS, Destination, hold_back, when

OFF = "shutdown"  # QEMU's word
CHANNEL = MACHINES.each - 3  # the last of the leader inside, as it counts them
POWER_OFF = ("poweroff", "-f")  # no service of a system of ours has to be stopped first


@dataclass(slots=True)
class ColdMove:
    """One under way."""

    guest: str
    action: Action
    source: Monitor
    destination: Destination
    agent: int  # channel of the leader inside
    network: str  # the name of the guest's network, inside, too
    began_ns: int = 0
    off_ns: int = 0  # when its kernel had switched it off
    next_look_ns: int = 0
    look_ns: int = LOOK_NS
    entries: tuple[tuple[int, str], ...] | None = None  # fixed ones that were changed
    there: bool = False  # it was switched on at the destination

    def begin(self, control: Control, now: Callable[[], int]) -> None:
        """Has the guest shut down. GuestError when its agent reads nothing."""
        self.source.execute(
            "set-action", {"shutdown": "pause"}
        )  # else its process would end before it told when
        self.began_ns = now()
        # Its answer may never come: on one processor the guest may be off before.
        program = Exec(self.agent + CHANNEL, self.network, POWER_OFF)
        control.tell(program, channel=self.agent)
        hold_back(control, self.guest, self.agent)

    def look(self, control: Control, now: Callable[[], int]) -> bool:
        """Switches it on at the destination once it is off; whether it was now."""
        if self.there or self.source.execute("query-status")["status"] != OFF:
            return False
        if (how := control.ended(self.destination.process)) is not None:
            what = f"it is shut down, and the machine at its destination ended with {how}"
            raise GuestError(f"guests.{self.guest}", what, CURE)
        self.off_ns = when(self.source, "SHUTDOWN", self.guest) + now() - time.time_ns()
        control.call(HandOver(self.agent))
        self.destination.monitor.execute("cont")
        self.there = True
        return True

    def arrive(self, now_ns: int) -> Moved:
        """It has booted, and has its network: what is known of the move."""
        on_ns = when(self.destination.monitor, "RESUME", self.guest) + now_ns - time.time_ns()
        return Moved(
            self.began_ns, self.began_ns, now_ns, now_ns - self.began_ns, 0, 0, boot=(self.off_ns, on_ns)
        )

    def give_up(self, _: Control) -> None:
        """Raises GuestError: a shutdown cannot be cancelled."""
        what = f"it was {'booting at' if self.there else 'shutting down to go to'} {self.action.to} when its time-out passed"
        raise GuestError(f"guests.{self.guest}", what, "give it more time")
