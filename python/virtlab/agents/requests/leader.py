"""Requests to a leader, which builds a world, starts what runs in it, and reads it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.agents.replies import Counted, Echoes, Observed, Placed, ServedDisks, Started, Tried, Worked
from virtlab.agents.requests.descriptors import Descriptor
from virtlab.agents.requests.request import Anything, Request


@dataclass(frozen=True, slots=True)
class Apply(Request[Anything]):
    """Kernel operations in order, all or nothing."""

    do = "apply"
    batch: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Observe(Request[Observed]):
    """What the kernel has in networks."""

    do = "observe"
    namespaces: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorkRate(Request[Worked]):
    """How fast a processor is."""

    do = "work_rate"


@dataclass(frozen=True, slots=True)
class Ping(Request[Echoes]):
    """An answered echo per pair, until the deadline."""

    do = "ping"
    pairs: Sequence[Mapping[str, Any]]
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class TryQdiscs(Request[Tried]):
    """Which queue disciplines the kernel has."""

    do = "try_qdiscs"
    kinds: Sequence[str]


@dataclass(frozen=True, slots=True)
class Spawn(Request[Started]):
    """Starts the agent itself as a probe or soft switch, on a channel."""

    do = "spawn"
    channel: int
    role: str
    namespace: str
    cpus: Sequence[int] | None = None
    fifo_priority: int | None = None
    cgroups: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Exec(Request[Started]):
    """Runs a command, on a channel."""

    do = "exec"
    channel: int
    namespace: str
    argv: Sequence[str]
    network: str | None = None
    environment: Mapping[str, str] | None = None
    terminal: Mapping[str, int] | None = None
    cpus: Sequence[int] | None = None
    cgroups: Sequence[str] | None = None
    descriptors: Sequence[Descriptor] | None = None
    confined: bool | None = None
    user: str | None = None
    folder: str | None = None
    host: str | None = None

    def wire(self) -> Anything:
        """As it is sent."""
        values = super(Exec, self).wire()  # `super()` has the class before its slots
        if self.descriptors is not None:
            values["descriptors"] = [each.wire() for each in self.descriptors]
        return values


@dataclass(frozen=True, slots=True)
class Resize(Request[Anything]):
    """Gives the terminal of a command another size."""

    do = "resize"
    channel: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Kill(Request[Anything]):
    """Signals what runs on a channel."""

    do = "kill"
    channel: int
    signal: int


@dataclass(frozen=True, slots=True)
class HandOver(Request[Anything]):
    """Holds back (`held`) or releases what is for an agent; with neither, that agent continues on its heir's stream."""

    do = "hand_over"
    channel: int
    held: bool | None = None


@dataclass(frozen=True, slots=True)
class Sample(Request[Anything]):
    """Begins series; with none, ends those that were begun."""

    do = "sample"
    sources: Sequence[Mapping[str, Any]]
    hold: bool | None = None
    shared: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class ReadCounters(Request[Counted]):
    """Counters of whole groups."""

    do = "counters"
    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class Places(Request[Placed]):
    """On which processors threads may run."""

    do = "placed"


@dataclass(frozen=True, slots=True)
class Mount(Request[Anything]):
    """Gives what is started in a namespace a disk on a store as a folder."""

    do = "mount"
    namespace: str
    disk: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Disks(Request[ServedDisks]):
    """The disks that it serves."""

    do = "disks"


@dataclass(frozen=True, slots=True)
class Keep(Request[Anything]):
    """The world outlives its stream, and listens on a socket."""

    do = "keep"
    socket: str
    idle_ns: int
