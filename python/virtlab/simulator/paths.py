"""Whether the two ends of every role reach each other, over routers or not, and whether what they send fits on the way.

Below IP there are no routers. A port drops packets longer than its MTU, and sends no message about it. A router cuts a
packet of IPv4 that is too long for its next port into fragments; it must not where the packet is IPv6 or a segment of
TCP, and informs the sender, which sends shorter ones from then on. A process that makes whole frames is informed in
vain: all of them are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from virtlab.catalogue import WORKLOADS, below_ip
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.plan import Plan, Refusal, Role
from virtlab.planner.topology.layer_two import LayerTwo, guest_box
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES

MOST_HOPS = 64

Hop = tuple[int, int]  # vNIC that sends, vNIC that takes


class Paths:
    """The lowered world's ways, by places in its lists."""

    def __init__(self, plan: Plan, lowered: Mapping[str, Any]) -> None:
        self.lowered = lowered
        self._layer_two = LayerTwo(plan)
        self._boxes = [
            guest_box(name, guest, vnic) for name, guest in plan.world.guests.items() for vnic in guest.vnics
        ]
        self._places = {vnic["mac"]: place for place, vnic in enumerate(self.lowered["vnics"])}
        self.bridging = {each["guest"] for each in self.lowered["bridging"]}

    def joined(self, first: int, second: int) -> bool:
        """Whether two vNICs are on one wired network."""
        return self._layer_two.same_segment(self._boxes[first], self._boxes[second])

    def links_between(self, first: int, second: int) -> bool:
        """Whether frames from one vNIC to another of its wired network cross a link."""
        near = {self._boxes[first]}
        waiting = list(near)
        while waiting:
            for edge in self._layer_two.edges[waiting.pop()]:
                if not edge.because.startswith("links.") and edge.box not in near:
                    near.add(edge.box)
                    waiting.append(edge.box)
        return self._boxes[second] not in near

    def way(self, here: int, address: str) -> list[Hop] | None:
        """The hops of a packet from a guest to an address; None where it does not get there."""
        guests, vnics, neighbours = (self.lowered[key] for key in ("guests", "vnics", "neighbours"))
        hops: list[Hop] = []
        for _ in range(MOST_HOPS):
            guest = guests[here]
            if address in guest["addresses"]:
                return hops
            to = ip_address(address)
            way = next(
                (r for r in guest["routes"] if to in ip_network(f"{r['network']}/{r['prefix_bits']}")), None
            )
            if way is None or (way["via"] or address) not in neighbours:
                return None
            there = self._places[neighbours[way["via"] or address]]
            if not self.joined(there, way["vnic"]):
                return None
            hops.append((way["vnic"], there))
            here = vnics[there]["guest"]
            if address not in guests[here]["addresses"] and not guests[here]["forwards"]:
                return None
        return None


def by_tcp(role: Role) -> bool:
    """Whether a role speaks TCP."""
    return is_tcp(role.workload, role.parameters)


def is_tcp(workload: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a workload speaks TCP."""
    return WORKLOADS[workload].transport(parameters) == "tcp"


def over_links(plan: Plan, lowered: Mapping[str, Any]) -> frozenset[str]:
    """Roles whose packets cross a link, on their way there or back; with those that have no way."""
    paths = Paths(plan, lowered)
    found = set()
    for _, role in _legs(lowered):
        hops = _hops(paths, role)
        if hops is None or any(paths.links_between(*hop) for way in hops for hop in way):
            found.add(role["name"])
    return frozenset(found)


def wayless(plan: Plan, lowered: Mapping[str, Any]) -> Iterator[Refusal]:
    """Roles whose packets do not get to the other end, or back."""
    paths = Paths(plan, lowered)
    for path, role in _legs(paths.lowered):
        found = _hops(paths, role)
        if found is None:
            cure = "wire or route them; raw_stream crosses no router that is not in its 'via'"
            yield Refusal(path, "its ends cannot reach each other", cure)
            continue
        for hops in found:
            yield from _too_long(paths, role, hops)


def _legs(lowered: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All pairs of ends that speak with each other, each as a role, with its path in the Plan."""
    for role in lowered["roles"]:
        path = f"roles.{role['name']}"
        yield path, role
        for entry in role["parameters"].get("entries", ())[1:]:
            addresses = (entry["local"], entry["address"])
            ends = [
                {"vnic": vnic, "address": address}
                for vnic, address in zip(entry["vnics"], addresses, strict=True)
            ]
            yield path, {**role, "ends": ends}
    for way in lowered.get("passive", ()):
        parameters = {"service": way["service"]}
        leg = {"name": way["service"], "workload": REQUEST_RESPONSE.name, "parameters": parameters}
        yield f"services.{way['service']}.on", {**leg, "ends": way["ends"]}


def _hops(paths: Paths, role: Mapping[str, Any]) -> list[list[Hop]] | None:
    """Both directions of a role, or all ways of its frames."""
    client, server = role["ends"]
    vnics = paths.lowered["vnics"]
    if WORKLOADS[role["workload"]].alone:
        return []
    if role["parameters"].get("via"):
        found = []
        for vnic in role["parameters"]["via"]:
            station = vnics[vnic]["guest"]
            rest = [] if station in paths.bridging else paths.way(station, server["address"])
            if rest is None or not paths.joined(client["vnic"], vnic):
                return None
            found.append([(client["vnic"], vnic), *rest])
        return found
    if below_ip(role["workload"]):
        return [[(client["vnic"], server["vnic"])]] if paths.joined(client["vnic"], server["vnic"]) else None
    there = paths.way(vnics[client["vnic"]]["guest"], server["address"])
    back = paths.way(vnics[server["vnic"]]["guest"], client["address"])
    return None if there is None or back is None else [there, back]


def _too_long(paths: Paths, role: Mapping[str, Any], hops: list[Hop]) -> Iterator[Refusal]:
    """The first place on a way that its packets, as long as they may be, do not fit through."""
    vnics, ends = paths.lowered["vnics"], role["ends"]
    longest = vnics[hops[0][0]]["mtu_bytes"]
    if is_tcp(role["workload"], role["parameters"]):
        longest = min(vnics[end["vnic"]]["mtu_bytes"] for end in ends)
    if below_ip(role["workload"]) and role["parameters"].get("frame_bytes"):
        longest = min(longest, role["parameters"]["frame_bytes"] - HEADER_AND_FCS_BYTES)
    for out, into in hops:
        if vnics[out]["mtu_bytes"] < longest and role["parameters"].get("via"):
            return  # none of them comes any further
        longest = min(longest, vnics[out]["mtu_bytes"])
        if vnics[into]["mtu_bytes"] < longest:
            narrow = f"a port with an MTU of {vnics[into]['mtu_bytes']} B"
            reason = f"packets of {longest} B come to {narrow}, which takes none of them"
            yield Refusal(f"{vnics[into]['name']}.mtu_bytes", reason, "give the ports of one network one MTU")
            return
