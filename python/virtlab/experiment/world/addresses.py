"""Addresses: one subnet per broadcast domain out of the pool, guests from its low end, routers from its high end.

A subnet is a /24 (IPv4) or a /64 (IPv6), larger when the domain needs it. A guest that states its address
fixes the subnet of its domain. MAC addresses come from the guest's name alone, so another guest changes none
of them.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import NetworkSpec
from virtlab.experiment.world.topology import Station, Wiring

Member = tuple[str, str]  # guest, vNIC
SUBNET_BITS = {4: 24, 6: 64}


@dataclass(slots=True)
class Addresses:
    """Addresses of every vNIC: text with prefix length, IPv4 first; subnets by domain and IP version."""

    of: dict[Member, list[str]] = field(default_factory=dict)
    subnets: dict[tuple[str, int], str] = field(default_factory=dict)
    macs: dict[Member, str] = field(default_factory=dict)


def domains(wiring: Wiring) -> dict[str, list[Member]]:
    """vNICs per broadcast domain, in the file's order; routers last."""
    found: dict[str, list[Member]] = {}
    for forwards in (False, True):
        for station in wiring.stations.values():
            if station.forwards is forwards and not station.bridges:
                for vnic, attachment in station.vnics.items():
                    if attachment.network == "own":
                        continue  # its addresses are read, not given
                    found.setdefault(attachment.domain, []).append((station.name, vnic))
    return found


def assign(wiring: Wiring, network: NetworkSpec, findings: Findings) -> Addresses:
    """Addresses of one design point; exhaustion, duplicates and strangers in a subnet are added as mistakes."""
    addresses = Addresses()
    members = domains(wiring)
    for version, pool in ((4, network.ipv4), (6, network.ipv6)):
        fixed = _fixed(wiring, version, findings)
        if pool != "none" or fixed:
            _assign_version(addresses, wiring, members, version, pool, fixed, findings)
    if network.ipv4 == "none" and network.ipv6 == "none" and members and not addresses.subnets:
        findings.add(
            ("network",),
            "guests have neither IPv4 nor IPv6 addresses",
            "give a pool, e.g. 'ipv4: 10.0.0.0/16'",
        )
    _assign_macs(addresses, wiring, findings)
    return addresses


def _fixed(wiring: Wiring, version: int, findings: Findings) -> dict[Member, Any]:
    """Addresses that the file states; the same one twice is a mistake."""
    stated: dict[Member, Any] = {}
    owners: dict[Any, str] = {}
    for station in wiring.stations.values():
        text = station.spec.ipv4 if version == 4 else station.spec.ipv6
        if text is None:
            continue
        interface = ipaddress.ip_interface(text)
        if interface.ip in owners:
            what = f"{interface.ip} belongs to {owners[interface.ip]} already"
            findings.add((*_steps(station), f"ipv{version}"), what, "give each guest its own address")
            continue
        owners[interface.ip] = station.name
        stated[station.name, next(iter(station.vnics))] = interface
    return stated


def _steps(station: Station) -> Steps:
    _, host, *rest = station.because.split(".")
    return ("hosts", host, *rest) if rest else ("routers", host)


def _assign_version(
    addresses: Addresses, wiring: Wiring, members: dict[str, list[Member]], version: int, pool: str,
    fixed: dict[Member, Any], findings: Findings,
) -> None:  # fmt: skip
    networks: dict[str, Any] = {}
    for domain, vnics in members.items():
        stated = {member: fixed[member] for member in vnics if member in fixed}
        for member, interface in stated.items():
            known = networks.setdefault(domain, interface.network)
            if known != interface.network:
                what = f"{interface} is not in {known}, the subnet of its neighbours"
                findings.add(
                    (*_steps(wiring.stations[member[0]]), f"ipv{version}"),
                    what,
                    f"take an address in {known}",
                )
    for first, second in _overlapping(networks):
        what = f"two broadcast domains share {networks[first]} and {networks[second]}"
        findings.add(("hosts",), what, "give each domain its own subnet")
    free = _subnets(pool, version, [len(vnics) for vnics in members.values()], list(networks.values()))
    for domain, vnics in members.items():
        subnet = networks.get(domain) or next(free, None)
        if subnet is None:
            what = (
                f"the pool {pool} is exhausted: no subnet for {len(vnics)} vNICs"
                if pool != "none"
                else "no IPv4 pool"
            )
            findings.add(
                ("network", f"ipv{version}"), what, "take a larger pool, e.g. '10.0.0.0/8' or 'fd00::/48'"
            )
            return
        addresses.subnets[domain, version] = str(subnet)
        _number(addresses, wiring, vnics, subnet, fixed, findings)


def _overlapping(networks: dict[str, Any]) -> Iterator[tuple[str, str]]:
    names = list(networks)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            if networks[first].overlaps(networks[second]):
                yield first, second


def _subnets(pool: str, version: int, sizes: list[int], used: list[Any]) -> Iterator[Any]:
    """Subnets of the pool, each large enough for the largest domain, without those that the file states."""
    if pool == "none":
        return
    whole = ipaddress.ip_network(pool)
    bits = 32 if version == 4 else 128
    need = max(sizes, default=1) + 2  # network and broadcast address
    prefix = min(SUBNET_BITS[version], bits - (need - 1).bit_length())
    if prefix < whole.prefixlen:
        if len(sizes) == 1 and whole.num_addresses >= need:
            prefix = whole.prefixlen
        else:
            return
    prefix = max(prefix, whole.prefixlen)
    for subnet in whole.subnets(new_prefix=prefix):
        if not any(subnet.overlaps(other) for other in used):
            yield subnet


def _number(
    addresses: Addresses,
    wiring: Wiring,
    vnics: list[Member],
    subnet: Any,
    fixed: dict[Member, Any],
    findings: Findings,
) -> None:
    taken = {fixed[member].ip for member in vnics if member in fixed}
    size = subnet.num_addresses
    last = size - 2 if subnet.version == 4 and size > 2 else size - 1
    first = 1 if size > 2 else 0
    low, high = first, min(last, 254) if last > 254 and len(vnics) < 200 else last
    for member in vnics:
        if member in fixed:
            addresses.of.setdefault(member, []).append(str(fixed[member]))
            continue
        up = wiring.stations[member[0]].forwards
        while low <= high and subnet[high if up else low] in taken:
            low, high = (low, high - 1) if up else (low + 1, high)
        if low > high:
            what = f"the subnet {subnet} is exhausted by {len(vnics)} vNICs"
            findings.add(("network", f"ipv{subnet.version}"), what, "take a larger pool, or fewer guests")
            return
        addresses.of.setdefault(member, []).append(f"{subnet[high if up else low]}/{subnet.prefixlen}")
        low, high = (low, high - 1) if up else (low + 1, high)


def mac_of(guest: str, vnic: str, attempt: int = 0) -> str:
    """A locally administered MAC address from the names alone.

    >>> mac_of("h1.g1", "eth0")
    '02:80:ec:53:13:d6'
    """
    digest = hashlib.sha256(f"mac/{guest}/{vnic}/{attempt}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (2, *digest[:5]))


def _assign_macs(addresses: Addresses, wiring: Wiring, findings: Findings) -> None:
    owners: dict[str, str] = {}
    for station in wiring.stations.values():
        if station.spec.mac is not None:
            if station.spec.mac in owners:
                what = f"{station.spec.mac} belongs to {owners[station.spec.mac]} already"
                findings.add((*_steps(station), "mac"), what, "give each guest its own MAC address")
            owners[station.spec.mac] = station.name
            addresses.macs[station.name, next(iter(station.vnics))] = station.spec.mac
    for name in sorted(wiring.stations):
        for vnic in wiring.stations[name].vnics:
            if (name, vnic) in addresses.macs:
                continue
            mac, attempt = mac_of(name, vnic), 0
            while mac in owners:
                attempt += 1
                mac = mac_of(name, vnic, attempt)
            owners[mac] = name
            addresses.macs[name, vnic] = mac
