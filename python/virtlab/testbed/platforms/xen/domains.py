"""The domains of a session: started side by side by `xl`, ready when their agents answer and their ports have carriers.

A domain is started in the network of its host, where its ports' back ends are brought; what is to be done about those (the
bridge, the queue) follows when they are there. Its console carries the frames of the agent inside and its kernel's words;
the process that tells them apart ends with the domain. `xentop` runs while series are wanted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from virtlab.agents import Data, Notice
from virtlab.agents.conversation import PROTOCOL
from virtlab.errors import AgentError, GuestError
from virtlab.plan import Observer, Plan, SeriesRequest
from virtlab.testbed import build
from virtlab.testbed.control import Control, RefusedError, ending
from virtlab.testbed.image.xen import SCRIPTS
from virtlab.testbed.lower import Lowered
from virtlab.testbed.operations import NamespaceAdd, Step
from virtlab.testbed.platforms.qemu.machines import CHANNELS, FIRST_CHANNEL, LOOK_S, Started
from virtlab.testbed.platforms.reach import Reach
from virtlab.testbed.platforms.xen.config import MEMORY_BYTES, MIB, Domain
from virtlab.testbed.platforms.xen.xentop import KIB, Reader

if TYPE_CHECKING:
    from virtlab.plan import Columns

TOP_CHANNEL = FIRST_CHANNEL - 1
TOP_NAMESPACE = "tool:xentop"  # of its own, so that what it costs is counted as nobody else's
BOOT_TIMEOUT_S = 600.0  # several, on a loaded machine whose processors are emulated
CARRIER_TIMEOUT_S = 120.0
TOP_TIMEOUT_S = 60.0
SERIES = ("guest.cpu", "guest.vcpus", "memory")  # that xentop tells something of
NS = 1_000_000_000
XENTOP = ("xentop", "-b", "-f")


@dataclass(slots=True)
class Domains:
    """All domains of a session. `now`: the run's clock."""

    control: Control
    plan: Plan
    lowered: Lowered
    now: Callable[[], int]
    domains: dict[str, Started] = field(default_factory=dict)
    _by_channel: dict[int, Started] = field(default_factory=dict)
    _reaches: dict[str, Reach] = field(default_factory=dict)
    _top: Reader | None = None

    def start(self, observe: Observer) -> None:
        """Starts all of them. GuestError with the end of the console when one does not come up."""
        names = [name for name in self.lowered.machines if self.plan.world.guests[name].platform == "xen"]
        observe.progress(f"start {len(names)} domains", 0.0)
        for number, name in enumerate(names):
            self._begin(name, FIRST_CHANNEL + number * CHANNELS)
        for domain in self.domains.values():
            domain.hello = self.control.send("hello", {"protocol": list(PROTOCOL)}, channel=domain.leader)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        for done, domain in enumerate(self.domains.values(), start=1):
            self._await_hello(domain, deadline, observe)
            observe.progress(f"start {len(names)} domains", done / len(names))
        late = [Step(NamespaceAdd(TOP_NAMESPACE), "collect.series"), *self.lowered.late]
        build.apply(self.control, late, observe)
        for name, domain in self.domains.items():
            build.apply(self.control, self.lowered.machines[name].steps, observe, channel=domain.leader)
        for domain in self.domains.values():
            self._await_carriers(domain)
        self._read_back()

    def guests(self) -> Mapping[str, Reach]:
        """How to talk to each."""
        return self._reaches

    def ended(self, exited: Notice) -> str | None:
        """Which domain ended, with the end of its console; that xentop did."""
        channel = int(exited.details["channel"])
        if channel == TOP_CHANNEL and self._top is not None:
            return f"xentop ended with {ending(exited)}"
        domain = self._by_channel.get(channel)
        return f"guests.{domain.name}: {_death(domain, ending(exited))}" if domain is not None else None

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its processors, memory and kernel as asked of xl, and as xentop has them."""
        domain = self.domains[guest]
        return domain.applied, domain.read_back

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Consoles."""
        for name, domain in self.domains.items():
            yield f"console-{name}.log", bytes(domain.console)

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long each domain took to come up."""
        for name, domain in self.domains.items():
            if "start_ns" in domain.read_back:
                yield f"guests.{name}", "start_ns", int(domain.read_back["start_ns"])

    def sample(self, wanted: Iterable[SeriesRequest]) -> Iterator[Columns]:
        """Ends xentop, whose rows are returned, and begins it again when a series is wanted that it tells of."""
        if self._top is not None:
            reader, self._top = self._top, None
            self._end_top()
            if reader.rows:
                yield _columns(reader)
        periods = [each.every_ns for each in wanted if each.source in SERIES]
        if periods:
            self._top = reader = Reader()
            self.control.listen(TOP_CHANNEL, lambda data: self._hear_top(reader, data))
            seconds = str(max(1, -(-min(periods) // NS)))  # xentop counts whole seconds
            self._exec_top("-d", seconds)

    def close(self) -> None:
        """Nothing is held here; domains end with their world."""
        self.control.listen(TOP_CHANNEL, None)

    # Starting

    def _begin(self, name: str, channel: int) -> None:
        guest = self.plan.world.guests[name]
        domain = Started(name, channel)
        wanted = Domain(
            name=name,
            vcpus=guest.vcpus or 1,
            memory_bytes=guest.memory_bytes or MEMORY_BYTES,
            macs=[vnic.mac for vnic in guest.vnics.values()],
        )
        taps = list(self.lowered.machines[name].taps.values())
        request = {
            "channel": channel,
            "namespace": taps[0].namespace if taps else self.lowered.guests[name],
            "argv": ["/" + SCRIPTS["guest"], name, wanted.text()],
            "descriptors": [{"kind": "agent", "channel": domain.leader, "channels": CHANNELS - 2}],
        }
        self.control.listen(channel, domain.hear)
        self.domains[name] = domain
        self._by_channel[channel] = domain
        domain.began_ns = time.monotonic_ns()
        try:
            self.control.call("exec", request)
        except RefusedError as error:
            raise GuestError(f"guests.{name}", f"its domain cannot be started: {error.what}") from error
        domain.applied = {
            "vcpus": wanted.vcpus,
            "memory_bytes": -(-wanted.memory_bytes // MIB) * MIB,
            "type": "pv",
        }
        self._reaches[name] = domain.reach

    def _await_hello(self, domain: Started, deadline: float, observe: Observer) -> None:
        where = f"guests.{domain.name}"
        hello = domain.hello
        assert hello is not None
        while not self.control.answered(hello):
            left = deadline - time.monotonic()
            if left <= 0:
                what = f"did not boot within {BOOT_TIMEOUT_S:g} s; its console ends with: {domain.tail()}"
                raise GuestError(where, what, "give it more memory, or see its console")
            if observe.cancelled():
                raise GuestError(where, "was still booting when the run was cancelled")
            how = self.control.ended(domain.process)
            if how is not None:
                raise GuestError(where, _death(domain, how), "give it more memory, or see its console")
            self.control.pump(min(LOOK_S, left))
            self._note_answers()
        self._note_answers()
        domain.read_back["agent"] = self.control.wait(hello, do="hello").get("build")

    def _note_answers(self) -> None:
        """How long each domain took until its agent answered, of those that have by now."""
        now_ns = time.monotonic_ns()
        for domain in self.domains.values():
            if domain.hello is not None and self.control.answered(domain.hello):
                domain.read_back.setdefault("start_ns", now_ns - domain.began_ns)

    def _await_carriers(self, domain: Started) -> None:
        where, namespace = f"guests.{domain.name}", self.lowered.guests[domain.name]
        links = {place.link for (owner, _), place in self.lowered.vnics.items() if owner == domain.name}
        deadline = time.monotonic() + CARRIER_TIMEOUT_S
        while True:
            try:
                seen = self.control.call("observe", {"namespaces": [namespace]}, channel=domain.leader)
            except AgentError as error:
                raise GuestError(where, f"{error.what}; its console ends with: {domain.tail()}") from error
            found = seen["namespaces"][namespace]["links"]
            down = sorted(link for link in links if not found[link].get("running"))
            if not down:
                return
            if time.monotonic() > deadline:
                raise GuestError(where, f"{', '.join(down)} had no carrier within {CARRIER_TIMEOUT_S:g} s")
            time.sleep(LOOK_S)

    # xentop

    def _read_back(self) -> None:
        """What each domain has, as the hypervisor counts it. GuestError where it is not what was asked for."""
        reader = Reader()
        self.control.listen(TOP_CHANNEL, lambda data: self._hear_top(reader, data))
        self._exec_top("-i", "1")
        deadline = time.monotonic() + TOP_TIMEOUT_S
        while (how := self.control.ended(TOP_CHANNEL)) is None and time.monotonic() < deadline:
            self.control.pump(LOOK_S)
        self.control.forget_end(TOP_CHANNEL)
        if how != "code 0":
            raise GuestError("guests", f"xentop ended with {how or 'nothing'} instead of a table")
        for name, domain in self.domains.items():
            line = reader.lines.get(name)
            if line is None:
                raise GuestError(f"guests.{name}", f"is not among the domains: {', '.join(reader.lines)}")
            domain.read_back |= {"vcpus": line.vcpus, "memory_bytes": line.memory_bytes, "disks": line.disks}
            for key in ("vcpus", "memory_bytes"):
                if abs(domain.applied[key] - domain.read_back[key]) > (0 if key == "vcpus" else 64 * KIB):
                    what = f"has {key} {domain.read_back[key]}, not {domain.applied[key]}"
                    raise GuestError(f"guests.{name}", what)

    def _exec_top(self, *options: str) -> None:
        request = {"channel": TOP_CHANNEL, "namespace": TOP_NAMESPACE, "argv": [*XENTOP, *options]}
        self.control.call("exec", request)

    def _end_top(self) -> None:
        """Kills it, and waits until it is gone: its channel is used again."""
        with contextlib.suppress(RefusedError):
            self.control.call("kill", {"channel": TOP_CHANNEL, "signal": 9})
        deadline = time.monotonic() + TOP_TIMEOUT_S
        while self.control.ended(TOP_CHANNEL) is None and time.monotonic() < deadline:
            self.control.pump(LOOK_S)
        self.control.forget_end(TOP_CHANNEL)

    def _hear_top(self, reader: Reader, data: Data) -> None:
        if data.stream == 1:
            reader.feed(data.content, self.now())


def _death(domain: Started, how: str) -> str:
    """Why a domain ended, as far as anybody said: xl while it was started, its kernel later."""
    return domain.death(how).replace("its virtual machine ended", "its domain ended")


def _columns(reader: Reader) -> Columns:
    import numpy as np

    return {
        "t_ns": np.array([row[0] for row in reader.rows], dtype=np.int64),
        "entity": np.array([row[1] for row in reader.rows], dtype=object),
        "metric": np.array([row[2] for row in reader.rows], dtype=object),
        "value": np.array([row[3] for row in reader.rows], dtype=np.float64),
    }
