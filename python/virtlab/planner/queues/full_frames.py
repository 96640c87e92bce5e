"""Queues that no full frame passes: a token bucket that never holds so much, or a limit in bytes below one frame.

Nothing waits there and everything longer is dropped, on every backend; and before a run every path is tried with
full frames.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import QDISCS
from virtlab.plan import Plan, Refusal
from virtlab.planner.queues.ports import queues
from virtlab.units.ethernet import HEADER_BYTES


def full_frame_refusals(plan: Plan) -> Iterator[Refusal]:
    """A refusal of every queue that has no room for the full frames of any guest: why, and what to write."""
    mtus = [vnic.mtu_bytes for guest in plan.world.guests.values() for vnic in guest.vnics.values()]
    if not mtus:
        return
    least_bytes = min(mtus) + HEADER_BYTES  # which a queue counts beside the IP packet
    for path, queue in queues(plan):
        if queue.kind not in QDISCS:
            continue  # which is refused by itself
        bucket = QDISCS[queue.kind].bucket or ""
        for key, octets in (
            (f"parameters.{bucket}", queue.parameters.get(bucket)),
            ("limit_bytes", queue.limit_bytes),
        ):
            if octets is not None and octets < least_bytes:
                reason = f"with {octets} B it drops every full frame, of {least_bytes} B"
                yield Refusal(f"{path}.{key}", reason, f"write '{least_bytes} B' or more, or a smaller 'mtu'")
