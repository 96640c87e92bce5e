"""Why links and their queues cannot be as the file wants them: who realises them, and what that one lacks."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.plan import Link, Plan, Queue, Refusal
from virtlab.testbed import fabric, kernel_queues, switch_capacity
from virtlab.testbed.machine import Findings


def realised(plan: Plan, found: Findings) -> str:
    """Who realises the links here."""
    return fabric.realisation(plan, found.machine.link)


def links(plan: Plan, found: Findings) -> Iterator[Refusal]:
    """All that is wrong with links and queues."""
    asked = sorted({link.realise for link in plan.world.links.values()} - {"auto"})
    if len(asked) > 1:
        yield Refusal(
            "links", f"realised as {' and '.join(asked)} at once", "choose one realisation for all links"
        )
        return
    if not plan.world.links:
        return
    by = realised(plan, found)
    if by == "netem" and found.qdiscs.get("netem", "unknown") is not None:
        reason = f"this kernel has no netem ({found.qdiscs.get('netem', 'not tried')})"
        yield Refusal("links", reason, "write 'realise: auto', or load sch_netem")
    most, source = switch_capacity.limit()
    for name, link in plan.world.links.items():
        path = f"links.{name}"
        if by == "soft_switch" and link.rate_bit_per_s > most:
            reason = (
                f"{link.rate_bit_per_s / 1e9:g} Gbit/s is more than one core holds "
                f"({most / 1e9:.3g} Gbit/s: {source})"
            )
            yield Refusal(f"{path}.rate_bit_per_s", reason, "lower it, or use a machine with netem")
        for direction, queue in (("ab", link.queue.ab), ("ba", link.queue.ba)):
            queue_path = f"{path}.queue.{direction}"
            if by == "soft_switch":
                yield from _in_soft_switch(queue_path, queue, found)
            else:
                end = link.ends[0 if direction == "ab" else 1]
                yield from _in_kernel(queue_path, queue, by, end, plan, found)
        if by == "shaping":
            yield from _shaped(path, link)


def _in_soft_switch(path: str, queue: Queue, found: Findings) -> Iterator[Refusal]:
    if queue.by == "kernel":
        reason = "the soft switch queues by itself, not in the kernel"
        yield Refusal(f"{path}.by", reason, "write 'by: auto', 'by: virtlab', or 'realise: shaping'")
    elif queue.kind not in found.switch_qdiscs:
        cure = f"there are {', '.join(found.switch_qdiscs)}"
        yield Refusal(f"{path}.kind", f"the soft switch has no queue '{queue.kind}'", cure)


def _in_kernel(path: str, queue: Queue, by: str, end: str, plan: Plan, found: Findings) -> Iterator[Refusal]:
    if queue.by == "virtlab":
        reason = f"a link by {by} queues in the kernel"
        yield Refusal(f"{path}.by", reason, "write 'by: auto', or 'realise: soft_switch'")
    elif by == "netem":
        if queue.kind not in fabric.NETEM_KINDS:
            reason = f"'{queue.kind}' cannot stand in front of netem, which is a FIFO itself"
            yield Refusal(f"{path}.kind", reason, "write 'realise: soft_switch' or 'realise: shaping'")
        elif queue.limit_bytes is not None:
            yield Refusal(f"{path}.limit_bytes", "netem counts packets only", "write a limit in packets")
    else:
        for key, reason, cure in kernel_queues.missing(queue, found.qdiscs):
            yield Refusal(f"{path}.{key}", reason, cure)
        if queue.kind == "pfifo_fast" and not _of_native(plan, end):
            reason = (
                "frames that crossed a virtual cable have lost the priority that the kernel's bands go by"
            )
            yield Refusal(f"{path}.kind", reason, "write 'by: virtlab', or prio with match rules")


def _of_native(plan: Plan, end: str) -> bool:
    """Is the port a native guest's own, so that the kernel knows each packet's priority there?"""
    return any(vnic.uplink == end for guest in plan.world.guests.values() for vnic in guest.vnics.values())


def _shaped(path: str, link: Link) -> Iterator[Refusal]:
    if link.propagation_ns:
        yield Refusal(
            f"{path}.propagation_ns", "a token bucket delays nothing", "remove it, or use 'realise: auto'"
        )
