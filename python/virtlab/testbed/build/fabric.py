"""Links and physical switches: played by the soft switch, or built in the kernel with netem or HTB at the ports.

A link holds every frame for its serialisation time, idle or not. netem's rate mode and the soft switch do that; a token
bucket lets a burst through at once, so HTB alone (`shaping`) shapes throughput and nothing else, and is only used when
the file asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from virtlab.agents.requests.switch import Configure
from virtlab.catalogue import QDISCS
from virtlab.plan import Plan, Queue
from virtlab.planner.queues.draws import seeded
from virtlab.planner.queues.pushback import UPLINK_PACKETS, shared_queues
from virtlab.planner.topology.cuts import cut_links
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.testbed.queues import kernel as kernel_queues
from virtlab.testbed.queues import netem_links
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.steps.names import FABRIC, interface
from virtlab.testbed.steps.operations import BridgeAdd, End, LinkSet, VethAdd

if TYPE_CHECKING:
    from virtlab.testbed.kinds.lowered import Lowered


def netem_queues(queue: Queue) -> bool:
    """Whether netem queues so by itself: it is a FIFO that counts packets."""
    discipline = QDISCS.get(queue.kind)
    return discipline is not None and discipline.tail_drop and "packets" in discipline.limit


def realisation(plan: Plan, automatic: str) -> str:
    """Who realises links that say `auto`. `automatic` is what this machine has for them: `netem`, `soft_switch`, or
    `kernel`, where there is a kernel with all disciplines and no soft switch.

    One link that names a realisation takes the others along, as a fabric is one thing. So does a queue that names its
    owner: the kernel's queues are in front of links that the kernel holds, by netem where that can queue so, else by
    shaping; virtlab's in the soft switch. netem is a FIFO that counts packets: any other queue needs the soft switch.
    """
    asked = {link.realise for link in plan.world.links.values()} - {"auto"}
    if len(asked) == 1:
        return next(iter(asked))
    queues = [queue for link in plan.world.links.values() for queue in (link.queue.ab, link.queue.ba)]
    owners = {queue.by for queue in queues}
    plain = all(netem_queues(queue) and queue.limit_bytes is None for queue in queues)
    if "kernel" in owners or (automatic == "kernel" and "virtlab" not in owners):
        return "netem" if automatic in {"netem", "kernel"} and plain else "shaping"
    if "virtlab" in owners or (automatic == "netem" and not plain):
        return "soft_switch"
    return automatic


def realisations(plan: Plan, automatic: str) -> dict[str, str]:
    """Link -> who realises it."""
    default = realisation(plan, automatic)
    return {
        name: (default if link.realise == "auto" else link.realise) for name, link in plan.world.links.items()
    }


def soft_switch_request(plan: Plan, layer_two: LayerTwo, ports: Mapping[str, str]) -> Configure:
    """Real ports, switches, links, static forwarding, largest IP packet."""
    world, cut = plan.world, cut_links(plan)
    return Configure(
        ports={end: {"ifname": name} for end, name in ports.items()},
        switches={name: {"processing_ns": switch.processing_ns} for name, switch in world.switches.items()},
        links={
            name: {
                "ends": list(link.ends),
                "rate_bit_per_s": link.rate_bit_per_s,
                "propagation_ns": link.propagation_ns,
                "cuts": name in cut,
                "queue": {
                    way: seeded(_queue(getattr(link.queue, way)), plan.seed, name, way)
                    for way in ("ab", "ba")
                },
            }
            for name, link in world.links.items()
        },
        mtu_bytes=max(
            (vnic.mtu_bytes for guest in world.guests.values() for vnic in guest.vnics.values()), default=1500
        ),
        spin=world.spin,
        forwarding=_forwarding(plan, layer_two) if world.arp == "static" else None,
    )


def _forwarding(plan: Plan, layer_two: LayerTwo) -> dict[str, dict[str, str]]:
    """The port behind which each vNIC is, by physical switch."""
    entries: dict[str, dict[str, str]] = {}
    for _, vnic, towards in layer_two.stations(plan):
        for box, port in towards.items():
            if box.kind == "switch":
                entries.setdefault(box.name, {})[vnic.mac] = port
    return entries


def _queue(queue: Queue) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": queue.kind, "by": queue.by}
    if queue.limit_packets is not None:
        out["limit_packets"] = queue.limit_packets
    if queue.limit_bytes is not None:
        out["limit_bytes"] = queue.limit_bytes
    if queue.parameters:
        out["parameters"] = queue.parameters
    if queue.classes:
        out |= queue.model_dump(mode="json", include={"classes", "match", "default"})
    return out


def build(plan: Plan, realised: Mapping[str, str], mtus: Mapping[Box, int], out: Lowered) -> None:
    """Switches as bridges in `fabric`, links as veths, with the link's qdisc at the sending end of each direction."""
    bridges: dict[str, str] = {}
    apart: dict[str, str] = {}  # a host's end -> the port of `fabric` that sends in its place
    shared = {each.port for each in shared_queues(plan)}
    taken = set(out.fabric_ports.values())
    for name in plan.world.switches:
        bridges[name] = interface(name, taken)
        path = f"switches.{name}"
        out.add(path, BridgeAdd(FABRIC, bridges[name], mtu_bytes=mtus[Box("switch", name)]))
        out.add(path, LinkSet(FABRIC, bridges[name], up=True))
    for name, link in plan.world.links.items():
        path = f"links.{name}"
        if all(end in out.uplinks for end in link.ends):
            _patch(path, link.ends, taken, out)
        elif not any(end in out.uplinks for end in link.ends):
            _inner(path, link.ends, bridges, mtus, taken, out)
        else:
            for end in link.ends:
                if end in out.uplinks:
                    continue
                uplink = next(other for other in link.ends if other != end)
                bridge = bridges[end.rpartition(".")[0]]
                if realised[name] == "netem" and uplink in shared:
                    mtu = mtus[Box("switch", end.rpartition(".")[0])]
                    apart[uplink] = _behind_shared(path, uplink, bridge, mtu, taken, out)
                else:
                    out.add(path, LinkSet(FABRIC, out.fabric_ports[uplink], master=bridge))
        _disciplines(plan, name, realised[name], apart, out)


def _lengthened(queue: Queue) -> Queue:
    """A FIFO in front of a wire that guests share, which is the queue that holds them back."""
    if not QDISCS[queue.kind].tail_drop or queue.limit_packets is None:
        return queue
    return queue.model_copy(update={"limit_packets": max(queue.limit_packets, UPLINK_PACKETS)})


def _behind_shared(path: str, uplink: str, bridge: str, mtu: int, taken: set[str], out: Lowered) -> str:
    """One port more between a host's end of a link and its switch; returns the one that sends towards the switch.

    netem takes a frame from its sender as it comes, so it cannot stand where the frame waits as its sender's: the queue
    that guests share is at the host's end, and netem behind it.
    """
    joint = interface(f"joint-{out.fabric_ports[uplink]}", taken)
    near, far = interface(f"{uplink}-out", taken), interface(f"{uplink}-in", taken)
    out.add(path, BridgeAdd(FABRIC, joint, mtu_bytes=mtu))
    first = End(FABRIC, near, mtu_bytes=mtu, master=joint)
    out.add(path, VethAdd((first, End(FABRIC, far, mtu_bytes=mtu))))
    out.add(path, LinkSet(FABRIC, out.fabric_ports[uplink], master=joint))
    out.add(path, LinkSet(FABRIC, far, master=bridge))
    out.add(path, *(LinkSet(FABRIC, name, up=True) for name in (near, far, joint)))
    return near


def _patch(path: str, ends: tuple[str, str], taken: set[str], out: Lowered) -> None:
    """A cable between two hosts: their fabric ends joined by a bridge of two ports."""
    bridge = interface("cable-" + out.fabric_ports[ends[0]], taken)
    out.add(
        path,
        BridgeAdd(FABRIC, bridge),
        *(LinkSet(FABRIC, out.fabric_ports[end], master=bridge) for end in ends),
    )
    out.add(path, LinkSet(FABRIC, bridge, up=True))


def _inner(
    path: str,
    ends: tuple[str, str],
    bridges: Mapping[str, str],
    mtus: Mapping[Box, int],
    taken: set[str],
    out: Lowered,
) -> None:
    from virtlab.testbed.kinds.lowered import Place

    names = [interface(end, taken) for end in ends]
    switches = [end.rpartition(".")[0] for end in ends]
    mtu = mtus[Box("switch", switches[0])]
    first = End(FABRIC, names[0], mtu_bytes=mtu, master=bridges[switches[0]])
    out.add(path, VethAdd((first, End(FABRIC, names[1], mtu_bytes=mtu))))
    out.add(path, LinkSet(FABRIC, names[1], master=bridges[switches[1]]))
    for end, name in zip(ends, names, strict=True):
        out.add(path, LinkSet(FABRIC, name, up=True))
        out.ports[end] = Place(FABRIC, name)


def _disciplines(plan: Plan, name: str, by: str, apart: Mapping[str, str], out: Lowered) -> None:
    link = plan.world.links[name]
    shared = {each.port for each in shared_queues(plan)}
    first, second = link.ends
    vnics = (vnic for guest in plan.world.guests.values() for vnic in guest.vnics.values())
    single_frames = all(vnic.offloads == "off" for vnic in vnics)
    for end, far, queue in ((first, second, link.queue.ab), (second, first, link.queue.ba)):
        if by == "netem" and end in shared:
            # Of a cable between two hosts, the end that sends to the other one.
            namespace, port = FABRIC, apart.get(end) or out.fabric_ports[far]
        elif end in out.uplinks:
            place = out.uplinks[end]
            namespace, port = place.namespace, place.link
        elif far in out.uplinks:
            namespace, port = FABRIC, out.fabric_ports[far]
        else:
            place = out.ports[end]
            namespace, port = place.namespace, place.link
        path, key = f"links.{name}", (name, "ab" if end == first else "ba")
        if by == "netem":
            switch = plan.world.switches.get(end.rpartition(".")[0])
            delay_ns = link.propagation_ns + (switch.processing_ns if switch is not None else 0)
            out.queues[key], made = netem_links.at_port(
                namespace,
                port,
                link.rate_bit_per_s,
                delay_ns,
                netem_links.limit(queue),
                single_frames=single_frames,
            )
            out.add(path, *made)
        else:
            waits = _lengthened(queue) if end in shared else queue
            out.add(path, *kernel_queues.at_port(namespace, port, link.rate_bit_per_s, waits))
            out.queues[key] = PortQueue(namespace, port, kernel_queues.class_handles(waits))
