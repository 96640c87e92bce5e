"""What an existing host's network is, read from it, and a VXLAN over it where the file asks for one.

`own`: the role's packets go through the host's own interface, by its own addresses; nothing is set. `vxlan`: an
interface with the Plan's addresses in a network namespace of the agent, whose frames travel in UDP datagrams
between the hosts' own addresses; it ends with the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from typing import Any

from virtlab.errors import GuestError
from virtlab.plan import Plan, Vnic
from virtlab.testbed.steps.names import guest_namespace
from virtlab.testbed.steps.neighbours import neighbours
from virtlab.testbed.steps.operations import (
    OFFLOADS_OFF,
    AddressAdd,
    HomeAdd,
    LinkSet,
    NamespaceAdd,
    NeighbourAdd,
    OffloadSet,
    Step,
    TunnelPeer,
    VxlanAdd,
)

VXLAN_ID = 7348  # after the RFC
VXLAN_PORT = 14789  # not the registered one, which a host's own overlay may have
VXLAN_LINK = "vxlan0"
NOBODY = "00:00:00:00:00:00"
_OUTER_BYTES = {4: 20 + 8 + 8 + 14, 6: 40 + 8 + 8 + 14}  # IP, UDP, VXLAN and Ethernet headers around a frame


@dataclass(frozen=True, slots=True)
class HostInterface:
    """The interface of an existing host that is measured through, as its kernel has it."""

    link: str
    mac: str
    mtu_bytes: int
    addresses: tuple[str, ...]

    @property
    def first(self) -> str:
        """Its first address, without prefix length; IPv4 before IPv6."""
        ordered = sorted(self.addresses, key=lambda text: ip_interface(text).version)
        return str(ip_interface(ordered[0]).ip)


def home(guest: str, vnic: Vnic) -> str:
    """The name that the network of the host itself has in our books."""
    return guest_namespace(guest) if vnic.network == "own" else f"home:{guest}"


def choose(where: str, links: Mapping[str, Any], wanted: str | None, address: str | None) -> HostInterface:
    """The interface that the file names, else the one with the address that ssh reached. GuestError that lists them."""
    if wanted is None and address is not None:
        wanted = next(
            (
                name
                for name, link in links.items()
                if any(
                    ip_interface(text).ip == ip_address(address.partition("%")[0])
                    for text in link["addresses"]
                )
            ),
            None,
        )
    there = ", ".join(name for name in links if name != "lo")
    if wanted is None:
        what = f"none of its interfaces has the address that ssh reached ({address or 'unknown'})"
        raise GuestError(where, what, f"write 'interface: ...' at the host; it has {there}")
    if wanted not in links:
        raise GuestError(where, f"has no interface {wanted}", f"it has {there}")
    link = links[wanted]
    if not link["up"]:
        raise GuestError(where, f"its interface {wanted} is down", "bring it up there, or name another")
    addresses = tuple(sorted(text for text in link["addresses"] if not ip_interface(text).is_link_local))
    if not addresses:
        raise GuestError(
            where, f"its interface {wanted} has no address", "give it one there, or name another"
        )
    return HostInterface(wanted, str(link["mac"]), int(link["mtu_bytes"]), addresses)


def told_apart(interfaces: Mapping[str, HostInterface], addresses: Mapping[str, frozenset[str]]) -> None:
    """GuestError where two guests are one machine: what they sent each other would never leave it.

    `addresses`: all that each has outside its loopback, without prefix lengths.
    """
    for guest, link in interfaces.items():
        for other, theirs in addresses.items():
            if other != guest and link.first in theirs:
                what = f"is the same machine as guests.{other}, which has its address {link.first} too"
                raise GuestError(
                    f"guests.{guest}", what, "write another 'address' at the host of one of them"
                )


def resolved(plan: Plan, interfaces: Mapping[str, HostInterface]) -> Plan:
    """The Plan with what was read in place of what was left open. GuestError where a VXLAN does not fit what
    carries it.
    """
    guests = dict(plan.world.guests)
    hosts = dict(plan.world.hosts)
    for name, link in interfaces.items():
        guest = guests[name]
        (vnic_name, vnic), *_ = guest.vnics.items()
        hosts[guest.host] = hosts[guest.host].model_copy(update={"interface": link.link})
        if vnic.network == "vxlan":
            room = link.mtu_bytes - _OUTER_BYTES[ip_address(link.first).version]
            if vnic.mtu_bytes > room:
                carried = f"{link.link}, which carries {link.mtu_bytes} B"
                what = f"an MTU of {vnic.mtu_bytes} B does not fit a VXLAN over {carried}"
                raise GuestError(f"guests.{name}", what, f"write 'network: {{mtu: {room} B}}'")
            continue
        read = {
            "mac": link.mac,
            "ip": link.addresses,
            "mtu_bytes": min(link.mtu_bytes, 65_535),
            "offloads": "default",
        }
        guests[name] = guest.model_copy(update={"vnics": {vnic_name: vnic.model_copy(update=read)}})
    world = plan.world.model_copy(update={"guests": guests, "hosts": hosts})
    return plan.model_copy(update={"world": world})


def steps(plan: Plan, guest: str, interfaces: Mapping[str, HostInterface]) -> list[Step]:
    """What is made at a host beyond naming its network: a VXLAN, where it is requested."""
    (vnic_name, vnic), *_ = plan.world.guests[guest].vnics.items()
    path = f"guests.{guest}"
    if vnic.network != "vxlan":
        return []
    own = interfaces[guest]
    inside = guest_namespace(guest)
    carrier = home(guest, vnic)
    out = [
        Step(NamespaceAdd(inside), path),
        Step(
            VxlanAdd(
                inside,
                VXLAN_LINK,
                vnic.mac,
                vnic.mtu_bytes,
                carrier,
                own.link,
                VXLAN_ID,
                VXLAN_PORT,
                own.first,
            ),
            f"{path}.vnics.{vnic_name}",
        ),
    ]
    because = f"{path}.vnics.{vnic_name}"
    if vnic.offloads == "off":
        out.append(Step(OffloadSet(inside, VXLAN_LINK, OFFLOADS_OFF), because))
    out += [Step(LinkSet(inside, "lo", up=True), path), Step(LinkSet(inside, VXLAN_LINK, up=True), because)]
    out += [Step(AddressAdd(inside, VXLAN_LINK, address), because) for address in vnic.ip]
    for other, far in interfaces.items():
        if other == guest:
            continue
        peer = next(iter(plan.world.guests[other].vnics.values()))
        if peer.network == "vxlan":
            out += [
                Step(TunnelPeer(inside, VXLAN_LINK, mac, far.first), f"guests.{other}")
                for mac in (NOBODY, peer.mac)
            ]
    if plan.world.arp == "static":
        known = neighbours(plan).get((guest, vnic_name), {})
        out += [
            Step(NeighbourAdd(inside, VXLAN_LINK, address, mac), because) for address, mac in known.items()
        ]
    return out


def naming(guest: str, vnic: Vnic) -> Step:
    """The host's own network gets a name in the books of the leader there; nothing of it changes."""
    return Step(HomeAdd(home(guest, vnic)), f"guests.{guest}")
