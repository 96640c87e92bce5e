"""Why links and their queues cannot be as the file wants them: who realises them, and what that one lacks."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qdiscs.netem import NETEM
from virtlab.plan import Link, Plan, Queue, Refusal
from virtlab.planner.topology.cuts import STATE
from virtlab.testbed.build import fabric, switch_capacity
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.queues import kernel as kernel_queues
from virtlab.testbed.queues.outputs import LAB_VM, by_another, lacking


def realised(plan: Plan, findings: Findings) -> str:
    """Who realises the links here."""
    return fabric.realisation(plan, findings.machine.link)


def links(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """All that is wrong with links and queues."""
    asked = sorted({link.realise for link in plan.world.links.values()} - {"auto"})
    if len(asked) > 1:
        yield Refusal(
            "links", f"realised as {' and '.join(asked)} at once", "choose one realisation for all links"
        )
        return
    if not plan.world.links:
        return
    by = realised(plan, findings)
    if by == "netem" and findings.qdiscs.get(NETEM.name, "unknown") is not None:
        reason = f"this kernel has no netem ({findings.qdiscs.get(NETEM.name, 'not tried')})"
        cure = "write 'realise: shaping'"
        if findings.inside is None:
            cure = f"write 'realise: auto', load sch_netem, or {LAB_VM}"
        yield Refusal("links", reason, cure)
    yield from _changed(plan, by)
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
            if queue.kind not in QDISCS:
                continue  # which is refused wherever it stands
            if by == "soft_switch":
                yield from _in_soft_switch(queue_path, queue, link, findings)
            else:
                end = link.ends[0 if direction == "ab" else 1]
                yield from _in_kernel(queue_path, queue, by, end, plan, findings)
        if by == "shaping":
            yield from _shaped(path, link, findings)


def _changed(plan: Plan, by: str) -> Iterator[Refusal]:
    """Why links cannot change while a run plays."""
    for action in plan.timeline:
        link = plan.world.links.get(str(action.link))
        if link is None:
            continue
        path, cut = f"timeline.{action.id}.link", STATE in action.args
        if by == "netem":
            what = "loses nothing of what it holds when its link is cut"
            reason = f"netem at a link {what if cut else 'keeps the rate that it was made with'}"
            yield Refusal(path, reason, "write 'realise: soft_switch' or 'realise: shaping'")
        elif by == "shaping" and cut:
            kinds = {queue.kind for queue in (link.queue.ab, link.queue.ba)}
            for kind in sorted(kind for kind in kinds & QDISCS.keys() if not QDISCS[kind].tail_drop):
                reason = f"the counters of the kernel's '{kind}' begin at zero when its link is whole again"
                yield Refusal(path, reason, "write 'realise: soft_switch', or take a FIFO")


def _in_soft_switch(path: str, queue: Queue, link: Link, findings: Findings) -> Iterator[Refusal]:
    if QDISCS[queue.kind].far:
        reason = f"'{queue.kind}' is the kernel's alone, and the soft switch holds the links"
        yield Refusal(f"{path}.kind", reason, _by_kernel(queue, link, findings))
    elif queue.by == "kernel":
        reason = "the soft switch queues by itself, not in the kernel"
        yield Refusal(f"{path}.by", reason, "write 'by: auto', 'by: virtlab', or 'realise: shaping'")
    elif queue.kind not in findings.switch_qdiscs:
        cure = f"there are {', '.join(findings.switch_qdiscs)}"
        yield Refusal(f"{path}.kind", f"the soft switch has no queue '{queue.kind}'", cure)


def _by_kernel(queue: Queue, link: Link, findings: Findings) -> str:
    """How a queue that is the kernel's alone comes to it."""
    said = ["'realise: shaping'"] if link.realise == "soft_switch" else []
    if queue.by == "virtlab" or not said:
        said.append("'by: kernel'")
    cure = f"write {' and '.join(said)}"
    if findings.qdiscs.get(queue.kind, "not tried") is None:
        return cure
    return f"{cure}, and {lacking(QDISCS[queue.kind], f'sch_{queue.kind}', findings.inside)}"


def _in_kernel(
    path: str, queue: Queue, by: str, end: str, plan: Plan, findings: Findings
) -> Iterator[Refusal]:
    if queue.by == "virtlab":
        reason = f"a link by {by} queues in the kernel"
        yield Refusal(f"{path}.by", reason, "write 'by: auto', or 'realise: soft_switch'")
    elif by == "netem":
        if not fabric.netem_queues(queue):
            reason = f"'{queue.kind}' cannot be in front of netem, which is a FIFO itself"
            cure = "write 'realise: shaping'"
            if findings.inside is None and not QDISCS[queue.kind].far:
                cure = "write 'realise: soft_switch' or 'realise: shaping'"
            yield Refusal(f"{path}.kind", reason, cure)
        elif queue.limit_bytes is not None:
            yield Refusal(f"{path}.limit_bytes", "netem counts packets only", "write a limit in packets")
    else:
        for key, reason, cure in kernel_queues.missing(queue, findings.qdiscs, findings.inside):
            yield Refusal(f"{path}.{key}", reason, cure)
        if QDISCS[queue.kind].kernel.own_packets and not _of_native(plan, end):
            reason = (
                "frames that crossed a virtual cable have lost the priority that the kernel's bands go by"
            )
            cure = f"{by_another(QDISCS[queue.kind], findings.inside)}, or take prio with match rules"
            yield Refusal(f"{path}.kind", reason, cure)


def _of_native(plan: Plan, end: str) -> bool:
    """Is the port a native guest's own, so that the kernel knows each packet's priority there?"""
    return any(vnic.uplink == end for guest in plan.world.guests.values() for vnic in guest.vnics.values())


def _shaped(path: str, link: Link, findings: Findings) -> Iterator[Refusal]:
    if link.propagation_ns:
        if link.realise == "shaping":
            cure = "remove it, or use 'realise: auto'"
        elif findings.inside is None:
            cure = "remove it, or write 'by: auto' for the queues of all links"
        else:
            cure = f"remove it, take FIFOs that count packets, or leave out --in {findings.inside}"
        yield Refusal(f"{path}.propagation_ns", "a token bucket delays nothing", cure)
