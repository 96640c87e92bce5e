"""xentop beside the domains: once to see what the hypervisor gave each of them, and as long as series are wanted.

xentop (libxenstat) finds a guest's ports in `/proc/net/dev`, which lists those of its own network namespace, and
knows whose they are by `/sys/class/net`, which lists those of the namespace that mounted it. Ports are in their
host's network, so there is one xentop for each host that domains have ports at, moved there with a `/sys` of its
own. What it costs is counted as `tool:xentop` all the same: by where it was started. A bridge of the host must be
among what `/sys` lists, or libxenstat takes ports for a bonded bridge; and it takes a port whose name holds that of
the bridge for the bridge itself. A domain of which it does not list all ports has no rates here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from virtlab.agents import Data, Notice
from virtlab.agents.requests.leader import Exec, Kill
from virtlab.errors import GuestError, MachineError
from virtlab.testbed.image.xen import SCRIPTS
from virtlab.testbed.leader.channels import XENTOP
from virtlab.testbed.leader.control import Control, RefusedError, ending, outcome
from virtlab.testbed.platforms.qemu.machines import LOOK_S
from virtlab.testbed.platforms.xen.xentop import DOMAIN_0, Line, Reader, Row

NAMESPACE = "tool:xentop"  # of its own, so that what it costs is counted as no other's
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """A network with ports of domains: a process that is in it, and how many each domain has there."""

    pid: Callable[[], int]
    ports: Mapping[str, int]


@dataclass(slots=True)
class Watch:
    """xentop at each of the places; `now`: the run's clock."""

    control: Control
    now: Callable[[], int]
    places: Sequence[Place]
    readers: dict[int, Reader] = field(default_factory=dict)  # channel -> what it reports

    def look(self) -> dict[str, Line]:
        """Each domain as it is now. GuestError when xentop does not list it."""
        self._start("-i", "1")
        deadline = time.monotonic() + TIMEOUT_S
        while self._running() and time.monotonic() < deadline:
            self.control.await_news(LOOK_S)
        lines: dict[str, Line] = {}
        for channel, reader in self.readers.items():
            self.control.forget_end(channel)
            if outcome(how := self.control.ended(channel)) != "code 0":
                raise GuestError("guests", f"xentop ended with {how or 'nothing'} instead of a table")
            lines |= {name: line for name, line in reader.lines.items() if name in reader.ports}
        self.readers.clear()
        return lines

    def begin(self, seconds: int) -> None:
        """From now on every so many seconds."""
        self._start("-d", str(seconds))

    def end(self) -> list[Row]:
        """What it has written since it began; kills it, and waits until it is gone: its channels are used again."""
        rows = [row for reader in self.readers.values() for row in reader.rows]
        for channel in self.readers:
            with contextlib.suppress(RefusedError):
                self.control.call(Kill(channel, 9))
        deadline = time.monotonic() + TIMEOUT_S
        while self._running() and time.monotonic() < deadline:
            self.control.pump(LOOK_S)
        for channel in self.readers:
            self.control.forget_end(channel)
        self.readers.clear()
        return rows

    def forget(self, name: str) -> None:
        """A domain was taken away: one of its name begins from zero."""
        for reader in self.readers.values():
            reader.forget(name)

    def ended(self, exited: Notice) -> MachineError | None:
        """How one of them ended by itself; None of anything else."""
        if int(exited.details["channel"]) in self.readers:
            return MachineError("", f"xentop ended with {ending(exited)}")
        return None

    def close(self) -> None:
        """Hears nothing more."""
        for number in range(len(self.places)):
            self.control.listen(XENTOP.at(number), None)

    def _start(self, *options: str) -> None:
        for number, place in enumerate(self.places):
            channel = XENTOP.at(number)
            reader = Reader({DOMAIN_0: 0, **place.ports} if number == 0 else place.ports)
            self.readers[channel] = reader
            self.control.listen(channel, lambda data, to=reader: self._hear(to, data))  # type: ignore[misc]
            argv = ["/" + SCRIPTS["top"], str(place.pid()), "-b", "-f", "-n", *options]
            self.control.call(Exec(channel, NAMESPACE, argv))

    def _running(self) -> bool:
        return any(self.control.ended(channel) is None for channel in self.readers)

    def _hear(self, reader: Reader, data: Data) -> None:
        if data.stream == 1:
            reader.feed(data.content, self.now())
