"""Queues that no full frame passes: a token bucket that never holds so much, or a limit in bytes below one frame.

Nothing waits there and everything longer is dropped, on every backend; and before a run every path is tried with
full frames.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import QDISCS
from virtlab.plan import Plan, Queue, Refusal
from virtlab.planner.ports import guest_ports

HEADER_BYTES = 14  # of Ethernet: what a queue counts beside the IP packet


def full_frame_refusals(plan: Plan) -> Iterator[Refusal]:
    """Of every queue that has no room for the full frames of any guest: why, and what to write."""
    mtus = [vnic.mtu_bytes for guest in plan.world.guests.values() for vnic in guest.vnics.values()]
    if not mtus:
        return
    least_bytes = min(mtus) + HEADER_BYTES
    for path, queue in _queues(plan):
        if queue.kind not in QDISCS:
            reason = f"there is no queue discipline '{queue.kind}'"
            yield Refusal(f"{path}.kind", reason, f"write one of {', '.join(QDISCS)}")
            continue
        bucket = QDISCS[queue.kind].bucket or ""
        for key, octets in (
            (f"parameters.{bucket}", queue.parameters.get(bucket)),
            ("limit_bytes", queue.limit_bytes),
        ):
            if octets is not None and octets < least_bytes:
                reason = f"with {octets} B it drops every full frame, of {least_bytes} B"
                yield Refusal(f"{path}.{key}", reason, f"write '{least_bytes} B' or more, or a smaller 'mtu'")


def _queues(plan: Plan) -> Iterator[tuple[str, Queue]]:
    for name, link in plan.world.links.items():
        yield f"links.{name}.queue.ab", link.queue.ab
        yield f"links.{name}.queue.ba", link.queue.ba
    for guest, name, vnic in guest_ports(plan):
        assert vnic.queue is not None
        yield f"guests.{guest}.vnics.{name}.queue", vnic.queue
