"""`tcp_stream`: bytes through TCP connections, counted per interval at each end.

Goodput counts what the receiver read. An interval that reaches over the window's edge counts by its share
inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.analysis.rates import jain
from virtlab.analysis.workloads import health

if TYPE_CHECKING:
    from virtlab.analysis.context import RoleContext

METRICS_OF_SENDER = ("retransmits", "srtt", "congestion_window")


def values(context: RoleContext) -> None:
    """Goodput over all flows, its fairness, retransmissions, and TCP's own view of the path."""
    import numpy as np

    out = context.out
    rows = context.record.samples(context.name, "interval/1")
    begin, end = rows["begin_ns"], rows["end_ns"]
    share = np.ones(begin.size)
    if not context.window.whole:
        inside = np.minimum(end, context.window.end_ns) - np.maximum(begin, context.window.begin_ns)
        share = np.clip(inside / np.maximum(end - begin, 1), 0.0, 1.0)
    used = (share > 0) & (end > begin)
    rows = {name: column[used] for name, column in rows.items()}
    share = share[used]
    count = int(share.size)
    received = rows["received_bytes"] * share
    if count == 0 or float(received.sum()) <= 0:
        reason = "no interval was recorded in the window" if count == 0 else "the receiver counted nothing"
        out.absent("goodput", reason)
        out.absent("fairness", reason)
    else:
        receiving = rows["received_bytes"] > 0
        first = max(
            int(rows["begin_ns"][receiving].min()),
            context.window.begin_ns if not context.window.whole else -(2**62),
        )
        last = min(
            int(rows["end_ns"][receiving].max()), context.window.end_ns if not context.window.whole else 2**62
        )
        seconds = (last - first) / 1e9
        out.add("goodput", "mean", 8.0 * float(received.sum()) / seconds, count)
        at = rows["begin_ns"][receiving] // _spacing(rows["begin_ns"][receiving], rows["end_ns"][receiving])
        _, bins = np.unique(at, return_inverse=True)
        length = (rows["end_ns"] - rows["begin_ns"])[receiving] / 1e9
        per_interval = np.bincount(bins, weights=8.0 * rows["received_bytes"][receiving] / length)
        out.add("goodput", "min", float(per_interval.min()), count)
        out.add("goodput", "max", float(per_interval.max()), count)
        flows, which = np.unique(rows["flow"], return_inverse=True)
        shares = np.bincount(which, weights=received)
        fairness = jain(shares) if flows.size > 1 else None
        out.add("fairness", "jain", fairness, int(flows.size), "one flow shares with nobody")
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


def _spacing(begin: object, end: object) -> int:
    """The usual length of an interval, to tell which intervals of several flows are the same one."""
    import numpy as np

    return max(1, int(np.median(np.asarray(end) - np.asarray(begin))))
