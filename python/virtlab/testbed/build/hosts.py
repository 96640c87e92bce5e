"""What a host between which guests are copied has of its own: a port of its virtual switch, an address, whom it knows.

Both ends of that port's veth are in the host's namespace: one is a port of its virtual switch, of whatever kind, the
other has the address. The machine that is copied runs in that namespace, and connects by TCP to the other host's.

QEMU believes the first peer that connects, and guests share the network. So a host has a route to those hosts alone
that copy to it or from it, and to the nodes of stores on which disks of its guests are: it cannot answer another guest.
It knows their MAC addresses from the start, so that no guest gets their answers by taking an address of theirs.
"""

from __future__ import annotations

from ipaddress import ip_interface

from virtlab.plan import Action, Plan, Vnic
from virtlab.planner.guests.stores import guests_of
from virtlab.planner.mobility.copying import crossing, stored_disks
from virtlab.planner.mobility.moves import COLD, NETWORK, mode_of, moves, source_of
from virtlab.planner.queues.pushback import sharing
from virtlab.planner.topology.layer_two import host_port
from virtlab.testbed.kinds.lowered import OWN_LINK, Copied, Lowered, Place
from virtlab.testbed.queues.pacing import pushback
from virtlab.testbed.steps.names import host_namespace, interface
from virtlab.testbed.steps.operations import (
    OFFLOADS_OFF,
    AddressAdd,
    BridgePortSet,
    End,
    LinkSet,
    NeighbourAdd,
    OffloadSet,
    RouteAdd,
    SysctlSet,
    VethAdd,
)

# Connecting over a link that is cut ends after 1 + 2 + 4 s, before QEMU is said to hang that shall cancel.
CONNECTING_RETRIES = "2"
LOOPBACK, PORT = "127.0.0.1", 4444
DISK_PORT = 10_809  # that of NBD, and those behind it


def ports(plan: Plan, taken: dict[str, set[str]], out: Lowered) -> None:
    """A veth for each."""
    for host, entry in plan.world.hosts.items():
        if (vnic := entry.vnic) is None:
            continue
        switch, path, namespace = out.vswitches[str(vnic.vswitch)], f"hosts.{host}.vnic", host_namespace(host)
        port = interface(f"{OWN_LINK}.port", taken.setdefault(namespace, set()))
        out.join_guest(switch, host_port(host), vnic, port)
        near = End(namespace, port, mtu_bytes=vnic.mtu_bytes, master=switch.master)
        out.add(path, VethAdd((near, End(namespace, OWN_LINK, mac=vnic.mac, mtu_bytes=vnic.mtu_bytes))))
        out.ports[host_port(host)] = Place(namespace, port)
        if (rules := switch.rules()) is not None:
            out.add(path, BridgePortSet(namespace, port, rules))
        out.add(path, LinkSet(namespace, port, up=True))


def configured(plan: Plan, out: Lowered) -> None:
    """Its end of it, as a guest's vNIC is configured."""
    shared = sharing(plan)
    for host, place in out.hosts.items():
        vnic, namespace, path = plan.world.hosts[host].vnic, place.namespace, f"hosts.{host}.vnic"
        assert vnic is not None
        # A bridge beside it, without an address, would answer for it, and take what is sent to it.
        out.add(path, SysctlSet(namespace, "net/ipv4/conf/all/arp_ignore", "1"))
        out.add(path, SysctlSet(namespace, "net/ipv4/tcp_syn_retries", CONNECTING_RETRIES))
        if has_ipv6(plan, host):  # a link-local address would be a way to answer those of all guests
            out.add(path, SysctlSet(namespace, f"net/ipv6/conf/{place.link}/addr_gen_mode", "1"))
        if vnic.offloads == "off":
            out.add(path, OffloadSet(namespace, place.link, OFFLOADS_OFF))
        out.add(path, LinkSet(namespace, place.link, up=True))
        out.add(path, *(AddressAdd(namespace, place.link, alone(text)) for text in vnic.ip))
        out.add(path, *pushback(namespace, place.link, vnic, shared=vnic.vswitch in shared))
        far_ones = [plan.world.hosts[other].vnic for other in partners(plan, host)]
        for far in (*far_ones, *_parts(plan, host)):
            assert far is not None
            near = {ip_interface(text).network for text in vnic.ip}
            for address in map(ip_interface, far.ip):
                if address.network in near:
                    out.add(path, RouteAdd(namespace, place.link, alone(str(address))))
                    out.add(path, NeighbourAdd(namespace, place.link, str(address.ip), far.mac))


def alone(address: str) -> str:
    """An address of a host as the kernel has it: without the network that is around.

    >>> alone("10.0.0.2/24"), alone("fd00::2/64")
    ('10.0.0.2/32', 'fd00::2/128')
    """
    found = ip_interface(address)
    return f"{found.ip}/{found.max_prefixlen}"


def copying_pairs(plan: Plan) -> list[tuple[str, str]]:
    """From which host to which guests are copied over links, each pair once, however often a guest moves."""
    return list(dict.fromkeys((source_of(plan, action), str(action.to)) for _, action in crossing(plan)))


def partners(plan: Plan, host: str) -> list[str]:
    """The hosts that a guest is copied to from this one, or from which one is copied to it."""
    found = [to if source == host else source for source, to in copying_pairs(plan) if host in {source, to}]
    return list(dict.fromkeys(found))


def _parts(plan: Plan, host: str) -> list[Vnic]:
    """vNICs of nodes and proxies of the stores on which disks of a host's guests are."""
    guests = dict.fromkeys(
        part
        for name, disk in stored_disks(plan).items()
        if plan.world.guests[name].host == host
        for part in guests_of(plan.world.services[str(disk.service)])
    )
    return [vnic for part in guests for vnic in plan.world.guests[part].vnics.values()]


def copied(plan: Plan, guest: str, action: Action, out: Lowered) -> Copied | None:
    """Where a guest's memory goes: between its hosts' addresses, or over the loopback of its own machines' network."""
    if mode_of(action) == COLD:
        return None
    source, to = source_of(plan, action), str(action.to)
    if action.over != NETWORK:
        return Copied(out.guests[guest], out.guests[guest], LOOPBACK, PORT, DISK_PORT)
    there = plan.world.hosts[to].vnic
    assert there is not None
    number = list(moves(plan)).index(guest)  # those that go to one host listen beside each other
    address = str(ip_interface(there.ip[0]).ip)
    return Copied(host_namespace(source), host_namespace(to), address, PORT + number, DISK_PORT + number)


def has_ipv6(plan: Plan, host: str) -> bool:
    """Whether its own address is of IPv6."""
    own = plan.world.hosts[host].vnic
    return own is not None and any(":" in text for text in own.ip)
