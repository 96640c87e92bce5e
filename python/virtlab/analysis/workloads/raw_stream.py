"""`raw_stream`: frames of exact size, numbered per flow; loss is per flow and over all, delay too."""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import jain
from virtlab.analysis.workloads import flows, split, stream
from virtlab.catalogue.flows import flows_of
from virtlab.lazy import NDArray, np
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES


def values(context: RoleContext) -> None:
    """All metrics of the stream; its loads and throughput are of frames, header to FCS."""
    packets = context.samples("packet/1", "sent_ns", stream.COLUMNS)
    frame_bytes = context.parameter("frame_bytes")
    if frame_bytes is None:
        planned = context.parameter("ip_packet_bytes")
        frame_bytes = planned + HEADER_AND_FCS_BYTES if planned is not None else None
    frames = int(frame_bytes) if frame_bytes is not None else packets["payload_bytes"] + HEADER_AND_FCS_BYTES
    rate_pps = context.parameter("rate_pps")
    if rate_pps is not None and frame_bytes is not None:
        context.out.add("offered_load", "mean", 8.0 * rate_pps * frame_bytes, 1)
    else:
        context.out.absent(
            "offered_load", "as fast as possible" if rate_pps is None else "the role names no size"
        )
    _fairness_of_the_load(context)
    _first_and_later(context, packets)
    stream.values(context, frames, packets, whole_frames=True)
    flows.values(
        context, packets, stream.sent_per_flow(context, packets) or {}, stream.clock_bound_ns(context)
    )
    split.values(context, packets, stream.clock_bound_ns(context))


def _first_and_later(context: RoleContext, packets: dict[str, NDArray[Any]]) -> None:
    """Delays of the first packet of each flow, and of all others."""
    delay_ns = packets["received_ns"] - packets["sent_ns"]
    why = stream.not_estimable(stream.clock_bound_ns(context), delay_ns)
    begin = packets["seq"] == 0
    for metric, chosen, nothing in (
        ("first_owd", begin, "no flow began in the window"),
        ("later_owd", ~begin, "no flow had a second packet in the window"),
    ):
        if why is not None:
            context.out.absent(metric, why)
        elif bool(chosen.any()):
            context.out.distribution(metric, delay_ns[chosen])
        else:
            context.out.absent(metric, nothing)


def _fairness_of_the_load(context: RoleContext) -> None:
    """Jain's index of the shares that the flows were asked to carry; it is the same in every run of a design point."""
    flows_asked = flows_of(context.role.parameters)
    shares = context.role.parameters.get("shares") or [1.0 / flows_asked] * flows_asked
    index = jain(np.array(shares)) if flows_asked > 1 else None
    context.out.add("offered_fairness", "jain", index, flows_asked, "there is only one flow")
