"""Hosts between which guests are copied over the network: each has a vNIC of its own on one of its virtual switches.

From there the copy goes through the same wires, queues and switches as what guests send. Only where an action says
`over: network` and copies something, or where a guest's disk is on a store, which its host asks; so a world without
either is what it always was. The vNIC stands on the host's first virtual switch that has a wire, the other host's on
its first one that frames reach from there. Its address is the first that is free in the network of the guests around,
its MAC address comes from the host's name alone, and it is as fast as the host's wire where guests hold themselves back
at theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface
from itertools import islice

from virtlab.catalogue.disks import SERVICE
from virtlab.experiment.world.addresses import mac_of
from virtlab.plan import Action, Disk, Host, Plan, Refusal, Vnic
from virtlab.planner.mobility.moves import COLD, NETWORK, OVER, mode_of, moving, source_of
from virtlab.planner.topology.layer_two import OWN, Box, LayerTwo

LOOKED_AT = 1 << 17  # addresses of a network, until none is said to be free


def crossing(plan: Plan) -> Iterator[tuple[str, Action]]:
    """Every action by which a guest is copied over links of the world, with its path."""
    for path, action in moving(plan):
        if action.over == NETWORK and mode_of(action) != COLD:
            yield path, action


def stored_disks(plan: Plan, service: str | None = None) -> dict[str, Disk]:
    """Disks on a store by their guests; those on the given one, or all."""
    return {
        name: guest.disk
        for name, guest in plan.world.guests.items()
        if guest.disk is not None
        and guest.disk.medium == SERVICE
        and (service is None or guest.disk.service == service)
    }


def addressed(plan: Plan) -> Plan:
    """The Plan in which each host that a guest is copied from or to has a vNIC, where it can have one; so has each with
    a guest whose disk is on a store, on that guest's virtual switch.
    """
    actions, stored = list(crossing(plan)), stored_disks(plan)
    if not actions and not stored:
        return plan
    layer_two, hosts, because = LayerTwo(plan), dict(plan.world.hosts), dict(plan.because)
    for path, action in actions:
        source, to = source_of(plan, action), str(action.to)
        pair = _switches(plan, hosts, layer_two, source, to)
        for host, vswitch in zip((source, to), pair, strict=False):
            if (
                hosts[host].vnic is None
                and (vnic := _vnic(plan, hosts, layer_two, host, vswitch)) is not None
            ):
                hosts[host] = hosts[host].model_copy(update={"vnic": vnic})
                because[f"hosts.{host}.vnic"] = plan.because.get(path, path)
    for name in stored:
        guest = plan.world.guests[name]
        own = next((vnic.vswitch for vnic in guest.vnics.values() if vnic.vswitch is not None), None)
        if own is None or guest.host not in hosts or hosts[guest.host].vnic is not None:
            continue
        if (vnic := _vnic(plan, hosts, layer_two, guest.host, own)) is not None:
            hosts[guest.host] = hosts[guest.host].model_copy(update={"vnic": vnic})
            because[f"hosts.{guest.host}.vnic"] = plan.because.get(f"guests.{name}", f"guests.{name}.disk")
    world = plan.world.model_copy(update={"hosts": hosts})
    return plan.model_copy(update={"world": world, "because": because})


def unaddressed(path: str, action: Action, plan: Plan) -> Refusal | None:
    """Why a guest cannot be copied from its host to another one over links; None where it can."""
    hosts, source, to = plan.world.hosts, source_of(plan, action), str(action.to)
    cure = f"write 'over: {OVER}'"
    layer_two = LayerTwo(plan)
    if not _switches(plan, hosts, layer_two, source, to):
        reason = f"no links lead from {source} to {to} without a router"
        return Refusal(f"{path}.over", reason, f"{cure}, or give both hosts uplinks")
    lacking = [host for host in (source, to) if hosts[host].vnic is None]
    if lacking:
        reason = f"no address of the guests' network is left for {lacking[0]} itself"
        return Refusal(f"{path}.over", reason, f"{cure}, or give 'network' a larger pool")
    return None


def host_mistakes(plan: Plan) -> Iterator[Refusal]:
    """vNICs of hosts that stand on no virtual switch of theirs, or have what is another's."""
    owners: dict[object, str] = {}
    for path, vnic in (*_of_guests(plan), *_of_hosts(plan)):
        own = {vnic.mac.lower(), *(ip_interface(text).ip for text in vnic.ip)}
        if path.startswith("hosts."):
            vswitch = plan.world.vswitches.get(str(vnic.vswitch))
            if vswitch is None or f"hosts.{vswitch.host}.vnic" != path:
                yield Refusal(path, f"its host has no virtual switch '{vnic.vswitch}'", "name one of its own")
            for one in sorted(own & owners.keys(), key=str):
                yield Refusal(path, f"{one} is {owners[one]}'s too", "give each vNIC addresses of its own")
        owners |= dict.fromkeys(own, path)


def _of_guests(plan: Plan) -> Iterator[tuple[str, Vnic]]:
    for name, guest in plan.world.guests.items():
        for own, vnic in guest.vnics.items():
            yield f"guests.{name}.vnics.{own}", vnic


def _of_hosts(plan: Plan) -> Iterator[tuple[str, Vnic]]:
    for name, host in plan.world.hosts.items():
        if host.vnic is not None:
            yield f"hosts.{name}.vnic", host.vnic


def _switches(
    plan: Plan, hosts: dict[str, Host], layer_two: LayerTwo, source: str, to: str
) -> tuple[str, str] | tuple[()]:
    """The virtual switches of both hosts between which the copy goes; nothing where no frame comes through."""
    for here in _wired(plan, hosts, source):
        for there in _wired(plan, hosts, to):
            if layer_two.same_segment(Box("vswitch", here), Box("vswitch", there)):
                return here, there
    return ()


def _wired(plan: Plan, hosts: dict[str, Host], host: str) -> list[str]:
    """A host's virtual switches that have a wire; of one that has a vNIC, that one's."""
    own = hosts[host].vnic if host in hosts else None
    if own is not None:
        return [str(own.vswitch)]
    return [name for name, each in plan.world.vswitches.items() if each.host == host and each.uplinks]


def _vnic(plan: Plan, hosts: dict[str, Host], layer_two: LayerTwo, host: str, vswitch: str) -> Vnic | None:
    around = [
        vnic
        for guest in plan.world.guests.values()
        for vnic in guest.vnics.values()
        if vnic.vswitch is not None
        and layer_two.same_segment(Box("vswitch", vnic.vswitch), Box("vswitch", vswitch))
    ]
    every = [vnic for guest in plan.world.guests.values() for vnic in guest.vnics.values()]
    every += [each.vnic for each in hosts.values() if each.vnic is not None]
    address = _address(around, {ip_interface(text).ip for vnic in every for text in vnic.ip})
    if address is None:
        return None
    macs, attempt = {vnic.mac.lower() for vnic in every}, 0
    while (mac := mac_of(host, OWN, attempt)) in macs:
        attempt += 1
    return Vnic(
        vswitch=vswitch,
        mac=mac,
        ip=(address,),
        mtu_bytes=min(vnic.mtu_bytes for vnic in around),
        offloads="off" if any(vnic.offloads == "off" for vnic in around) else "default",
        pushback_bit_per_s=_rate(plan, vswitch) if hosts[host].pushback == "guest" else None,
    )


def _address(around: list[Vnic], taken: set[object]) -> str | None:
    """The first one that is free, in IPv4 where guests have that."""
    networks = {ip_interface(text).network for vnic in around for text in vnic.ip}
    for network in sorted(networks, key=lambda each: (each.version, int(each.network_address))):
        free = (each for each in islice(network.hosts(), LOOKED_AT) if each not in taken)
        if (first := next(free, None)) is not None:
            return f"{first}/{network.prefixlen}"
    return None


def _rate(plan: Plan, vswitch: str) -> int | None:
    """The rate of the slowest wire of a virtual switch, bit/s; None of one without a wire."""
    ends = set(plan.world.vswitches[vswitch].uplinks)
    rates = (link.rate_bit_per_s for link in plan.world.links.values() if ends & set(link.ends))
    return min(rates, default=None)
