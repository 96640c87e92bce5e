"""What a declaration says: a parameter's name in the file and in the Plan, a workload's streams, metrics and cost.

Declarations hold no behaviour of an arm; the testbed and the simulator each have their own file per entry. A
declaration is equal to itself alone (`eq=False`): there is one of each name, and no start of a command waits for a
comparison that nothing asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol

from pydantic_core import from_json  # loaded at every start, which the standard reader is not

from virtlab.catalogue.kinds import PACKET_SIZE, Kind
from virtlab.units import Duration, PacketSize, Size

Values = Mapping[str, Any]
Transport = Literal["icmp", "udp", "tcp", "ethernet"]
Pushback = Literal["uplink", "guest"]  # where frames wait for a host's wire by default
Arms = Mapping[str, str | None]  # arm -> None when it plays this, else why not
NOT_PLAYED = "nothing plays it there"
ALL_ARMS: Arms = MappingProxyType({"testbed": None, "simulator": None})
SHARED: Final[Any] = object()  # a default of `defaults.json`, which the players of a Plan read, too
_SHARED: dict[str, dict[str, Any]] = from_json(
    Path(__file__).with_name("workloads").joinpath("defaults.json").read_bytes()
)


def usual(workload: str, parameter: str) -> Any:
    """What a Plan means where it leaves a parameter out; KeyError if that has no default for files and Plans alike.

    >>> usual("rtt", "timeout_ns")
    1000000000
    """
    return _SHARED[workload][parameter]


def _written(parameter: str, value: Any) -> Any:
    """A value of a Plan as a file would hold it: in the largest unit that leaves a whole number.

    >>> _written("message_bytes", 16384), _written("timeout_ns", 5 * 10**9), _written("phase_ns", 0), _written("path", "/")
    ('16 KiB', '5 s', '0 ns', '/')
    """
    units = {"ns": Duration.units, "bytes": Size.units}.get(parameter.rpartition("_")[2])
    if units is None:
        return value
    name, size = max(units.items(), key=lambda unit: (unit[1] <= value and value % unit[1] == 0, unit[1]))
    return f"{value // size} {name}" if value else f"0 {next(iter(units))}"


class Declared(Protocol):
    """The fields that every declaration has."""

    @property
    def arms(self) -> Arms:
        """Who plays it."""


def _nothing_more(_: Values) -> list[tuple[str, str]]:
    return []


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One key of the file: `plan` is its name in the Plan ('*_bytes' takes the layer of a packet size as prefix)."""

    name: str
    kind: Kind
    plan: str
    meaning: str
    default: Any = None  # as a file would hold it, or `SHARED`; None: it has no default
    required: bool = False
    in_image: bool = False  # of a program: where it is absent, the image of its container says it
    tunable: bool = False  # it can change while its role runs, too
    at_start: Kind | None = (
        None  # what a role can have from its start, where that is more than it can be set to
    )

    def plan_values(self, written: Any, *, at_start: bool = False) -> dict[str, Any]:
        """Plan names and values of what the file holds; ValueError("WHAT; CURE") when it is wrong.

        >>> from virtlab.catalogue.kinds import DURATION
        >>> Parameter("interval", DURATION, "interval_ns", "between requests").plan_values("10 ms")
        {'interval_ns': 10000000}
        """
        kind = self.at_start if at_start and self.at_start is not None else self.kind
        value = kind.parse(written)
        if isinstance(value, PacketSize):
            return {f"{value.layer}_bytes": value.size_bytes}
        if isinstance(value, tuple):
            name, number = value
            return {name: number}
        return {self.plan: value}


def _completed(parameters: Iterable[Parameter], values: Values) -> dict[str, Any]:
    usual = [entry.plan_values(entry.default) for entry in parameters if entry.default is not None]
    return {key: value for one in usual for key, value in one.items()} | dict(values)


@dataclass(frozen=True, slots=True, eq=False)
class AtService:
    """How a role may end at a service instead of a server of virtlab's own."""

    speaks: Callable[[Values], str]  # the protocol that the service has to speak, too
    without: Callable[
        [Values], Mapping[str, str]
    ]  # parameters, by their names in the file, that such a role does not have -> why
    only: Callable[[Values], list[tuple[str, str]]]  # (parameter, why) of values that other roles cannot have
    whole: bool = False  # it asks a service at all of its guests, never one of them
    places: bool = False  # its rows say at which server of the service each request entered
    does_not_fit: Callable[[Values, Values], list[str]] = (
        lambda _role, _service: []
    )  # "WHAT; CURE" of a service's parameters that such a role cannot ask for


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A workload: what the file may say of it, what it measures, and what it costs."""

    name: str
    meaning: str
    part: Literal["measure", "load"]  # runs to its own end, or runs beside until it is stopped
    parameters: tuple[Parameter, ...]
    streams: Mapping[str, str]  # block schema -> which side sends it ('from', 'to')
    metrics: frozenset[str]  # keys of those that it measures
    transport: Callable[[Values], Transport | None]  # what carries its packets; None: it sends nothing
    duration_ns: Callable[[Values], int | None]  # of one run; None: until it is stopped
    rows: Callable[[Values, int], Mapping[str, int]]  # schema -> rows for that many ns of traffic
    check: Callable[[Values], list[tuple[str, str]]] = (
        _nothing_more  # (parameter, "WHAT; CURE") across parameters
    )
    lowered: Callable[[Values], Values] = lambda values: (
        values
    )  # as the Plan says what the file says otherwise
    idle: Callable[[Values], bool] = lambda _: False  # True: the values ask for no traffic at all
    never: Callable[[Values], frozenset[str]] = lambda _: (
        frozenset()
    )  # metrics that a role with these Plan values cannot have
    meters: tuple[str, ...] = ("virtlab",)
    alone: bool = (
        False  # it sends no traffic: a role of it has a `from` and no `to`, its parameters are of that guest
    )
    told_by: frozenset[str] = frozenset(
        {"testbed"}
    )  # arms that know while it runs how much has come, or what its program has printed
    moves: bool = False  # its guest may move to another host meanwhile: it compares no clock with another's
    budgeted: bool = False  # its guest gets a budget of processor time each period
    command: bool = (
        False  # a command in its first guest plays it, and no probe: the other end is only an address
    )
    directory: str | None = None  # parameter that names a directory of its guest, in which it makes files
    parts: bool = False  # its flows, tasks or tested loads have values of their own: ROLE.PART
    part_rows: Callable[[Values], Mapping[str, Mapping[str, int]]] | None = (
        None  # by their names, what columns of their rows hold, where Plan values say it; None: a run says their numbers
    )
    packets_per_s: Callable[[Values], float] | None = (
        None  # that each of its ends handles, where that is known beforehand
    )
    pace: str | None = None  # Plan parameter of a stream's rate, without which it sends as fast as possible
    endless: bool = False  # it sends as fast as the other end lets it
    turns: Callable[[Values], bool] = lambda _: (
        False
    )  # True: a request waits for the response to the one before
    echoes: bool = False  # the far end returns each packet as it is, so that its jitter is of round trips
    envelope: str | None = (
        None  # by which rule its traffic is bounded (prediction.bound.sources); None: by none
    )
    one_way: Callable[[Values], bool] = lambda _: False  # True: nothing comes back, acknowledgements included
    grace_ns: int = 0  # after a stop, for which replies are awaited
    tells: Callable[[Values], str | None] = lambda _: (
        None
    )  # schema of the rows that calibration learns costs from
    works: Callable[[Values], bool] = lambda _: (
        False
    )  # True: its far end does counted work, whose rate is measured outside guests
    quota_us: Callable[[Values], tuple[int, int] | None] = lambda _: (
        None
    )  # CPU quota and period that its guest needs
    at_service: AtService | None = None  # None: its far end is always virtlab's own
    traced: str | None = (
        None  # parameter that names a trace, whose times are the Plan's '*_ns', and '*_period_ns' its period
    )
    stands_in: Mapping[str, str] = field(
        default_factory=dict
    )  # arm that does not run it -> the parameter by which it is played there all the same
    arms: Arms = field(default_factory=lambda: dict(ALL_ARMS))

    def __post_init__(self) -> None:
        known = [
            replace(entry, default=_written(entry.plan, usual(self.name, entry.plan)))
            if entry.default is SHARED
            else entry
            for entry in self.parameters
        ]
        object.__setattr__(self, "parameters", tuple(known))

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that file name, or None."""
        return next((entry for entry in self.parameters if entry.name == name), None)

    def complete(self, values: Values) -> dict[str, Any]:
        """A Plan's values, and the usual ones of what it leaves out."""
        return _completed(self.parameters, values)

    def fills(self, values: Values) -> bool:
        """Whether it takes all of a link that it can get."""
        if self.pace is not None:
            return values.get(self.pace) is None
        return self.endless and not self.turns(values)

    @property
    def tunable(self) -> dict[str, Parameter]:
        """Parameters that can change while a role of it runs, by their names in the Plan."""
        return {entry.plan: entry for entry in self.parameters if entry.tunable}


class Features(NamedTuple):
    """What a platform is to those who choose one, as `virtlab platforms` prints it."""

    type: str  # where it sits: on the hardware, in an operating system, ...
    virtualisation: tuple[str, ...]  # by what means guests are kept apart
    own_kernel: bool  # a guest boots a kernel of its own
    migration: str  # what virtlab does not play is said to be somebody else's
    snapshots: str
    licence: str


class Reset(NamedTuple):
    """What a reset of a guest is: as much of a device's reset as its platform has."""

    how: str
    boots: bool = False  # its kernel begins again: whatever ran in it is gone
    anew: bool = False  # its ports are new ones, which count from zero


BY_LINKS = Reset("all its vNICs down and up, routes and neighbours given back")


MODEL_DISK = (
    "size",
    "medium",
    "write_cache",
    "rate",
    "latency",
    "service",
    "block",
)  # takes the time of a model
FOLDER_DISK = ("size", "medium", "service", "block")  # a folder in memory, or on a store
VCPUS = 1  # of a virtual machine whose file says nothing


class Platform(NamedTuple):
    """How a guest exists. `guests_max` is per host; `vswitch` says whether its guests stand on a virtual switch."""

    name: str
    meaning: str
    guests_max: int | None
    vswitch: bool
    limits: tuple[str, ...]  # which of 'cpu', 'memory', 'swap', 'vcpus', 'pool', 'balloon' it can bound
    features: Features
    vnic_models: tuple[
        str, ...
    ] = ()  # devices that a guest can see, the default first; none: the kernel's own port
    runtimes: tuple[str, ...] = ()  # programs that can run its guests, the default first
    images: bool = False  # its guests can have a root file system by name
    disk: tuple[
        str, ...
    ] = ()  # what a disk of its guests beside what they boot can have; nothing: they have none
    disks: bool = False  # its guests can boot a disk image, by its path
    agentless: bool = False  # no agent of ours runs in its guests
    existing: bool = False  # its guests are found, not made: one is its whole host
    domains: bool = False  # a hypervisor's daemon starts them for the run, each by the name of its domain
    shares_files: bool = False  # its guests have no files of their own: a command there sees the machine's
    start_ns: int = 5_000_000  # about how long a guest takes to start, of a machine of two processors
    reset: Reset | None = BY_LINKS  # None: it cannot be reset
    moves: tuple[str, ...] = ()  # how its guests move to another host while a run plays: modes of `migrate`
    own_groups: bool = False  # its runtime makes and reads the control groups that bound a guest
    late_ports: bool = False  # ports at its host's virtual switch come with the guest, and are set up then
    locked_offloads: tuple[str, ...] = ()  # offloads that the driver of its vNICs cannot turn off
    hypervisor: str = ""  # what has to be beneath the machine: the laboratory (`--in`) that boots it
    inside: bool = False  # a laboratory machine holds all that its guests need
    inside_bytes: int = 3 << 20  # memory of a laboratory machine that a guest with a probe takes
    pushback: Pushback = "uplink"  # where frames of its guests wait for the wire, if their host says nothing
    arms: Arms = ALL_ARMS

    @property
    def disk_is_folder(self) -> bool:
        """Whether a disk of its guests is a folder: in memory it has a size, takes no time, and nothing of it is
        counted.
        """
        return bool(self.disk) and "rate" not in self.disk

    def lacks_of_disk(self, said: Iterable[str]) -> list[str]:
        """The keys of those said of a disk that no disk of its guests can have."""
        return [key for key in said if key not in self.disk]

    def vcpus(self, said: int | None) -> int | None:
        """The virtual processors of a guest whose file says so many, or nothing; None where its guests have none.

        The testbed boots as many (`VCPUS`), so that a machine of one file is the same machine on both arms.
        """
        return (said or VCPUS) if "vcpus" in self.limits else None

    @property
    def shares_kernel(self) -> bool:
        """Whether the kernel of the machine forwards its packets, by the machine's clock and on its processors."""
        return not self.features.own_kernel

    @property
    def is_host(self) -> bool:
        """Whether its one guest is its host itself, on the host's own port."""
        return not self.vswitch and not self.existing

    @property
    def is_stack(self) -> bool:
        """Whether a guest is a network stack of the machine's kernel, and no process until something runs in it."""
        return self.shares_kernel and self.shares_files


class VirtualSwitch(NamedTuple):
    """A kind of virtual switch inside a host."""

    name: str
    meaning: str
    ports_max: int
    parameters: tuple[Parameter, ...] = ()
    process: bool = False  # a process forwards its frames, not the kernel
    pushback: Pushback = "uplink"  # where frames of its guests wait for the wire, if its host says nothing
    interface: bool = False  # it is an interface of its host, which speaks IPv6 itself
    inside: bool = False  # the laboratory machines have it
    inside_bytes: int = (
        0  # memory of a laboratory machine that the programs of each host with such switches take
    )
    arms: Arms = ALL_ARMS

    def unknown(self, given: Values) -> list[str]:
        """Names of a Plan's parameters that it does not have."""
        return sorted(given.keys() - {entry.plan for entry in self.parameters})


class TimelineAction(NamedTuple):
    """A step that a timeline can take: what the file says of it, what it does to its role or guest, and which
    events it reports.

    Every action has the keys `id`, `after`, `timeout` and `on_timeout` besides its own.
    """

    name: str
    meaning: str
    events: frozenset[str]
    keys: tuple[str, ...] = ()
    to_role: Literal["begins", "ends", "tunes"] | None = None
    to_guest: Literal["commands", "moves", "restarts"] | None = None
    open_ended: bool = False  # a run does not wait for its end
    arms: Arms = ALL_ARMS

    @property
    def played(self) -> bool:
        """Whether any arm plays it, so that a file may ask for it."""
        return None in self.arms.values()


@dataclass(frozen=True, slots=True, eq=False)
class ServiceOperation:
    """What the timeline can have done to the servers of a service."""

    meaning: str
    ends: bool = False  # they are killed
    starts: bool = False  # then those that are not there are started
    empties: bool = False  # with nothing of what they held
    of_one: bool = False  # of one guest, which `args` names; False: of all, unless it names one


class StoreForm(NamedTuple):
    """A form of a store to those who choose one, as `virtlab services` prints it."""

    name: str  # what the file says
    interface: str  # what a client asks, and by what
    lookup: str  # how the nodes that hold an object are found
    placement: str  # on which nodes copies lie
    redundancy: str  # how many copies, and which stand before an answer
    heals: str  # who makes lost copies again
    like: str  # the system whose choice it is; none of them is played


@dataclass(frozen=True, slots=True, eq=False)
class ServiceKind:
    """A kind of service: what the file may say of one beside its guests, what it needs, and when it is ready."""

    name: str
    meaning: str
    parameters: tuple[Parameter, ...] = ()
    operations: Mapping[str, ServiceOperation] = field(
        default_factory=dict
    )  # that the timeline calls, by name
    progresses: Mapping[str, str] = field(default_factory=dict)  # that a wait polls: name -> when it holds
    executes: Callable[[Values], tuple[tuple[str, ...], ...]] = lambda _: (
        ()
    )  # commands that its guests execute for a file: of the file, or of this machine's packages
    speaks: frozenset[str] = frozenset()  # protocols that a client can ask it in
    stands_in: Mapping[str, str] = field(
        default_factory=dict
    )  # arm that does not run it -> the parameter by which it is played there all the same
    port: int | None = None  # at which it listens unless its `ready` says another; None: it says so itself
    check: Callable[[Values], list[tuple[str, str]]] = (
        _nothing_more  # (parameter, "WHAT; CURE") across parameters
    )
    placed: Callable[[Values, Sequence[str]], list[tuple[str, str]]] = lambda _, __: (
        []
    )  # the same across parameters and the guests that it is on
    active: str | None = (
        None  # parameter that names the guest of its active server, to which those of its other guests forward
    )
    whole: str | None = (
        None  # the workload that asks it, at all of its guests; None: roles end at one of them
    )
    more_guests: str | None = None  # parameter that names guests that it is on beside those of 'on'
    forms: tuple[StoreForm, ...] = ()  # of a store
    arms: Arms = field(default_factory=lambda: dict(ALL_ARMS))

    def complete(self, values: Values) -> dict[str, Any]:
        """A Plan's values, and the usual ones of what it leaves out."""
        return _completed(self.parameters, values)


def why_not(kind: ServiceKind | Workload, arm: str, values: Values) -> str | None:
    """Why an arm does not play a service or a role of such values; None where it does."""
    if kind.stands_in.get(arm) in values:
        return None
    return kind.arms.get(arm, NOT_PLAYED)


def size_parameter(default: str | None, *, required: bool = False) -> Parameter:
    """The size of a packet; the Plan holds exactly one of frame_bytes, ip_packet_bytes, payload_bytes."""
    return Parameter(
        "size",
        PACKET_SIZE,
        "*_bytes",
        "size of one packet, and what it is the size of",
        default,
        required=required,
    )


def size_of(values: Values) -> tuple[str, int]:
    """(layer, bytes) of a workload's packet size in Plan values; ('payload', 0) when it has none."""
    for layer in ("frame", "ip_packet", "payload"):
        if f"{layer}_bytes" in values:
            return layer, int(values[f"{layer}_bytes"])
    return "payload", 0


def played(entries: Mapping[str, Declared], arm: str) -> tuple[str, ...]:
    """Names of the declarations that an arm plays."""
    return tuple(name for name, entry in entries.items() if entry.arms.get(arm, NOT_PLAYED) is None)
