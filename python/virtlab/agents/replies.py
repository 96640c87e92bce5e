"""What an agent may answer to each request (`requests`); anything else is no answer.

An agent inside a guest or on a host of somebody else's may say what it likes. So all that is read of a reply is checked
here, once, as it comes in: keys that are needed are there, numbers are finite and fit 64 bits, addresses are addresses,
texts are bounded. Further fields of a newer agent stay in the reply. The caller reads mappings of the shapes below.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from ipaddress import ip_interface
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import (
    TypedDict,
)  # pydantic's own: typing's has no list of what is required before Python 3.12

from virtlab.agents.conversation import LARGEST

LONGEST_NAME, LONGEST_TEXT = 200, 8192


def _address(text: str) -> str:
    ip_interface(text)
    return text


Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Number = Whole | Annotated[float, Field(strict=True, ge=-(2**62), le=2**62)]
Nanos = Annotated[int, Field(strict=True, ge=0, lt=LARGEST)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(strict=True, max_length=LONGEST_NAME)]
Text = Annotated[str, Field(strict=True, max_length=LONGEST_TEXT)]
Address = Annotated[Name, AfterValidator(_address)]
Mac = Annotated[str, Field(strict=True, pattern=r"^([0-9a-fA-F]{2}(:[0-9a-fA-F]{2})*)?$", max_length=95)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
_open = with_config({"extra": "allow"})


@_open
class Clocks(TypedDict):
    """Both clocks at one instant, ns."""

    raw_ns: Nanos
    realtime_ns: Nanos
    bound_ns: NotRequired[Nanos]


@_open
class Machine(TypedDict):
    """The machine that a leader runs on, as far as it is known."""

    kernel: NotRequired[Name]
    kernel_build: NotRequired[Name]
    cpu: NotRequired[Name]
    cpus: NotRequired[Count]
    clocksource: NotRequired[Name]
    cpufreq_governor: NotRequired[Name]


@_open
class Introduction(TypedDict):
    """Who an agent is."""

    protocol: tuple[Count, Count]
    build: Name
    role: Name
    capabilities: list[Name]
    boot_id: Name
    clocks: Clocks
    machine: NotRequired[Machine]
    workloads: NotRequired[list[Name]]


@_open
class Started(TypedDict):
    """A process."""

    pid: Count


@_open
class Armed(TypedDict):
    """The port on which a role's server listens, if it has one."""

    port: NotRequired[Port]


@_open
class Instant(TypedDict):
    """The instant at which a request was carried out, by the agent's clock."""

    t_ns: Nanos


@_open
class Totals(TypedDict):
    """Running totals of a role."""

    seen: Count
    bytes: Count
    expected: Count
    timed: Count
    time_ns: Count


@_open
class Live(TypedDict):
    """Running totals by role."""

    t_ns: Nanos
    roles: dict[Name, Totals]


STARVED, FAILED = "starved", "failed"  # kinds of taints that a run takes in another way than the rest


@_open
class Taint(TypedDict):
    """Why samples of a role should not be trusted: of which kind, and in words."""

    kind: Name
    text: Text


@_open
class Collected(TypedDict):
    """What was sent of a role before this reply, and what its probe says of itself."""

    rows: dict[Name, Count]
    counters: dict[Name, Number]
    taints: list[Taint]


@_open
class ToldObjects(TypedDict):
    """A page of what a role knows of its objects, which another agent of ours reads; the first object behind it."""

    place: Name | None
    end: Count
    page: dict[Name, Any]


@_open
class Taken(TypedDict):
    """Whether the page was the last one."""

    whole: Flag


@_open
class Counted(TypedDict):
    """Counters: entity, counter, value."""

    t_ns: Nanos
    rows: list[tuple[Name, Name, Number]]


@_open
class Placed(TypedDict):
    """Where threads of guests may run: a network, processors, how many threads have just these, the name of one."""

    rows: list[tuple[Name, list[Count], Count, Name]]


@_open
class ServedDisk(TypedDict):
    """A disk as it is served, by its name, and how often its server stood still since this was asked last."""

    name: Name
    size_bytes: Count
    rate_byte_per_s: NotRequired[Count | None]
    latency_ns: NotRequired[Nanos]
    write_cache_bytes: NotRequired[Count]
    service: NotRequired[Name]  # of one on a store, which has none of the three
    block_bytes: NotRequired[Count]
    mounted: NotRequired[bool]  # of a folder on a store
    standstills: Count
    standstill_max_ns: Nanos


@_open
class ServedDisks(TypedDict):
    """Every disk that a world's leader serves."""

    disks: list[ServedDisk]


@_open
class Qdisc(TypedDict):
    """A discipline or class: its options are what their kind has."""

    kind: Name
    handle: Name
    parent: Name
    bytes: Count
    packets: Count
    drops: Count
    overlimits: Count
    backlog_packets: Count
    backlog_bytes: Count
    rate_bit_per_s: NotRequired[Count | None]
    marked_packets: NotRequired[Count]
    new_flows: NotRequired[Count]
    new_flows_waiting: NotRequired[Count]
    old_flows_waiting: NotRequired[Count]


@_open
class Link(TypedDict):
    """An interface as its kernel has it."""

    up: Flag
    running: Flag
    carrier: Flag
    mtu_bytes: Count
    segments_at_once: Count
    queue_length_packets: Count
    mac: Mac
    kind: Name
    master: Name | None
    bridge_port: dict[Name, Flag] | None
    addresses: list[Address]
    offloads: dict[Name, Flag]
    coalescing: dict[Name, Whole] | None
    qdiscs: list[Qdisc]
    filters: list[dict[Name, Any]]


@_open
class Route(TypedDict):
    """A route that somebody set."""

    to: Address
    via: Address | None
    link: Name


@_open
class Namespace(TypedDict):
    """A network as its kernel has it."""

    links: dict[Name, Link]
    routes: list[Route]
    sysctls: dict[Name, Text]
    disk_bytes: NotRequired[Count | None]


@_open
class Observed(TypedDict):
    """Networks by name."""

    namespaces: dict[Name, Namespace]


@_open
class Echoes(TypedDict):
    """A round trip for each question, ns; None without one."""

    answers: list[Nanos | None]


@_open
class Tried(TypedDict):
    """What the kernel said to each kind; None: it has it."""

    kinds: dict[Name, Text | None]


@_open
class Worked(TypedDict):
    """Units of counted work that a processor does in a second."""

    per_s: Annotated[int, Field(gt=0, le=10**12)]


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def checked(do: str, shape: Any, reply: Mapping[str, Any]) -> Any:
    """The reply to a request of that name. ValueError with one line that says where it has another shape."""
    try:
        return _adapter(shape).validate_python(reply)
    except ValidationError as error:
        raise ValueError(f"its answer to '{do}' has another shape: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in first["loc"])
    return f"{place}: {first['msg']}"[:300] if place else first["msg"][:300]
