"""Typed kernel operations, and Steps: an operation with the object of the Plan that it is for.

No shell text, no undo: a batch that fails is undone by the leader, and the world dies with its leader. The JSON form is
the agent's `apply` (crates/virtlab-leader/src/world/operation.rs).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Operation:
    """The root; `op` is the word of the agent protocol."""

    op: ClassVar[str] = ""

    def json(self) -> dict[str, Any]:
        """As the agent takes it; what is None is left out."""
        return {"op": self.op, **_fields(self)}


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))


def _fields(value: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in _names(value.__class__):
        held = getattr(value, name)
        if held is None:
            continue
        if isinstance(held, Discipline):
            held = {"kind": held.kind, **{key: _listed(each) for key, each in held.options.items()}}
        elif is_dataclass(held):
            held = {"kind": held.kind, **_fields(held)} if isinstance(held, Kind) else _fields(held)
        elif isinstance(held, tuple):
            held = [_fields(each) if is_dataclass(each) else _listed(each) for each in held]
        elif isinstance(held, dict):
            held = dict(held)
        out[name] = held
    return out


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class AtLink(Operation):
    """Something at one interface of one namespace."""

    namespace: str
    link: str


@dataclass(frozen=True, slots=True)
class Users:
    """Whom the users 0, 1, ... of a user namespace are outside: `count` of them, from `first` on."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class NamespaceAdd(Operation):
    """A new network namespace; with `users`, one that belongs to a new user namespace. What is started there has a disk
    in memory of `disk_bytes`.
    """

    op: ClassVar[str] = "namespace"
    name: str
    users: Users | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """One end of a veth pair."""

    namespace: str
    name: str
    mac: str | None = None
    mtu_bytes: int | None = None
    master: str | None = None


@dataclass(frozen=True, slots=True)
class VethAdd(Operation):
    """Two virtual Ethernet ports and the cable between them; only the first can be born as a bridge port."""

    op: ClassVar[str] = "veth"
    ends: tuple[End, End]


@dataclass(frozen=True, slots=True)
class BridgeAdd(Operation):
    """A Linux bridge without spanning tree."""

    op: ClassVar[str] = "bridge"
    namespace: str
    name: str
    mac: str | None = None
    mtu_bytes: int | None = None
    multicast_snooping: bool = False


@dataclass(frozen=True, slots=True)
class TapAdd(Operation):
    """A virtual machine's port, kept open by the leader. `offloads`: frames say what their receiver still has to do."""

    op: ClassVar[str] = "tap"
    namespace: str
    name: str
    mtu_bytes: int | None = None
    master: str | None = None
    offloads: bool = False


@dataclass(frozen=True, slots=True)
class HomeAdd(Operation):
    """The network that a leader was born in gets a name: inside a virtual machine, the machine's."""

    op: ClassVar[str] = "home"
    name: str


@dataclass(frozen=True, slots=True)
class Claim(Operation):
    """The interface with this MAC, which was there before the leader, is called `name`."""

    op: ClassVar[str] = "claim"
    namespace: str
    name: str
    mac: str


@dataclass(frozen=True, slots=True)
class VxlanAdd(Operation):
    """A VXLAN interface; its datagrams leave by interface `through` of namespace `carrier`, from address `local`."""

    op: ClassVar[str] = "vxlan"
    namespace: str
    name: str
    mac: str
    mtu_bytes: int
    carrier: str
    through: str
    id: int
    port: int
    local: str


@dataclass(frozen=True, slots=True)
class TunnelPeer(AtLink):
    """Frames to `mac` (all zeros: to unknown addresses, and to all) leave a VXLAN interface for the host at
    `address`.
    """

    op: ClassVar[str] = "tunnel_peer"
    mac: str
    address: str


@dataclass(frozen=True, slots=True)
class LinkSet(AtLink):
    """Changes an interface. `segments_at_once`: how many segments TCP may hand over as one packet."""

    op: ClassVar[str] = "link"
    up: bool | None = None
    mtu_bytes: int | None = None
    mac: str | None = None
    master: str | None = None
    segments_at_once: int | None = None


@dataclass(frozen=True, slots=True)
class AddressAdd(AtLink):
    """An interface address."""

    op: ClassVar[str] = "address"
    address: str


@dataclass(frozen=True, slots=True)
class RouteAdd(AtLink):
    """A static route."""

    op: ClassVar[str] = "route"
    to: str
    via: str | None = None


@dataclass(frozen=True, slots=True)
class NeighbourAdd(AtLink):
    """A permanent neighbour entry."""

    op: ClassVar[str] = "neighbour"
    address: str
    mac: str


@dataclass(frozen=True, slots=True)
class ForwardingAdd(AtLink):
    """A static forwarding entry of the bridge that the interface is a port of."""

    op: ClassVar[str] = "forwarding"
    mac: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What a bridge does at one port; None: as the kernel has it (not isolated, learning, flooding)."""

    isolated: bool | None = None
    learning: bool | None = None
    flooding: bool | None = None


@dataclass(frozen=True, slots=True)
class BridgePortSet(AtLink):
    """Rules of a bridge's port."""

    op: ClassVar[str] = "bridge_port"
    rules: Rules


@dataclass(frozen=True, slots=True)
class Kind:
    """Options that go by a kind; `kind` is the kernel's name."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Discipline:
    """Options of a queue discipline, or of a class of it, by the agent's names; what is absent is the kernel's own."""

    kind: str  # the kernel's name
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QdiscAdd(AtLink):
    """A queue discipline at an interface."""

    op: ClassVar[str] = "qdisc"
    discipline: Discipline
    parent: str = "root"
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class ClassAdd(AtLink):
    """A class of a queue discipline."""

    op: ClassVar[str] = "class"
    parent: str
    handle: str
    discipline: Discipline


@dataclass(frozen=True, slots=True)
class QueueLengthSet(AtLink):
    """Packets that the kernel's own FIFOs at an interface take for their limit (txqueuelen)."""

    op: ClassVar[str] = "queue_length"
    packets: int


@dataclass(frozen=True, slots=True)
class U32(Kind):
    """Words at offsets from the network header, all of which agree under their masks: offset, mask, value."""

    kind: ClassVar[str] = "u32"
    keys: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Flower(Kind):
    """Header fields of a tagged frame; `network` is the EtherType behind the tag."""

    kind: ClassVar[str] = "flower"
    vlan_priority: int
    network: int | None = None
    dscp: int | None = None
    protocol: int | None = None
    source: str | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class FilterAdd(AtLink):
    """Frames of `protocol` (an EtherType, 3: all) that the matcher takes go to `target`; small preferences first."""

    op: ClassVar[str] = "filter"
    parent: str
    preference: int
    protocol: int
    target: str
    matcher: U32 | Flower


@dataclass(frozen=True, slots=True)
class SysctlSet(Operation):
    """A value under /proc/sys of the namespace."""

    op: ClassVar[str] = "sysctl"
    namespace: str
    path: str
    value: str


OFFLOADS_OFF = {"tx": False, "sg": False, "tso": False, "gso": False}


@dataclass(frozen=True, slots=True)
class OffloadSet(AtLink):
    """Offloads of an interface: rx, tx, sg, tso, gso, gro."""

    op: ClassVar[str] = "offload"
    features: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation and the object of the Plan that asks for it."""

    op: Operation
    because: str

    def __str__(self) -> str:
        """The line that `virtlab plan --point` prints."""
        values = self.op.json()
        kind = values.pop("op")
        return f"{kind:<11} {_line(values)}   <- {self.because}"


def _line(values: Any) -> str:
    if isinstance(values, dict):
        return " ".join(f"{_short(key)}={_value(value)}" for key, value in values.items())
    return str(values)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + _line(value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _short(key: str) -> str:
    return re.sub(r"_bytes$", "", key)
