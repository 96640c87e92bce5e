"""Queues at guest ports as links of their own: the Plan that a soft switch or the simulator plays.

A port of a virtual switch towards a guest, with a rate and a queue, is a cable between the two: the virtual switch
queues in front of it, the guest's direction is as fast and never the narrow place. So the player of links plays
ports too. Only where nothing paces the port (no rate) is it more than that: there the simulator's port is faster
than anything in front of it.

A guest that moves has such a port at each host of its way from the start, as that host's ports are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from virtlab.catalogue import DEFAULT_VSWITCH, PLATFORMS
from virtlab.plan import Link, LinkQueues, Plan, Port, Queue, Refusal, Vnic, Vswitch
from virtlab.planner.mobility.moves import destinations, vswitch_there
from virtlab.planner.topology.port_names import link_ends, passage, port_of, port_there

BACK_PACKETS = 1000  # of the direction from the guest, where nothing has to wait
UNPACED_BIT_PER_S = 100_000_000_000

Wanted = Callable[[Vnic], bool]


def is_port(name: str, link: Link) -> bool:
    """Whether a link stands for a guest's port, and is no wire."""
    return link.ends == link_ends(name)


def port_at(vnic: Vnic, host: str) -> Vnic:
    """A vNIC with its port as that is at a host of its guest's way."""
    there = vnic.there.get(host)
    if there is None:
        return vnic
    return vnic.model_copy(
        update={"queue": there.queue, "port_rate_bit_per_s": there.port_rate_bit_per_s, "there": {}}
    )


def guest_ports(plan: Plan) -> Iterator[tuple[str, str, Vnic]]:
    """Guest, vNIC and what it is, where the port has a queue."""
    for guest, entry in plan.world.guests.items():
        for name, vnic in entry.vnics.items():
            if vnic.queue is not None:
                yield guest, name, vnic


def ports_elsewhere(plan: Plan) -> Iterator[tuple[str, str, str, Vnic]]:
    """Guest, vNIC, a host that the guest moves to, and what the vNIC is there, where its port there has a queue."""
    for guest, entry in plan.world.guests.items():
        for host in destinations(plan, guest):
            for name, vnic in entry.vnics.items():
                at = port_at(vnic, host)
                if at.queue is not None:
                    yield guest, name, host, at


def said_ports(plan: Plan) -> Iterator[tuple[str, str, Vnic]]:
    """Path, guest and vNIC of every port that a Plan says has a queue: at its host, and as it is elsewhere."""
    for guest, name, vnic in guest_ports(plan):
        yield f"guests.{guest}.vnics.{name}", guest, vnic
    for guest, name, host, vnic in ports_elsewhere(plan):
        if host in plan.world.guests[guest].vnics[name].there:
            yield f"guests.{guest}.vnics.{name}.there.{host}", guest, vnic


def queues(plan: Plan) -> Iterator[tuple[str, Queue]]:
    """Every queue of a Plan, with its path."""
    for name, link in plan.world.links.items():
        yield f"links.{name}.queue.ab", link.queue.ab
        yield f"links.{name}.queue.ba", link.queue.ba
    for path, _, vnic in said_ports(plan):
        assert vnic.queue is not None
        yield f"{path}.queue", vnic.queue


def with_port_links(plan: Plan, wanted: Wanted) -> Plan:
    """The Plan with a link in place of every wanted guest port; the same Plan without such ports.

    A guest with a kernel of its own keeps its tap on a bridge of two ports, which the link ends at. So does its tap at
    each host that it moves to.
    """
    world = plan.world
    guests, vswitches, links = dict(world.guests), dict(world.vswitches), dict(world.links)
    for guest, name, vnic in guest_ports(plan):
        if not wanted(vnic):
            continue
        port, entry = port_of(guest, name), guests[guest]
        far = _join(port, str(vnic.vswitch), vnic, vswitches, links)
        if PLATFORMS[entry.platform].features.own_kernel:
            vswitches[passage(port)] = Vswitch(kind=DEFAULT_VSWITCH, host=entry.host, uplinks=(far,))
            place: dict[str, str | None] = {"vswitch": passage(port)}
        else:
            place = {"vswitch": None, "uplink": far}
        bare = {"queue": None, "port_rate_bit_per_s": None}
        vnics = {**entry.vnics, name: vnic.model_copy(update={**bare, **place})}
        guests[guest] = entry.model_copy(update={"vnics": vnics})
    for guest, name, host, vnic in ports_elsewhere(plan):
        above = vswitch_there(plan, guest, name, host)
        if not wanted(vnic) or above not in vswitches:
            continue  # a destination without such a virtual switch is refused elsewhere
        port = port_there(guest, name, host)
        far = _join(port, above, vnic, vswitches, links)
        vswitches[passage(port)] = Vswitch(kind=DEFAULT_VSWITCH, host=host, uplinks=(far,))
        if host in (there := guests[guest].vnics[name].there):
            entry = guests[guest]
            linked = entry.vnics[name].model_copy(update={"there": {**there, host: Port()}})
            guests[guest] = entry.model_copy(update={"vnics": {**entry.vnics, name: linked}})
    if len(links) == len(world.links):
        return plan
    return plan.model_copy(
        update={"world": world.model_copy(update={"guests": guests, "vswitches": vswitches, "links": links})}
    )


def _join(port: str, above: str, vnic: Vnic, vswitches: dict[str, Vswitch], links: dict[str, Link]) -> str:
    """A link for a port of a virtual switch; its end at the guest."""
    assert vnic.queue is not None
    near, far = link_ends(port)
    own = vswitches[above]
    vswitches[above] = own.model_copy(update={"uplinks": (*own.uplinks, near)})
    links[port] = Link(
        ends=(near, far),
        rate_bit_per_s=vnic.port_rate_bit_per_s or UNPACED_BIT_PER_S,
        queue=LinkQueues(ab=vnic.queue, ba=Queue(by=vnic.queue.by, limit_packets=BACK_PACKETS)),
    )
    return far


def in_front_of(plan: Plan, vswitch: str) -> str:
    """The virtual switch of a host from which frames come to one of two ports, behind a port that is a link of its own;
    of any other that itself.
    """
    uplinks = plan.world.vswitches[vswitch].uplinks
    for name, link in plan.world.links.items():
        if is_port(name, link) and link.ends[1] in uplinks:
            return next(each for each, own in plan.world.vswitches.items() if link.ends[0] in own.uplinks)
    return vswitch


def all_ports(vnic: Vnic) -> bool:
    """Every port that has a queue."""
    return vnic.queue is not None


def port_mistakes(plan: Plan, wanted: Wanted) -> Iterator[Refusal]:
    """Why a port cannot be a link of its own."""
    for path, guest, vnic in said_ports(plan):
        if not wanted(vnic):
            continue
        if vnic.isolated:
            reason = "an isolated port is the virtual switch's own, and this one's queue is not"
            yield Refusal(f"{path}.queue.by", reason, "write 'by: kernel', or 'isolate: false'")
        if plan.world.guests[guest].bridges:
            reason = "a guest that forwards frames stands on its virtual switches directly"
            yield Refusal(f"{path}.queue.by", reason, "write 'by: kernel'")
