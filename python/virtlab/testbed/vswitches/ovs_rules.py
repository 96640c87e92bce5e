"""What Open vSwitch gets to know of a bridge, as the words of its own tools. Pure.

All ports are added in one transaction, each with the number that the rules name it by. Rules send a frame to the
one port behind which its destination is; what is addressed to an unknown node is handled as by any switch (learned,
flooded), or dropped where the bridge does not flood. An isolated port's frames never reach another isolated one: by
a rule where both are known, else by the port's being `protected`, which NORMAL obeys and learns all the same. Where
a port has queues, rules of the queue (`set_queue`) come before the plain one, the first of the file first. A queue
has its number at its port alone, so such a rule needs an address behind it: where none is known beforehand (`arp:
live`), tc sorts (`port_queues`).

A datapath keeps what rules decided in entries that hold for as many packets as the rules looked alike at: here for
all that go to one address. Where each flow is to have an entry of its own (`own_entries`), so that its first packet
goes up to the rules, all that send a frame on hash addresses and ports into registers that nothing reads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from virtlab.plan import Vnic
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.ovs import LEFT_ALONE, Qos
from virtlab.testbed.queues.ovs import words as qos_words
from virtlab.testbed.steps.names import interface
from virtlab.testbed.steps.operations import BridgeAdd, Claim, LinkSet, Operation
from virtlab.testbed.vswitches.ovs_match import matches
from virtlab.testbed.vswitches.ovs_ports import at_ovs_port

_KNOWN, _ISOLATED, _REST = 100, 60_000, 0
_LOOKUPS = re.compile(r"lookups: hit:(\d+) missed:(\d+) lost:(\d+)")
IN_KERNEL = "system"
_LOOK_AT_ALL = "".join(
    f"multipath({fields},0,modulo_n,1,0,NXM_NX_REG{number}[]),"
    for number, fields in enumerate(("symmetric_l4", "symmetric_l3l4+udp"))
)
_STATISTIC = re.compile(r"^\s*([a-z][a-z .-]*[a-z]): (\d+)\s*$")
CACHES = {
    "packets received": "flow_cache_received_packets",
    "emc hits": "flow_cache_exact_hits",
    "smc hits": "flow_cache_signature_hits",
    "megaflow hits": "flow_cache_megaflow_hits",
    "miss with success upcall": "flow_cache_upcalls",
    "miss with failed upcall": "flow_cache_lost_upcalls",
}


@dataclass(frozen=True, slots=True)
class Port:
    """An interface of the host's namespace that is a port; `mac`: of one that Open vSwitch makes, a tap."""

    link: str
    isolated: bool = False
    mac: str | None = None
    qos: Qos | None = None  # None: nothing is said of its queues


@dataclass(frozen=True, slots=True)
class Joint:
    """A bridge of the kernel's between a tap of Open vSwitch's and a link whose queue guests share."""

    link: str
    tap: str
    bridge: str
    mtu_bytes: int

    @property
    def mac(self) -> str:
        """The tap's address, by which the leader finds what it has not made; no guest's begins so."""
        return ":".join(f"{octet:02x}" for octet in (0xF6, *hashlib.sha256(self.tap.encode()).digest()[:5]))


@dataclass(slots=True)
class OvsBridge(BuiltSwitch):
    """A bridge: its ports in their order, and behind which of them each known address is.

    A datapath in user space sends into a link by a packet socket, which drops frames, uncounted, while a queue behind
    it has room for many more. A tap takes every frame, so where guests share that queue the port is a tap, which a
    bridge of the kernel's joins to the link: what has no room is dropped in the queue and counted there.
    """

    namespace: str
    link: str
    flooding: bool = True
    datapath: str = "netdev"
    own_entries: bool = False  # each flow has an entry of its own in the datapath
    static: bool = True  # whether it is given where addresses are, and learns none of them
    ports: list[Port] = field(default_factory=list)
    afterwards: list[Operation] = field(
        default_factory=list
    )  # tc's part of queues that it sets up, and its taps' place
    addresses: dict[str, str] = field(default_factory=dict)  # MAC -> link
    joints: list[Joint] = field(default_factory=list)

    def join_guest(self, vnic: Vnic, link: str) -> PortQueue | None:
        """A port towards a vNIC, with a record of its queue."""
        by_rules = self.in_kernel and self.static
        qos, queue, operations = at_ovs_port(vnic, self.namespace, link, by_rules=by_rules)
        self.ports.append(Port(link, isolated=vnic.isolated, qos=qos))
        self.afterwards += operations
        return queue

    def join_uplink(self, link: str, *, shared: bool, mtu_bytes: int, names: set[str]) -> None:
        """A port towards a link, which queues by itself."""
        if self.in_kernel or not shared:
            self.ports.append(Port(link, qos=LEFT_ALONE))
            return
        joint = Joint(link, interface(f"{link}-tap", names), interface(f"{link}-joint", names), mtu_bytes)
        self.joints.append(joint)
        self.ports.append(Port(joint.tap, mac=joint.mac, qos=LEFT_ALONE))
        self.afterwards += [
            Claim(self.namespace, joint.tap, joint.mac),
            LinkSet(self.namespace, joint.tap, mtu_bytes=mtu_bytes, master=joint.bridge, up=True),
        ]

    def raised(self) -> Iterator[Operation]:
        """The kernel's side of its taps; Open vSwitch makes the taps themselves."""
        for joint in self.joints:
            yield BridgeAdd(self.namespace, joint.bridge, mtu_bytes=joint.mtu_bytes)
            yield LinkSet(self.namespace, joint.link, master=joint.bridge)
            yield LinkSet(self.namespace, joint.bridge, up=True)

    def known(self, mac: str, port: str) -> None:
        """The rules will say where an address is."""
        self.addresses[mac] = next((joint.tap for joint in self.joints if joint.link == port), port)

    def qos(self, port: str) -> Qos | None:
        """The record of a port's queues."""
        return self.port(port).qos

    def port(self, link: str) -> Port:
        """The port that an interface is."""
        return next(port for port in self.ports if port.link == link)

    @property
    def in_kernel(self) -> bool:
        """Whether the kernel has its datapath."""
        return self.datapath == IN_KERNEL

    def number(self, link: str) -> int:
        """A port's number in rules."""
        return 1 + [port.link for port in self.ports].index(link)


def transaction(bridges: Sequence[OvsBridge]) -> list[str]:
    """The arguments of one `ovs-vsctl` call that makes all bridges with all their ports.

    >>> words = transaction([OvsBridge("host:h1", "br", ports=[Port("up")])])
    >>> " ".join(words[:9])
    '-- add-br br -- set bridge br datapath_type=netdev fail_mode=secure'
    """
    words: list[str] = []
    placed = 0
    for bridge in bridges:
        words += ["--", "add-br", bridge.link]
        datapath = f"datapath_type={bridge.datapath}"
        words += ["--", "set", "bridge", bridge.link, datapath, "fail_mode=secure"]
        for number, port in enumerate(bridge.ports, start=1):
            words += ["--", "add-port", bridge.link, port.link]
            made = [] if port.mac is None else ["type=internal", f'mac="{port.mac}"']
            words += ["--", "set", "interface", port.link, *made, f"ofport_request={number}"]
            if port.isolated:
                words += ["--", "set", "port", port.link, "protected=true"]
            if port.qos is not None:
                placed += 1
                words += qos_words(port.link, placed, port.qos)
    return words


def rules(bridge: OvsBridge) -> list[str]:
    """OpenFlow rules of a bridge, as `ovs-ofctl add-flows` reads them.

    >>> bridge = OvsBridge("host:h1", "br", ports=[Port("a", isolated=True), Port("b", isolated=True), Port("up")])
    >>> bridge.addresses["02:00:00:00:00:01"] = "a"
    >>> rules(bridge)[0]
    'priority=60000,in_port=2,dl_dst=02:00:00:00:00:01,actions=drop'
    """
    out = []
    look = _LOOK_AT_ALL if bridge.own_entries else ""
    isolated = {bridge.number(port.link) for port in bridge.ports if port.isolated}
    for mac, link in bridge.addresses.items():
        number = bridge.number(link)
        if number in isolated:
            out += [
                f"priority={_ISOLATED},in_port={other},dl_dst={mac},actions=drop"
                for other in sorted(isolated - {number})
            ]
        out += _queued(bridge.port(link), number, mac, look)
        out.append(f"priority={_KNOWN},dl_dst={mac},actions={look}output:{number}")
    if not bridge.flooding:
        out.append(f"priority={_REST},actions=drop")
        return out
    out.append(f"priority={_REST},actions={look}NORMAL")
    return out


def _queued(port: Port, number: int, mac: str, look: str) -> Iterator[str]:
    """Rules that put frames for an address behind the port into its queues."""
    if port.qos is None:
        return
    for position, rule in enumerate(port.qos.match):
        queue = port.qos.names[rule.class_]
        priority = _KNOWN + len(port.qos.match) - position
        for words in matches(rule):
            said = f"priority={priority},dl_dst={mac}{''.join(f',{word}' for word in words)}"
            yield f"{said},actions={look}set_queue:{queue},output:{number}"


def kernel_caches(words: str) -> dict[str, int]:
    """Counters of the kernel datapath's flow table from `dpctl/show`.

    >>> kernel_caches("system@ovs-system:\\n  lookups: hit:12 missed:3 lost:1\\n  flows: 2\\n")["flow_cache_upcalls"]
    3
    """
    found = _LOOKUPS.search(words)
    if found is None:
        return {}
    hit, missed, lost = (int(word) for word in found.groups())
    return {
        "flow_cache_received_packets": hit + missed,
        "flow_cache_megaflow_hits": hit,
        "flow_cache_upcalls": missed,
        "flow_cache_lost_upcalls": lost,
    }


def caches(words: str) -> dict[str, int]:
    """Counters of the flow caches from `dpif-netdev/pmd-stats-show`, summed over threads.

    >>> caches("main thread:\\n  packets received: 12\\n  emc hits: 9\\n  megaflow hits: 2\\n")
    {'flow_cache_received_packets': 12, 'flow_cache_exact_hits': 9, 'flow_cache_megaflow_hits': 2}
    """
    found: dict[str, int] = {}
    for line in words.splitlines():
        match = _STATISTIC.match(line)
        if match and match[1] in CACHES:
            found[CACHES[match[1]]] = found.get(CACHES[match[1]], 0) + int(match[2])
    return found
