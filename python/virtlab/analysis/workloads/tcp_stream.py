"""`tcp_stream`: bytes through TCP connections, counted per interval at each end.

Goodput counts what the receiver read. An interval that reaches over the window's edge counts by its share
inside.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import jain
from virtlab.analysis.workloads import health
from virtlab.analysis.workloads.intervals import goodput, intervals_of
from virtlab.lazy import np

METRICS_OF_SENDER = ("retransmits", "srtt", "congestion_window")


def values(context: RoleContext) -> None:
    """Goodput over all flows, its fairness, retransmissions, and TCP's own view of the path."""
    out = context.out
    found = intervals_of(context)
    rows, share, count = found.rows, found.share, found.count
    if goodput(context, found) is None:
        out.absent("fairness", "the receiver counted nothing")
    else:
        flows, which = np.unique(rows["flow"], return_inverse=True)
        shares = np.bincount(which, weights=rows["received_bytes"] * share)
        fairness = jain(shares) if flows.size > 1 else None
        out.add("fairness", "jain", fairness, int(flows.size), "there is only one flow")
    sending = rows["sent_bytes"] > 0
    if not bool(sending.any()):
        for metric in METRICS_OF_SENDER:
            out.absent(metric, "the sender recorded no interval in the window")
    else:
        retransmits = float((rows["retransmits"] * share)[sending].sum())
        span = (int(rows["end_ns"][sending].max()) - int(rows["begin_ns"][sending].min())) / 1e9
        out.add("retransmits", "total", retransmits, count)
        out.add("retransmits", "rate", retransmits / span if span > 0 else None, count)
        srtt = rows["srtt_ns"][sending & (rows["srtt_ns"] > 0)]
        out.distribution("srtt", srtt) if srtt.size else out.absent("srtt", "TCP_INFO gave none")
        window = rows["cwnd_packets"][sending & (rows["cwnd_packets"] > 0)]
        out.distribution("congestion_window", window) if window.size else out.absent(
            "congestion_window", "TCP_INFO gave none"
        )
    health.values(context)
