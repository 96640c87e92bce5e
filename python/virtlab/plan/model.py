"""The Plan: one design point and repetition, as canonical JSON with a schema version.

Identity is the hash of that JSON, so equal intent has equal identity on every machine.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from virtlab.units import SECTOR_BYTES
from virtlab.units.ethernet import MTU_BYTES

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=64)]
# What stands for a port of a guest has its names, and of one at another host that host's: `h1.g1.eth0@h2`.
PlaceName = Annotated[
    str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*(@[A-Za-z][A-Za-z0-9_.-]*)?$", max_length=192)
]


class Noun(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class QueueClass(Noun):
    """A class of a queue; `parameters` carry tc's names with a unit suffix."""

    parent: str | None = None
    limit_packets: int | None = None
    parameters: dict[str, Any] = {}


class Match(Noun):
    """A rule: frames that satisfy every condition given belong to the class."""

    class_: str = Field(alias="class")
    dscp: tuple[int, ...] = ()
    pcp: tuple[int, ...] = ()
    protocol: int | None = None
    source: str | None = None
    destination: str | None = None
    source_port: tuple[int, int] | None = None
    destination_port: tuple[int, int] | None = None
    flow: tuple[int, int] | None = None  # hash of the flow divided by the second leaves the first


class Queue(Noun):
    """The queue discipline in front of one link direction or port."""

    kind: str = "fifo"
    by: Literal["auto", "kernel", "virtlab"] = "auto"
    limit_packets: int | None = None
    limit_bytes: int | None = None
    parameters: dict[str, Any] = {}
    classes: dict[Name, QueueClass] = {}
    match: tuple[Match, ...] = ()
    default: str | None = None  # class of frames that satisfy no rule


class Port(Noun):
    """A port of a virtual switch towards a guest: its queue and its rate, as of a vNIC."""

    queue: Queue | None = None
    port_rate_bit_per_s: int | None = None


class Vnic(Noun):
    """A guest's network port: attached to a virtual switch, or (no virtual switch) the host's uplink itself."""

    vswitch: str | None = None
    uplink: str | None = None
    network: Literal["own", "vxlan"] | None = (
        None  # of an existing host: its own interface, all of which is read and nothing set, or a VXLAN over that
    )
    mac: str
    ip: tuple[str, ...] = ()  # interface addresses with prefix length, v4 and v6
    mtu_bytes: int = MTU_BYTES
    offloads: Literal["off", "default"] = "off"
    model: str | None = (
        None  # the device that a guest with a kernel of its own sees; None = its platform's default
    )
    isolated: bool = False  # exchanges no frame with another isolated port of its virtual switch
    pushback_bit_per_s: int | None = (
        None  # rate at which the port itself holds back its sender; None = it does not
    )
    queue: Queue | None = None  # at the virtual switch's port, towards the guest; None = not requested
    port_rate_bit_per_s: int | None = None  # of that port; None = as fast as the guest takes frames
    there: dict[Name, Port] = {}  # by host that its guest moves to: its port there, where that is another

    @model_validator(mode="after")
    def _one_attachment(self) -> Self:
        if sum(place is not None for place in (self.vswitch, self.uplink, self.network)) != 1:
            raise ValueError(
                "a vNIC stands on a vswitch, is an uplink, or of an existing host's network, exactly one of them"
            )
        queued = self.queue is not None or self.port_rate_bit_per_s is not None or bool(self.there)
        if self.vswitch is None and queued:
            raise ValueError("a vNIC that is an uplink has no port of a virtual switch to queue at")
        return self


class Host(Noun):
    """A machine in the experiment; `at` says where it is realised: local, or ssh where it exists already."""

    at: str = "local"
    address: str | None = None  # how ssh calls an existing host
    interface: str | None = (
        None  # of an existing host, that is measured through; None = the one that ssh reached
    )
    domain: str | None = None  # of libvirt, to be started first
    hypervisor: str | None = None  # libvirt's URI of it
    # Where frames wait that its guests send faster than its wire takes them: in one FIFO in front of the wire that all
    # its guests share; each guest's at its own vNIC, which has the wire's rate; nowhere but in the link's own queue.
    # Plans that an older virtlab wrote say nothing of it: there it was the guest's vNIC.
    pushback: Literal["uplink", "guest", "none"] = "guest"
    cpus: int | None = Field(
        default=None, ge=1
    )  # processors of its own; None = it shares the machine's with all other such hosts
    vnic: Vnic | None = None  # the host's own, by which guests are copied over links; None = it has none


class Disk(Noun):
    """A disk of a guest beside what it boots: empty at the begin of a run, gone with its world.

    Its model is that of the crate `virtlab-disk`, on every arm.
    """

    size_bytes: int = Field(ge=SECTOR_BYTES, multiple_of=SECTOR_BYTES, le=2**50)
    # Where the testbed keeps what is written; `service`: blocks are objects of a store, on either arm.
    medium: Literal["memory", "file", "service"] = "memory"
    service: Name | None = None  # the store
    block_bytes: int | None = Field(default=None, ge=SECTOR_BYTES, multiple_of=SECTOR_BYTES, le=2**30)
    write_cache_bytes: int = Field(default=0, ge=0, le=2**50)
    rate_byte_per_s: int | None = Field(default=None, ge=1, le=10**12)  # None = as fast as it is asked
    latency_ns: int = Field(default=0, ge=0, le=10**15)


class Guest(Noun):
    """What is run on a host. `native` is the host itself, without guest or virtual switch."""

    platform: str
    host: str
    vnics: dict[Name, Vnic]
    forwards: bool = False  # a router
    routing: Literal["static", "ospf"] = "static"  # where a router has its routes from
    licence_bit_per_s: int | None = (
        None  # what a router sends out of each of its ports, at most; None = no limit
    )
    bridges: bool = (
        False  # forwards frames between its two vNICs, those to a vNIC's own address too; has no IP address
    )
    cpu_quota_ratio: float | None = None  # share of one CPU; None = unlimited
    memory_bytes: int | None = None
    # What it may have beyond its memory, on the machine's swap; None = nothing.
    swap_bytes: int | None = Field(default=None, ge=1)
    # What a machine gives back of its memory before the run; None = it has no balloon.
    balloon_bytes: int | None = Field(default=None, ge=1)
    image: str | None = (
        None  # a container's root file system or an appliance's recipe, by name; a machine's disk, by path
    )
    runtime: str | None = None  # what runs a container; None = whichever the machine has
    seccomp: Literal["default", "none"] | None = (
        None  # which system calls a container may make; None = default
    )
    user_namespace: Literal["none", "own"] | None = (
        None  # whether root's containers have users of their own; None = none
    )
    firmware: Literal["bios", "uefi"] | None = None  # what starts the boot loader of a disk; None = bios
    vcpus: int | None = Field(
        default=None, ge=1
    )  # of a guest with a kernel of its own; None = its platform's default
    disk: Disk | None = None  # None: it has none beside what it boots
    idle: Literal["sleep", "poll"] = "sleep"
    pin: Literal["none", "one", "spread"] = (
        "none"  # which processor a router forwards on: its sender's, one for all, each another in turn
    )
    pool: Name | None = None  # of its host; None = it is in none
    weight: int | None = Field(
        default=None, ge=1, le=10_000
    )  # of its pool, against others in it that want more; None = 100, where another in it has one


class Pool(Noun):
    """Processors of a host that some of its guests share, and no other guest of a pool has.

    Whatever their guests compute, they get no more together: by affinity nothing of them runs elsewhere; by quota they
    run wherever their host does, for so much time in each period. Of memory, too, they get no more together than a pool
    has.
    """

    host: Name
    cpus: int = Field(ge=1)
    by: Literal["affinity", "quota"] = "affinity"
    memory_bytes: int | None = Field(None, ge=1)  # None = as much as the machine has
    swap_bytes: int | None = Field(None, ge=1)  # beyond its memory, on the machine's swap; None = nothing


class Vswitch(Noun):
    """A virtual switch inside a host, with the host's physical ports (uplinks) it owns."""

    kind: str
    host: str
    uplinks: tuple[str, ...] = ()
    learning: bool = True  # source addresses become forwarding entries
    flooding: bool = True  # frames to unknown addresses, to groups and to all leave through every port
    parameters: dict[str, Any] = {}


class Switch(Noun):
    """A physical store-and-forward switch; its ports are the ends `NAME.*` of links."""

    processing_ns: int = 0


class LinkQueues(Noun):
    """One queue per direction: `ab` in front of ends[0] -> ends[1]."""

    ab: Queue = Queue(limit_packets=100)
    ba: Queue = Queue(limit_packets=100)


class Link(Noun):
    """A cable between two physical ports: uplinks (`h1.up`) or switch ports (`s1.p1`). Full duplex."""

    ends: tuple[str, str]
    rate_bit_per_s: int
    propagation_ns: int = 0
    realise: Literal["auto", "netem", "soft_switch", "shaping"] = "auto"
    queue: LinkQueues = LinkQueues()


class Route(Noun):
    """A static route of a guest."""

    to: str  # network with prefix length
    via: str  # next hop address
    vnic: str


class Ready(Noun):
    """When a service can be used: one check, repeated until it holds."""

    port: int | None = Field(default=None, ge=1, le=65_535)  # accepts connections
    line: str | None = None  # a text that a line of its output holds
    http: str | None = None  # a path: GET at `port` is answered with a status below 400
    argv: tuple[str, ...] = ()  # a command in its guest ends with 0
    every_ns: int = Field(default=100_000_000, gt=0)
    timeout_ns: int = Field(default=30_000_000_000, gt=0)

    @model_validator(mode="after")
    def _one_check(self) -> Self:
        checks = (self.line is not None, bool(self.argv), self.port is not None)
        if sum(checks) != 1 or (self.http is not None and self.port is None):
            raise ValueError("a service is ready by one of port (with http or without), line, argv")
        return self


class Service(Noun):
    """A named system under test. Keys beyond these are its kind's parameters."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, serialize_by_alias=True)

    kind: Name
    on: tuple[Name, ...] = Field(min_length=1)  # guests, in the kind's order
    needs: tuple[Name, ...] = ()  # services that are ready before it starts
    ready: Ready | None = None  # None: once it has started

    @property
    def parameters(self) -> dict[str, Any]:
        """The kind's own parameters, by their Plan names."""
        return dict(self.model_extra or {})


class World(Noun):
    """Everything that is built."""

    hosts: dict[Name, Host]
    guests: dict[Name, Guest]
    vswitches: dict[PlaceName, Vswitch] = {}
    switches: dict[Name, Switch] = {}
    links: dict[PlaceName, Link] = {}
    routes: dict[Name, tuple[Route, ...]] = {}  # by guest
    arp: Literal["static", "live"] = "static"
    ipv6_noise: bool = False
    spin: Literal["auto", "always", "never"] = "auto"
    pools: dict[Name, Pool] = {}
    services: dict[Name, Service] = {}


class Role(Noun):
    """A named workload instance. Keys beyond these are the workload's parameters, checked by its catalogue entry."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, serialize_by_alias=True)

    workload: str
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    tunable: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The workload's own parameters, by their Plan names."""
        return dict(self.model_extra or {})


class Trigger(Noun):
    """When an action begins: after an event (`ACTION.EVENT`) plus a time, or after any or all of several."""

    event: str | None = None
    plus_ns: int = 0
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if sum((self.event is not None, bool(self.any), bool(self.all))) != 1:
            raise ValueError("a trigger names exactly one of event, any, all")
        return self

    def events(self) -> tuple[str, ...]:
        """Every event that it names."""
        return (self.event,) if self.event is not None else self.any or self.all


class Wait(Noun):
    """What a waiting action polls until it holds: a series, a metric of a role, or the answer of a service's
    operation.
    """

    call: str | None = Field(
        default=None, pattern=r"^[A-Za-z][A-Za-z0-9_-]*\.[a-z][a-z0-9_]*$"
    )  # SERVICE.OPERATION
    series: str | None = None
    metric: str | None = Field(
        default=None, pattern=r"^[A-Za-z][A-Za-z0-9_-]*\.[a-z][a-z0-9_]*$"
    )  # ROLE.METRIC, one that its program declares, in the SI unit; or ROLE.progress
    op: Literal["<", "<=", ">=", ">", "=="] | None = None
    value: float | None = None
    every_ns: int = Field(default=200_000_000, gt=0)

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if [self.call, self.series, self.metric].count(None) != 2:
            raise ValueError("a wait polls either a series, a metric or a call")
        if (self.op is None) != (self.value is None) or (self.call is None and self.op is None):
            raise ValueError(
                "a condition compares: write op and value; a call alone holds once its answer is true"
            )
        return self


class Action(Noun):
    """One step of the timeline. Its events are `ID.started`, `.done`, `.finished`, `.failed`, `.timeout`, ..."""

    id: Name
    do: Name  # of the catalogue's actions
    after: Trigger | None = None  # None: at the beginning of the run
    role: str | None = None
    guest: str | None = None
    service: str | None = None
    link: str | None = None
    to: str | None = None
    mode: str | None = None
    op: str | None = None
    args: dict[str, Any] = {}
    argv: tuple[str, ...] = ()
    for_ns: int | None = None
    until: Wait | None = None
    over: str | None = None  # what a migration's bytes cross
    bandwidth_byte_per_s: int | None = None  # that it may take, at most
    downtime_limit_ns: int | None = None
    rounds_limit: int | None = None  # after which a guest is paused, whatever is left
    auto_converge: bool | None = None  # its processors are slowed down while the copy does not get ahead
    compression: str | None = None  # of what is copied
    connections: int | None = None  # by which it is copied; None: one
    disk: str | None = None  # of the guest: shared by both hosts, or mirrored; None: shared, if it has one
    pool: str | None = None  # of the destination, in which a guest that moves is there: HOST.POOL, or `none`
    recover_after_ns: int | None = None  # of post-copy: silence after which it gets a new connection
    timeout_ns: int | None = None
    on_timeout: Literal["fail", "cancel", "censor"] | None = None

    @model_validator(mode="after")
    def _waits_end(self) -> Self:
        if self.until is not None and (self.timeout_ns is None or self.on_timeout is None):
            raise ValueError(f"action '{self.id}' waits without timeout_ns and on_timeout")
        return self


class Window(Noun):
    """A named interval between two events, `from` to `to`."""

    from_: str = Field(alias="from")
    to: str


class SeriesRequest(Noun):
    """A series to sample: `host.cpu`, `guest.cpu`, `qdisc`, `softnet`, ..."""

    source: str
    every_ns: int


class Collect(Noun):
    """What is kept: sample streams of roles, series, counters at both ends of each window.

    `telemetry_ns`: how often a backend samples what its processors, memory and disks do beside the load, where `series`
    does not say; 0 = not at all.
    """

    packets: tuple[str, ...] = ()
    series: tuple[SeriesRequest, ...] = ()
    telemetry_ns: int = Field(default=1_000_000_000, ge=0)
    counters: tuple[str, ...] = ()


class Limits(Noun):
    """Bounds of one run."""

    run_ns: int = 600_000_000_000
    disk_bytes: int | None = None  # of samples and artefacts


_OWN = ("repetition", "seed")  # of a Plan, what differs between repetitions of its design point
_KEPT = ("_shared_values", "_shared_text", "_shared_parts")


def _as_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _joined(parts: Mapping[str, str]) -> str:
    """An object's text from those of its values."""
    return "{" + ",".join(f'"{name}":{parts[name]}' for name in sorted(parts)) + "}"


class Plan(Noun):
    """One design point and repetition."""

    schema_: Literal["virtlab.plan/1"] = Field(default="virtlab.plan/1", alias="schema")
    point: dict[str, str] = {}  # factor -> level as the file writes it
    repetition: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    world: World
    roles: dict[Name, Role] = {}
    timeline: tuple[Action, ...] = ()
    windows: dict[Name, Window] = {}
    collect: Collect = Collect()
    limits: Limits = Limits()
    because: dict[str, str] = {}  # path in the Plan -> path in the file

    def canonical(self) -> str:
        """The Plan as canonical JSON: defaults left out, keys sorted, no white space."""
        return _joined({**self._parts(), **self._own_parts()})

    def shared(self) -> str:
        """Canonical JSON of what the repetitions of a design point share: all but their number and seed."""
        if (text := self.__dict__.get("_shared_text")) is None:
            text = self.__dict__["_shared_text"] = _as_text(self._shared())
        return str(text)

    def _shared(self) -> dict[str, Any]:
        """What repetitions share, kept: a Plan is never changed."""
        if (values := self.__dict__.get("_shared_values")) is None:
            values = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(_OWN))
            values["schema"] = self.schema_
            self.__dict__["_shared_values"] = values
        return values

    def _parts(self) -> dict[str, str]:
        """Canonical JSON of each value that repetitions share, kept."""
        if (parts := self.__dict__.get("_shared_parts")) is None:
            parts = {name: _as_text(value) for name, value in self._shared().items()}
            self.__dict__["_shared_parts"] = parts
        return parts

    def _own_parts(self) -> dict[str, str]:
        return {name: str(value) for name in _OWN if (value := getattr(self, name))}

    def repeated(self, repetition: int, seed: int) -> Self:
        """The same Plan as another repetition of its design point."""
        return self.model_copy(update={"repetition": repetition, "seed": seed})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; cached texts are kept if they do not depend on those."""
        copied = super().model_copy(update=update, deep=deep)
        if not set(update or ()) <= set(_OWN):
            for kept in _KEPT:
                copied.__dict__.pop(kept, None)
        return copied

    def identity(self) -> str:
        """Hex SHA-256 of the canonical JSON without `because`, which explains and does not change what is built."""
        parts = {name: text for name, text in self._parts().items() if name != "because"}
        return hashlib.sha256(_joined({**parts, **self._own_parts()}).encode()).hexdigest()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """From JSON text. pydantic's ValidationError when it is no Plan."""
        return cls.model_validate_json(text)


def identity_of(text: str | bytes) -> str:
    """The identity of a Plan that was written down: of its text, whatever virtlab made it and which defaults it had.

    >>> plan = Plan(world=World(hosts={}, guests={}), because={"a": "b"}, repetition=1)
    >>> identity_of(plan.canonical()) == plan.identity()
    True
    """
    values = json.loads(text)
    values.pop("because", None)
    return hashlib.sha256(_as_text(values).encode()).hexdigest()


def plan_of(shared: str, repetition: int, seed: int) -> Plan:
    """A repetition's Plan from what all of them share (`Plan.shared`), which is read once."""
    return _read(shared).repeated(repetition, seed)


@functools.lru_cache(maxsize=1024)
def _read(shared: str) -> Plan:
    plan = Plan.parse(shared)
    plan.shared(), plan.identity()  # kept, for all that are made of it
    return plan
