"""Queues at guest ports as links of their own: the Plan that a soft switch or the simulator plays.

A port of a virtual switch towards a guest, with a rate and a queue, is a cable between the two: the virtual switch
queues in front of it, the guest's direction is as fast and never the narrow place. So the player of links plays
ports too. Only where nothing paces the port (no rate) is it more than that: there the simulator's port is faster
than anything in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from virtlab.catalogue import DEFAULT_VSWITCH, PLATFORMS
from virtlab.plan import Link, LinkQueues, Plan, Queue, Refusal, Vnic, Vswitch

BACK_PACKETS = 1000  # of the direction from the guest, where nothing has to wait
UNPACED_BIT_PER_S = 100_000_000_000

Wanted = Callable[[Vnic], bool]


def port_of(guest: str, vnic: str) -> str:
    """The name of a guest's port as a link.

    >>> port_of("h1.g1", "eth0")
    'h1.g1.eth0'
    """
    return f"{guest}.{vnic}"


def port_there(guest: str, vnic: str, host: str) -> str:
    """The same of its port at a host that it moves to, which is built with the world.

    >>> port_there("h1.g1", "eth0", "h2")
    'h1.g1.eth0@h2'
    """
    return f"{port_of(guest, vnic)}@{host}"


def is_port(name: str, link: Link) -> bool:
    """Whether a link stands for a guest's port, and is no wire."""
    return link.ends == (f"{name}.port", f"{name}.end")


def guest_ports(plan: Plan) -> Iterator[tuple[str, str, Vnic]]:
    """Guest, vNIC and what it is, where the port has a queue."""
    for guest, entry in plan.world.guests.items():
        for name, vnic in entry.vnics.items():
            if vnic.queue is not None:
                yield guest, name, vnic


def queues(plan: Plan) -> Iterator[tuple[str, Queue]]:
    """Every queue of a Plan, with its path."""
    for name, link in plan.world.links.items():
        yield f"links.{name}.queue.ab", link.queue.ab
        yield f"links.{name}.queue.ba", link.queue.ba
    for guest, name, vnic in guest_ports(plan):
        assert vnic.queue is not None
        yield f"guests.{guest}.vnics.{name}.queue", vnic.queue


def with_port_links(plan: Plan, wanted: Wanted) -> Plan:
    """The Plan with a link in place of every wanted guest port; the same Plan without such ports.

    A guest with a kernel of its own keeps its tap on a bridge of two ports, which the link ends at.
    """
    world = plan.world
    guests, vswitches, links = dict(world.guests), dict(world.vswitches), dict(world.links)
    for guest, name, vnic in guest_ports(plan):
        if not wanted(vnic):
            continue
        assert vnic.queue is not None
        assert vnic.vswitch is not None
        port = port_of(guest, name)
        near, far = f"{port}.port", f"{port}.end"
        above = vswitches[vnic.vswitch]
        vswitches[vnic.vswitch] = above.model_copy(update={"uplinks": (*above.uplinks, near)})
        bare = {"queue": None, "port_rate_bit_per_s": None}
        entry = guests[guest]
        if PLATFORMS[entry.platform].features.own_kernel:
            vswitches[f"{port}.br"] = Vswitch(kind=DEFAULT_VSWITCH, host=entry.host, uplinks=(far,))
            place: dict[str, str | None] = {"vswitch": f"{port}.br"}
        else:
            place = {"vswitch": None, "uplink": far}
        vnics = {**entry.vnics, name: vnic.model_copy(update={**bare, **place})}
        guests[guest] = entry.model_copy(update={"vnics": vnics})
        links[port] = Link(
            ends=(near, far),
            rate_bit_per_s=vnic.port_rate_bit_per_s or UNPACED_BIT_PER_S,
            queue=LinkQueues(ab=vnic.queue, ba=Queue(by=vnic.queue.by, limit_packets=BACK_PACKETS)),
        )
    if len(links) == len(world.links):
        return plan
    return plan.model_copy(
        update={"world": world.model_copy(update={"guests": guests, "vswitches": vswitches, "links": links})}
    )


def all_ports(vnic: Vnic) -> bool:
    """Every port that has a queue."""
    return vnic.queue is not None


def port_mistakes(plan: Plan, wanted: Wanted) -> Iterator[Refusal]:
    """Why a port cannot be a link of its own."""
    for guest, name, vnic in guest_ports(plan):
        if not wanted(vnic):
            continue
        path = f"guests.{guest}.vnics.{name}"
        if vnic.isolated:
            reason = "an isolated port is the virtual switch's own, and this one's queue is not"
            yield Refusal(f"{path}.queue.by", reason, "write 'by: kernel', or 'isolate: false'")
        if plan.world.guests[guest].bridges:
            reason = "a guest that forwards frames stands on its virtual switches directly"
            yield Refusal(f"{path}.queue.by", reason, "write 'by: kernel'")
