"""`udp_stream` measured by iperf3: counters and bytes per interval, no single packets.

What iperf3 does not tell is absent. Its loss is of datagrams over the whole of the role: those that its
receiver read against those that its sender sent, so what its own socket buffer dropped counts as lost. All
datagrams are alike, so frames follow from bytes of payload.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads import health
from virtlab.analysis.workloads.intervals import Intervals, goodput, intervals_of

NO_PACKETS = "iperf3 tells nothing of single packets"
OF_PACKETS = ("owd", "path_owd", "ipdv", "pdv", "flow_loss", "duplicates", "reordering", "pacing_error")


def values(
    context: RoleContext, *, payload_bytes: int | None, frame_bytes: int, offered_bit_per_s: float | None
) -> None:
    """All metrics of the stream. `payload_bytes` of a datagram (None: not known), `frame_bytes` of all its
    frames.
    """
    out = context.out
    found = intervals_of(context)
    for metric in OF_PACKETS:
        out.absent(metric, NO_PACKETS)
    received = goodput(context, found)
    for metric, times in (("throughput", frame_bytes), ("packet_rate", 0.125)):
        if received is None or payload_bytes is None:
            out.absent(
                metric, "the receiver counted nothing" if received is None else "the role names no size"
            )
        else:
            out.add(metric, "mean", received / payload_bytes * times, found.count)
    achieved = found.mean_bit_per_s("sent_bytes")
    out.add("achieved_load", "mean", achieved, found.count, "iperf3's sender told no interval")
    share = achieved / offered_bit_per_s if achieved is not None and offered_bit_per_s else None
    why = "as fast as possible" if not offered_bit_per_s else "iperf3's sender told no interval"
    out.add("achieved_share", "ratio", share, found.count, why)
    loss = _loss(context, found)
    lost = None if loss is None or received is None or loss >= 1.0 else received * loss / (1.0 - loss)
    out.add("lost_rate", "mean", lost, found.count, "loss or goodput is not known")
    jitter_ns = context.counters.get("jitter_rfc3550_ns") if received is not None else None
    for statistic in ("final", "mean", "max"):
        value = jitter_ns if statistic == "final" else None
        out.add("jitter_rfc3550", statistic, value, found.count, "iperf3 tells the final value only")
    out.absent("fairness", "there is only one flow")
    health.values(context)


def _loss(context: RoleContext, intervals: Intervals) -> float | None:
    """Adds the loss, and says it."""
    out, counters = context.out, context.counters
    sent, received = counters.get("sent_packets", 0), counters.get("received_packets")
    reason = ""
    if not context.window.whole:
        reason = "iperf3 counts datagrams over the whole of a role, not in a window"
    elif sent <= 0:
        reason = "iperf3's sender did not tell how many it sent"
    elif received is None or not bool((intervals.rows["sent_bytes"] == 0).any()):
        reason = "iperf3's receiver told nothing"
    if reason or received is None:
        out.absent("loss", reason)
        return None
    loss = max(0.0, 1.0 - received / sent)
    out.add("loss", "ratio", loss, sent)
    return loss
