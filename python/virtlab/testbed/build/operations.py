"""Typed kernel operations, and Steps: an operation with the object of the Plan that it is for.

No shell text, no undo: a batch that fails is undone by the leader, and the world dies with its leader. The JSON form is
the agent's `apply` (crates/virtlab-agent/src/leader/operation.rs).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Operation:
    """The root; `op` is the word of the agent protocol."""

    op: ClassVar[str] = ""

    def json(self) -> dict[str, Any]:
        """As the agent takes it; what is None is left out."""
        return {"op": self.op, **_fields(self)}


def _fields(value: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for entry in fields(value):
        held = getattr(value, entry.name)
        if held is None:
            continue
        if is_dataclass(held):
            held = {"kind": held.kind, **_fields(held)} if isinstance(held, Kind) else _fields(held)
        elif isinstance(held, tuple):
            held = [_fields(each) if is_dataclass(each) else _listed(each) for each in held]
        elif isinstance(held, dict):
            held = dict(held)
        out[entry.name] = held
    return out


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class AtLink(Operation):
    """Something at one interface of one namespace."""

    namespace: str
    link: str


@dataclass(frozen=True, slots=True)
class NamespaceAdd(Operation):
    """A new network namespace."""

    op: ClassVar[str] = "namespace"
    name: str


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
    """Frames to `mac` (all zeros: to nobody known, and to all) leave a VXLAN interface for the host at `address`."""

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
class Discipline(Kind):
    """A queue discipline's own options; None: the kernel's own."""


@dataclass(frozen=True, slots=True)
class Htb(Discipline):
    """Hierarchical token bucket."""

    kind: ClassVar[str] = "htb"
    default_class: int
    direct_limit_packets: int = 1000


@dataclass(frozen=True, slots=True)
class Pfifo(Discipline):
    """First in, first out, limited in packets."""

    kind: ClassVar[str] = "pfifo"
    limit_packets: int


@dataclass(frozen=True, slots=True)
class Bfifo(Discipline):
    """First in, first out, limited in bytes."""

    kind: ClassVar[str] = "bfifo"
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Tbf(Discipline):
    """Token bucket."""

    kind: ClassVar[str] = "tbf"
    rate_bit_per_s: int
    burst_bytes: int
    limit_bytes: int
    overhead_bytes: int = 24
    minimum_bytes: int = 84


@dataclass(frozen=True, slots=True)
class Netem(Discipline):
    """A link: each frame holds the port for its time at the rate (0: for none), and arrives `delay_ns` later."""

    kind: ClassVar[str] = "netem"
    rate_bit_per_s: int
    delay_ns: int
    limit_packets: int
    overhead_bytes: int = 24
    loss_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Codel(Discipline):
    """Controlled delay."""

    kind: ClassVar[str] = "codel"
    limit_packets: int | None = None
    target_ns: int | None = None
    interval_ns: int | None = None
    ecn: bool | None = None


@dataclass(frozen=True, slots=True)
class FqCodel(Discipline):
    """Controlled delay in every flow."""

    kind: ClassVar[str] = "fq_codel"
    limit_packets: int | None = None
    target_ns: int | None = None
    interval_ns: int | None = None
    ecn: bool | None = None
    flows: int | None = None
    quantum_bytes: int | None = None
    memory_limit_bytes: int | None = None
    drop_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Sfq(Discipline):
    """Stochastic fairness; `perturb_ns` in whole seconds."""

    kind: ClassVar[str] = "sfq"
    limit_packets: int | None = None
    quantum_bytes: int | None = None
    perturb_ns: int | None = None
    flows: int | None = None
    depth: int | None = None
    divisor: int | None = None


@dataclass(frozen=True, slots=True)
class Hfsc(Discipline):
    """Hierarchical fair service curves."""

    kind: ClassVar[str] = "hfsc"
    default_class: int


@dataclass(frozen=True, slots=True)
class Prio(Discipline):
    """Strict priority; frames that no filter takes go to `band`, counted from 0."""

    kind: ClassVar[str] = "prio"
    bands: int
    band: int


@dataclass(frozen=True, slots=True)
class Drr(Discipline):
    """Deficit round robin."""

    kind: ClassVar[str] = "drr"


@dataclass(frozen=True, slots=True)
class PfifoFast(Discipline):
    """Three bands by priority, limited by the interface's queue length."""

    kind: ClassVar[str] = "pfifo_fast"


@dataclass(frozen=True, slots=True)
class QdiscAdd(AtLink):
    """A queue discipline at an interface."""

    op: ClassVar[str] = "qdisc"
    discipline: Discipline
    parent: str = "root"
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class ClassAdd(AtLink):
    """A class of HTB. `overhead_bytes`: octets per frame beyond what the kernel counts; `minimum_bytes`: least octets."""

    op: ClassVar[str] = "class"
    parent: str
    handle: str
    rate_bit_per_s: int
    ceil_bit_per_s: int
    burst_bytes: int
    cburst_bytes: int | None = None
    prio: int | None = None
    quantum_bytes: int | None = None
    overhead_bytes: int = 24
    minimum_bytes: int = 84


Curve = tuple[int, int, int]  # first slope in bit/s, length of the first piece in ns, second slope


@dataclass(frozen=True, slots=True)
class HfscClassAdd(AtLink):
    """A class of HFSC."""

    op: ClassVar[str] = "hfsc_class"
    parent: str
    handle: str
    real_time: Curve | None = None
    link_share: Curve | None = None
    upper_limit: Curve | None = None


@dataclass(frozen=True, slots=True)
class DrrClassAdd(AtLink):
    """A class of DRR."""

    op: ClassVar[str] = "drr_class"
    parent: str
    handle: str
    quantum_bytes: int


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
        """As `virtlab plan --point` prints it."""
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
