"""The two ends of a role: guest, vNIC and address on either side, and the next hop's MAC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network

from virtlab.catalogue import below_ip
from virtlab.plan import Guest, Plan, Refusal, Role, Vnic

Interface = IPv4Interface | IPv6Interface
VERSIONS = {"ipv4": 4, "ipv6": 6}
BRIDGED_VNICS = 2


@dataclass(frozen=True, slots=True)
class RoleEnd:
    """One end. `address` is None where the vNIC has none (a workload below IP)."""

    guest: str
    vnic: str
    mac: str
    mtu_bytes: int
    address: Interface | None


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Interface:
    return ip_interface(text)


def interfaces(guest: Guest) -> Iterator[tuple[str, Vnic, Interface]]:
    """Every address of a guest with its vNIC."""
    for name, vnic in guest.vnics.items():
        for text in vnic.ip:
            yield name, vnic, _parsed(text)


def role_ends(plan: Plan, role: Role) -> tuple[RoleEnd, RoleEnd] | None:
    """(from, to) of a role; None when it has no two ends or they share no IP version that it may use."""
    if role.from_ is None or role.to is None:
        return None
    wanted = VERSIONS.get(str(role.parameters.get("family")))
    return ends_between(plan, role.from_, role.to, role.workload, wanted)


def ends_between(
    plan: Plan, near: str, other: str, workload: str, wanted: int | None = None
) -> tuple[RoleEnd, RoleEnd] | None:
    """(near, other) of two guests for a workload; None when they share no IP version, or not the `wanted` one."""
    guests = plan.world.guests
    if near not in guests or other not in guests:
        return None
    source, target = guests[near], guests[other]
    best: tuple[int, RoleEnd, RoleEnd] | None = None
    for name, vnic, own in interfaces(source):
        for far_name, far_vnic, far in interfaces(target):
            if own.version != far.version or (wanted is not None and own.version != wanted):
                continue
            # Same network before routed, v4 before v6, then in the Plan's order.
            rank = (0 if far.ip in own.network else 2) + (own.version == 6)
            if best is None or rank < best[0]:
                best = (
                    rank,
                    RoleEnd(near, name, vnic.mac, vnic.mtu_bytes, own),
                    RoleEnd(other, far_name, far_vnic.mac, far_vnic.mtu_bytes, far),
                )
    if best is not None:
        return best[1], best[2]
    if wanted is None and source.vnics and target.vnics and below_ip(workload):
        (name, vnic), (far_name, far_vnic) = (
            next(iter(source.vnics.items())),
            next(iter(target.vnics.items())),
        )
        return (
            RoleEnd(near, name, vnic.mac, vnic.mtu_bytes, None),
            RoleEnd(other, far_name, far_vnic.mac, far_vnic.mtu_bytes, None),
        )
    return None


def via_vnics(plan: Plan, here: RoleEnd, guests: Sequence[str]) -> list[tuple[str, str] | None]:
    """For each guest, itself and its vNIC on the virtual switch of the sender `here`, else the one in the sender's IP
    network; None where it has neither."""
    sender = plan.world.guests[here.guest].vnics[here.vnic]
    return [_near_vnic(plan, here, sender, name) for name in guests]


def via_macs(plan: Plan, here: RoleEnd, guests: Sequence[str]) -> list[str | None]:
    """The MACs of those."""
    found = via_vnics(plan, here, guests)
    return [None if each is None else plan.world.guests[each[0]].vnics[each[1]].mac for each in found]


def _near_vnic(plan: Plan, here: RoleEnd, sender: Vnic, name: str) -> tuple[str, str] | None:
    guest = plan.world.guests.get(name)
    if guest is None or name == here.guest:
        return None
    for own, vnic in guest.vnics.items():
        if vnic.vswitch is not None and vnic.vswitch == sender.vswitch:
            return name, own
    for own, _, address in interfaces(guest):
        if here.address is not None and address.ip in here.address.network:
            return name, own
    return None


def via_mistakes(path: str, plan: Plan, role: Role) -> Iterator[Refusal]:
    """Does every guest of `via` share the sender's virtual switch and forward, and do both ends have IPv4?"""
    names = role.parameters.get("via") or ()
    ends = role_ends(plan, role)
    if not names or ends is None:
        return
    if any(end.address is None or end.address.version != 4 for end in ends):
        yield Refusal(
            f"{path}.via", "frames by way of guests are IPv4, and an end has none", "give both ends IPv4"
        )
    for name, vnic in zip(names, via_vnics(plan, ends[0], names), strict=True):
        guest = plan.world.guests.get(name)
        if guest is None:
            yield Refusal(f"{path}.via", f"there is no guest '{name}'", "name a guest of the file")
        elif vnic is None:
            reason = f"{name} has no vNIC on the virtual switch or in the network of {role.from_}"
            yield Refusal(f"{path}.via", reason, "give it one, or remove it from 'via'")
        elif not (guest.forwards or guest.bridges):
            yield Refusal(f"{path}.via", f"{name} forwards nothing", "write 'forwards: true', or remove it")


def bridging_mistakes(path: str, guest: Guest) -> Iterator[Refusal]:
    """A guest that forwards frames stands between two virtual switches."""
    uplinked = any(vnic.uplink for vnic in guest.vnics.values())
    if guest.bridges and (guest.forwards or len(guest.vnics) != BRIDGED_VNICS or uplinked):
        reason = "a guest that forwards frames has two vNICs on virtual switches, and is no router"
        yield Refusal(path, reason, "give it two virtual switches, or 'forwarding: layer3'")


def next_hop_mac(plan: Plan, here: RoleEnd, there: RoleEnd) -> str:
    """The MAC that a frame from `here` to `there` carries: the peer's own, or the router's on the way."""
    if here.address is None or there.address is None or there.address.ip in here.address.network:
        return there.mac
    best: tuple[int, str] | None = None
    for route in plan.world.routes.get(here.guest, ()):
        network = ip_network(route.to, strict=False)
        leads_there = network.version == there.address.version and there.address.ip in network
        if leads_there and (best is None or network.prefixlen > best[0]):
            best = (network.prefixlen, route.via)
    if best is None:
        return there.mac
    via = ip_address(best[1])
    for guest in plan.world.guests.values():
        for _, vnic, own in interfaces(guest):
            if own.ip == via:
                return vnic.mac
    return there.mac
