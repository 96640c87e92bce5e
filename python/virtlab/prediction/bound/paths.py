"""Ports on the way from one guest to another, and what each promises a class of its queue.

| its discipline serves, or shares among classes | the port is |
|---|---|
| `in_order` | first in, first out; what it drops early only shortens it |
| `by_rank` | strict priority |
| `by_rounds` | rounds of quanta |
| `by_rate` | each leaf sure of its rate |
| `by_curve` | each leaf sure of its real-time curve |
| `shaped` | a shaper in front of a FIFO |
| `any_order` | in whatever order, never idle: bounded by how long the port is busy at a stretch |

A discipline that serves and shares in no way (drawn delays) has none here. Classes are distinguished by code points.

Where the guests of a host share a queue in front of its wire, that is a token bucket and FIFO like a vNIC's, of all of
them.

Frames go as the tables of switches and virtual switches have them; packets from router to router, as routes have them
(those of OSPF as it has converged). A guest that forwards, at layer 3 or 2, is a port like any other, and so is a
licence: a token bucket in front of each of its vNICs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qdiscs.drr import QUANTUM_BYTES
from virtlab.catalogue.qdiscs.htb import BURST_BYTES
from virtlab.catalogue.queueing import CLASS_PACKETS
from virtlab.plan import Link, Plan, Queue, Vnic
from virtlab.planner.queues.licence import QUEUE_PACKETS, burst_bytes
from virtlab.planner.queues.pushback import BURST_FRAMES, UPLINK_PACKETS, SharedQueue, shared_queues
from virtlab.planner.topology.ends import RoleEnd, interfaces
from virtlab.planner.topology.layer_two import Edge, LayerTwo, guest_box
from virtlab.prediction.bound.curves import (
    NS,
    WIRE_EXTRA_BYTES,
    Curve,
    Hop,
    NoBoundError,
    per_counted_bit,
    wire_bits,
)
from virtlab.simulator.ospf import converged

MOST_HOPS = 64


@dataclass(frozen=True)
class Paths:
    """The Plan's layer two, and its routes."""

    plan: Plan
    layer_two: LayerTwo

    @cached_property
    def _shared(self) -> dict[str, SharedQueue]:
        return {each.port: each for each in shared_queues(self.plan)}

    @property
    def _whole_bits(self) -> int:
        vnics = [each for guest in self.plan.world.guests.values() for each in guest.vnics.values()]
        return wire_bits(max(each.mtu_bytes for each in vnics))

    def packets(self, here: RoleEnd, there: RoleEnd, dscp: int, packet_bytes: int) -> list[Hop]:
        """Ports in order of IP packets of so many bytes at most, over routers. NoBoundError where one is of no kind
        that this knows.
        """
        if there.address is None:
            raise NoBoundError(f"{there.guest} has no address")
        return self._routed(here.guest, there.address.ip, dscp, packet_bytes)

    def frames(self, here: RoleEnd, there: RoleEnd) -> list[Hop]:
        """The way of frames below IP, from vNIC to vNIC: no rule of code points is theirs."""
        return self._wired((here.guest, here.vnic), (there.guest, there.vnic), None)[0]

    def by_way_of(
        self, here: RoleEnd, near: tuple[str, str], there: RoleEnd, dscp: int, packet_bytes: int
    ) -> list[Hop]:
        """The way of IP packets in frames to a forwarding guest's vNIC."""
        if there.address is None:
            raise NoBoundError(f"{there.guest} has no address")
        hops, reached = self._wired((here.guest, here.vnic), near, dscp)
        if self.plan.world.guests[near[0]].bridges:
            if reached[0] != there.guest:
                raise NoBoundError(f"frames by way of {near[0]} are flooded")
            return hops
        return [*hops, _forwarding(near[0]), *self._routed(near[0], there.address.ip, dscp, packet_bytes)]

    def _routed(self, guest: str, to: IPv4Address | IPv6Address, dscp: int, packet_bytes: int) -> list[Hop]:
        hops: list[Hop] = []
        for _ in range(MOST_HOPS):
            vnic, near = self._next_hop(guest, to)
            entry = self.plan.world.guests[guest].vnics[vnic]
            if hops and entry.mtu_bytes < packet_bytes:
                raise NoBoundError(f"{guest} cuts packets that are longer than its next link takes")
            found = self._owners.get(near)
            if found is None:
                raise NoBoundError(f"no vNIC has the address {near}")
            hops += self._wired((guest, vnic), found, dscp)[0]
            guest = found[0]
            if to in self._own[guest]:
                return hops
            if not self.plan.world.guests[guest].forwards:
                raise NoBoundError(f"{guest} does not forward packets")
            hops.append(_forwarding(guest))
        raise NoBoundError("its packets go in a circle")

    @cached_property
    def _own(self) -> dict[str, set[IPv4Address | IPv6Address]]:
        return {
            name: {own.ip for _, _, own in interfaces(guest)}
            for name, guest in self.plan.world.guests.items()
        }

    @cached_property
    def _owners(self) -> dict[IPv4Address | IPv6Address, tuple[str, str]]:
        return {
            own.ip: (name, vnic)
            for name, guest in self.plan.world.guests.items()
            for vnic, _, own in interfaces(guest)
        }

    @cached_property
    def _routes(
        self,
    ) -> dict[str, list[tuple[IPv4Network | IPv6Network, str, IPv4Address | IPv6Address | None]]]:
        """By guest: network, vNIC, next router; the longest prefix first, and own networks before others as long."""
        found, learnt = {}, converged(self.plan)
        for name, guest in self.plan.world.guests.items():
            routes: list[tuple[IPv4Network | IPv6Network, str, IPv4Address | IPv6Address | None]] = [
                (own.network, vnic, None) for vnic, _, own in interfaces(guest)
            ]
            routes += [
                (ip_network(route.to, strict=False), route.vnic, ip_address(route.via))
                for route in (*self.plan.world.routes.get(name, ()), *learnt.get(name, ()))
            ]
            found[name] = sorted(routes, key=lambda route: -route[0].prefixlen)
        return found

    def _next_hop(self, guest: str, to: IPv4Address | IPv6Address) -> tuple[str, IPv4Address | IPv6Address]:
        for network, vnic, via in self._routes[guest]:
            if network.version == to.version and to in network:
                return vnic, to if via is None else via
        raise NoBoundError(f"{guest} has no route to {to}")

    def _wired(
        self, source: tuple[str, str], target: tuple[str, str], dscp: int | None
    ) -> tuple[list[Hop], tuple[str, str]]:
        """Ports in order of frames to a vNIC's address, and the vNIC that they come to."""
        world = self.plan.world
        hops = list(self._out(*source))
        for edge, bridge in self._edges(source, target):
            if bridge is not None:
                hops += [_forwarding(bridge[0]), *self._out(*bridge)]
            if edge.because.startswith("links."):
                name = edge.because.removeprefix("links.")
                link = world.links[name]
                way = "ab" if edge.port == link.ends[0] else "ba"
                switch = world.switches[edge.box.name] if edge.box.kind == "switch" else None
                processing_ns = 0 if switch is None else switch.processing_ns
                if (shared := self._shared.get(edge.port)) is not None:
                    hops.append(_in_front_of_wire(shared))
                hops += self._ports(name, link, way, dscp, link.propagation_ns + processing_ns)
                hops[-1] = replace(hops[-1], leaves=edge.box.kind == "vswitch")
        guest, vnic = edge.box.name, edge.box.vnic
        _queues_nowhere(guest, world.guests[guest].vnics[vnic])
        return hops, (guest, vnic)

    def _out(self, guest: str, name: str) -> Iterator[Hop]:
        """The queues in front of a vNIC."""
        entry = self.plan.world.guests[guest]
        vnic = entry.vnics[name]
        _queues_nowhere(guest, vnic)
        if entry.licence_bit_per_s is not None:
            share = per_counted_bit(self._whole_bits)
            yield Hop(
                ("licence", f"{guest}/{name}"), share * entry.licence_bit_per_s, free=share * 8.0 * burst_bytes(vnic),
                limit_packets=QUEUE_PACKETS,
            )  # fmt: skip
        elif vnic.pushback_bit_per_s:
            frame = 8.0 * (vnic.mtu_bytes + WIRE_EXTRA_BYTES)
            yield Hop(("vnic", f"{guest}/{name}"), float(vnic.pushback_bit_per_s), free=BURST_FRAMES * frame)

    def _edges(
        self, source: tuple[str, str], target: tuple[str, str]
    ) -> Iterator[tuple[Edge, tuple[str, str] | None]]:
        """As tables have it; beside each edge the bridging guest and vNIC through which frames leave by it."""
        guests = self.plan.world.guests
        box = guest_box(source[0], guests[source[0]], source[1])
        vnic = guests[source[0]].vnics[source[1]]
        port: str | None = vnic.uplink or f"{source[0]}/{source[1]}"
        found = self.layer_two.ports_towards_vnic(*target)
        for _ in self.layer_two.edges:
            edge = next((each for each in self.layer_two.edges[box] if each.port == port), None)
            if edge is None:
                raise NoBoundError("frames are flooded, or two ends are not wired to each other")
            bridging = guests[box.name].vnics if box.kind == "bridge" else None
            yield edge, None if bridging is None else _vnic_of(box.name, edge.port, bridging)
            box = edge.box
            if not box.switching:
                return
            port = found.get(box)
        raise NoBoundError("its frames go in a circle")

    def _ports(self, name: str, link: Link, direction: str, dscp: int | None, after_ns: int) -> list[Hop]:
        queue = link.queue.ab if direction == "ab" else link.queue.ba
        line, rate = f"{name} {direction}", float(link.rate_bit_per_s)
        if queue.classes:
            return [_of_class(name, queue, dscp, line, rate, after_ns)]
        serves = QDISCS[queue.kind].serves
        if serves == "in_order":
            return [
                Hop(
                    ("link", line), rate, after_ns, line=line, limit_packets=queue.limit_packets,
                    limit_bytes=queue.limit_bytes,
                )
            ]  # fmt: skip
        if serves == "any_order":
            return [Hop(("link", line), rate, after_ns, line=line, serves="any_order")]
        if serves == "shaped":
            return [self._shaper(line, queue), Hop(("link", line), rate, after_ns, line=line)]
        raise NoBoundError(f"links.{name} has a queue, {queue.kind}, that this has no curve of")

    def _shaper(self, line: str, queue: Queue) -> Hop:
        """Bits of wire: the discipline counts fewer, the least fewer of full frames. A packet waits whole."""
        values, whole = queue.parameters, self._whole_bits
        share = per_counted_bit(whole)
        depth_bits = 8.0 * int(values.get("burst_bytes") or BURST_BYTES)
        if QDISCS[queue.kind].bucket is not None and depth_bits < whole - 8 * 24:
            raise NoBoundError(f"links.{line} has a bucket that a full frame never fits")
        return Hop(
            ("shaper", line), share * float(values["rate_bit_per_s"]), free=share * depth_bits - whole,
            limit_packets=queue.limit_packets, limit_bytes=queue.limit_bytes,
        )  # fmt: skip


def _in_front_of_wire(shared: SharedQueue) -> Hop:
    """The queue that a host's guests share."""
    free = BURST_FRAMES * 8.0 * (shared.mtu_bytes + WIRE_EXTRA_BYTES)
    return Hop(("uplink", shared.port), float(shared.rate_bit_per_s), free=free, limit_packets=UPLINK_PACKETS)


def _vnic_of(guest: str, port: str, vnics: Mapping[str, Vnic]) -> tuple[str, str]:
    """The guest that forwards frames and its vNIC at a port."""
    return guest, next(name for name, vnic in vnics.items() if port in {vnic.uplink, f"{guest}/{name}"})


def _queues_nowhere(guest: str, vnic: Vnic) -> None:
    if vnic.queue is not None or vnic.port_rate_bit_per_s is not None:
        raise NoBoundError(f"frames queue at the virtual switch's port of {guest}")


def _forwarding(guest: str) -> Hop:
    return Hop(("guest", guest), math.inf, serves="guest")


def _of_class(link: str, queue: Queue, dscp: int | None, line: str, rate: float, after_ns: int) -> Hop:
    by_code_point = all(
        rule == type(rule).model_validate({"class": rule.class_, "dscp": rule.dscp}) and rule.dscp
        for rule in queue.match
    )
    shares = QDISCS[queue.kind].shares
    if shares is None or not by_code_point:
        raise NoBoundError(
            f"links.{link} has classes that are not told by code points, or of no kind that this knows"
        )
    name = next((rule.class_ for rule in queue.match if dscp in rule.dscp), queue.default)
    if name is None:
        raise NoBoundError(f"links.{link} has no class for code point {dscp}")
    own = queue.classes[name]
    port = ("link", f"{line} {name}")
    if shares == "by_rank":
        order = QDISCS[queue.kind].ranks(queue)
        return Hop(
            port, rate, after_ns, line=line, serves="by_rank", rank=order.index(name), limit_packets=own.limit_packets
        )  # fmt: skip
    if shares == "by_rounds":
        quantum = 8.0 * int(own.parameters.get("quantum_bytes") or QUANTUM_BYTES)
        return Hop(
            port, rate, after_ns, line=line, serves="by_rounds", quantum_bits=quantum, limit_packets=own.limit_packets
        )  # fmt: skip
    if any(each.parent == name for each in queue.classes.values()):
        raise NoBoundError(f"links.{link}: class {name} is not a leaf")
    values = own.parameters
    if shares == "by_curve":
        return Hop(
            port, rate, after_ns, line=line, serves="by_curve", curve=_curve(values), idles=_may_idle(queue),
            limit_packets=own.limit_packets or CLASS_PACKETS,
        )  # fmt: skip
    burst = int(values.get("burst_bytes") or BURST_BYTES)
    cburst = int(values.get("cburst_bytes") or burst)
    return Hop(
        port, rate, after_ns, line=line, serves="by_rate", sure=float(values["rate_bit_per_s"]),
        burst_bits=8.0 * min(burst, cburst), limit_packets=own.limit_packets,
    )  # fmt: skip


def _curve(values: Mapping[str, Any]) -> Curve | None:
    """A class's real-time curve: one slope where a file says one."""
    first, second = values.get("rt_m1_bit_per_s"), values.get("rt_m2_bit_per_s")
    if first is None and second is None:
        return None
    second = second or 0
    return Curve(
        float(second if first is None else first), int(values.get("rt_d_ns") or 0) / NS, float(second)
    )


def _may_idle(queue: Queue) -> bool:
    """Whether a class may wait while nothing is sent: an upper limit, or a leaf that shares no link."""
    parents = {each.parent for each in queue.classes.values()}

    def has(values: Mapping[str, Any], curve: str) -> bool:
        return any(key.startswith(f"{curve}_m") for key in values)

    return any(
        has(each.parameters, "ul") or (name not in parents and not has(each.parameters, "ls"))
        for name, each in queue.classes.items()
    )
