"""Which guests know each other's MAC from the start (`arp: static`).

Every pair of vNICs on one IP network, while a network has at most 64 members; on larger ones only pairs that a role, a
route or the reachability check uses. Pairs grow with the square of the members, and a world shall grow with its guests.
Addresses that are left out are resolved by ARP, as on any network.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from virtlab.plan import Plan
from virtlab.planner.guests.clusters import entered, towards, ways_of_requests
from virtlab.planner.topology.ends import interfaces, role_ends

FULL_MESH_MEMBERS = 64

Member = tuple[str, str, str, str]  # guest, vnic, address, mac


def neighbours(plan: Plan) -> dict[tuple[str, str], dict[str, str]]:
    """(guest, vNIC) -> address -> MAC of whom it knows."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    networks: dict[str, list[Member]] = {}
    by_address: dict[str, Member] = {}
    for guest, entry in plan.world.guests.items():
        for name, vnic, own in interfaces(entry):
            member = (guest, name, str(own.ip), vnic.mac)
            networks.setdefault(str(own.network), []).append(member)
            by_address[str(own.ip)] = member
    for members in networks.values():
        if len(members) <= FULL_MESH_MEMBERS:
            for member in members:
                for other in members:
                    _acquaint(known, member, other)
    for first, second in reach_pairs(plan):
        one, two = by_address[first[1]], by_address[second[1]]
        if _same_network(plan, one, two):
            _acquaint(known, one, two)
            _acquaint(known, two, one)
    for guest, routes in plan.world.routes.items():
        for route in routes:
            hop = by_address.get(str(ip_address(route.via)))
            for name, vnic, own in interfaces(plan.world.guests[guest]):
                if hop is not None and name == route.vnic and ip_address(route.via) in own.network:
                    here = (guest, name, str(own.ip), vnic.mac)
                    _acquaint(known, here, hop)
                    _acquaint(known, hop, here)
    return known


def _same_network(plan: Plan, member: Member, two: Member) -> bool:
    return any(
        str(own.ip) == member[2] and ip_address(two[2]) in own.network
        for _, _, own in interfaces(plan.world.guests[member[0]])
    )


def _acquaint(known: dict[tuple[str, str], dict[str, str]], member: Member, two: Member) -> None:
    if member[:2] != two[:2]:
        known.setdefault((member[0], member[1]), {})[two[2]] = two[3]


def reach_pairs(plan: Plan) -> list[tuple[tuple[str, str, int], tuple[str, str, int]]]:
    """Pairs of (guest, address, MTU) that must reach each other: the ends of roles, and servers that forward; without
    roles a ring of all guests.
    """
    pairs = []
    roles = [towards(role, guest) for role in plan.roles.values() for guest in entered(plan, role)]
    for role in (*roles, *(way.role for way in ways_of_requests(plan))):
        ends = role_ends(plan, role)
        if ends is not None and ends[0].address is not None and ends[1].address is not None:
            here, there = ends
            if here.guest != there.guest:
                pairs.append(
                    (
                        (here.guest, str(here.address.ip), here.mtu_bytes),  # type: ignore[union-attr]
                        (there.guest, str(there.address.ip), there.mtu_bytes),  # type: ignore[union-attr]
                    )
                )
    if plan.roles:
        return list(dict.fromkeys(pairs))
    return list(_ring(plan))


def _ring(plan: Plan) -> Iterator[tuple[tuple[str, str, int], tuple[str, str, int]]]:
    """The next guest of the same IP version for each; the last asks the first."""
    for version in (4, 6):
        members = []
        for guest, entry in plan.world.guests.items():
            first = next((each for each in interfaces(entry) if each[2].version == version), None)
            if first is not None:
                members.append((guest, str(first[2].ip), first[1].mtu_bytes))
        if len(members) > 1:
            yield from zip(members, [*members[1:], members[0]], strict=True)
