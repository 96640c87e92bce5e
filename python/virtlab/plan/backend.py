"""Who plays a Plan: `Backend` refuses or opens, `Session` is a built world, `Sink` takes what it measures.

Nothing above this line knows whether a testbed or a simulator ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from virtlab.lazy import NDArray
from virtlab.plan.model import Action, Plan

Columns = Mapping[
    str, "NDArray[Any]"
]  # by column name of the block's schema; equal lengths; names as object/str arrays
Status = Literal["ok", "tainted", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a Plan cannot be played here: where in the Plan, the reason, the cure."""

    path: str
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The kinds that a backend can play on this machine."""

    backend: str
    platforms: Mapping[str, str | None]  # kind -> None when it works, else the reason it does not
    vswitches: Mapping[str, str | None]
    qdiscs: Mapping[str, str | None]  # "fifo/kernel", "fifo/virtlab", ...
    workloads: Mapping[str, str | None]
    actions: Mapping[str, str | None]
    links: Mapping[str, str | None]  # realisations: netem, soft_switch, shaping
    parallel_sessions: int
    fingerprint: Mapping[str, str]  # machine, kernel, CPU, versions


@dataclass(frozen=True, slots=True)
class Trial:
    """One pass of the timeline: allowed overrides `role.parameter -> value`, its seed, and `also`, actions that are
    played besides the Plan's."""

    id: str
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Action, ...] = ()

    def plan(self, plan: Plan) -> Plan:
        """The Plan as this trial plays it."""
        return plan.model_copy(update={"timeline": (*plan.timeline, *self.also)}) if self.also else plan


@dataclass(frozen=True, slots=True)
class Mark:
    """When an event happened, on the run's clock, and within what bound."""

    t_ns: int
    bound_ns: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened during a run, kept in the dataset. `what` is `ACTION.EVENT` or a word of the backend."""

    t_ns: int
    what: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended. `windows` are ns intervals on the run's clock; `censored` are waits that did not end.

    `blame` says who can mend what failed, where that is the machine's owner: such a run says nothing of the experiment.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    marks: Mapping[str, Mark] = field(default_factory=dict)
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clocks: Mapping[str, Any] = field(default_factory=dict)
    censored: tuple[str, ...] = ()
    blame: Literal["", "machine"] = ""


@dataclass(frozen=True, slots=True)
class RealisedObject:
    """One object of the world as intended, applied and read back; `by` names the realisation."""

    intended: Mapping[str, Any]
    applied: Mapping[str, Any]
    read_back: Mapping[str, Any]
    by: str


@dataclass(frozen=True, slots=True)
class Realised:
    """The built world, per object path of the Plan, and the versions of what built it."""

    objects: Mapping[str, RealisedObject]
    versions: Mapping[str, str] = field(default_factory=dict)

    def link_realisation(self) -> str:
        """The realisation of the links ('soft_switch', 'netem', 'shaping', 'none'); results of different ones never
        pool.
        """
        used = sorted({obj.by for path, obj in self.objects.items() if path.startswith("links.")})
        return "+".join(used) if used else "none"


@dataclass(frozen=True, slots=True)
class Access:
    """How a person reaches a kept world: guests by name with their addresses, and where its socket is."""

    guests: Mapping[str, tuple[str, ...]]
    socket: str | None = None


@runtime_checkable
class Observer(Protocol):
    """Receives progress, and decides whether to continue."""

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """What is being done now, and how far it is (0..1, None = unknown)."""

    def cancelled(self) -> bool:
        """True once the run should end early."""


class Unobserved:
    """An observer for work that is not watched: it shows nothing and never cancels."""

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """Not shown."""

    def cancelled(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a role saw in the last `over_ns` of a run under way: for people, never a result. None: not reported.

    `rate_per_s` counts packets, answers or transactions, `time_ns` is the mean until an answer came.
    """

    role: str
    over_ns: int
    rate_per_s: float
    received_bit_per_s: float | None
    time_ns: float | None
    loss_ratio: float | None


@runtime_checkable
class Watcher(Observer, Protocol):
    """An observer that also wants to see what roles see, about so often (None: not at all)."""

    live_every_ns: int | None

    def live(self, readings: Sequence[Reading]) -> None:
        """Readings of each role since the last call."""


@runtime_checkable
class Sink(Protocol):
    """Takes samples of one run; given by campaign, implemented by results."""

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Rows of one schema from one stream (a role or series source). Returns once they are safely held."""

    def event(self, event: Event) -> None:
        """One event."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """A file kept beside the samples."""


@runtime_checkable
class Session(Protocol):
    """A built world. A context manager; leaving it leaves nothing behind."""

    realised: Realised

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        """Plays the timeline once; can be called again."""

    def describe(self) -> Access:
        """The addresses and the socket by which a person reaches the world."""

    def __enter__(self) -> Self:
        """The session itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the world down."""


@runtime_checkable
class Backend(Protocol):
    """Plays Plans: `testbed` for real, `simulator` in virtual time."""

    def capabilities(self) -> Capabilities:
        """What works here, with reasons for what does not."""

    def check(self, plan: Plan) -> list[Refusal]:
        """Every reason not to open this Plan, found before anything is built."""

    def estimate_ns(self, plan: Plan) -> int:
        """About how long one run takes, build and teardown included."""

    def open(self, plan: Plan, observe: Observer) -> Session:
        """Builds the world. MachineError or GuestError when that fails; nothing is left half-built."""
