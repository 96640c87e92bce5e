"""`rtt`: round trips of one requester, open loop.

min, mean, max and mdev are ping's; a second copy of a reply counts as a duplicate and not as a sample (ping
counts it in its mean too). Loss is the share of requests without a reply.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.analysis.sequence import arrivals
from virtlab.analysis.variation import ipdv, jitter_rfc3550
from virtlab.analysis.workloads import health
from virtlab.stats.warmup import mser5

NO_REPLY = "no reply arrived in the window"


def values(context: RoleContext) -> None:
    """Delay, its variation, loss and order, and how late the requests left."""
    out = context.out
    reply = context.samples("rtt/1", "sent_ns", ("seq", "flow", "rtt_ns", "path_rtt_ns"))
    judged = arrivals(reply["seq"], reply["flow"])
    if judged.duplicates:
        reply = {name: column[judged.first] for name, column in reply.items()}
    rtt_ns = reply["rtt_ns"]
    if rtt_ns.size:
        out.distribution("rtt", rtt_ns)
        out.shifted("pdv", "rtt", float(rtt_ns.min()))
        _jitter(context, rtt_ns)
        differences = ipdv(rtt_ns, reply["seq"], reply["flow"])
        out.distribution("ipdv", differences) if differences.size else out.absent(
            "ipdv", "no two replies in a row"
        )
        cut = mser5(rtt_ns)
        out.add(
            "warm_up",
            "ratio",
            None if cut is None else cut / rtt_ns.size,
            int(rtt_ns.size),
            "too few replies",
        )
        stamped = reply["path_rtt_ns"]
        stamped = stamped[stamped >= 0]
        out.distribution("path_rtt", stamped) if stamped.size else out.absent(
            "path_rtt", "the kernel stamped no packet"
        )
    else:
        for metric in ("rtt", "path_rtt", "pdv", "ipdv", "jitter_rfc3550", "warm_up"):
            out.absent(metric, NO_REPLY)
    _loss(context, judged.distinct, judged.duplicates, judged.reordered)
    health.values(context)


def _jitter(context: RoleContext, delay_ns: object) -> None:
    smoothed = jitter_rfc3550(delay_ns)  # type: ignore[arg-type]
    size = int(smoothed.size)
    for statistic, value in (("final", smoothed[-1]), ("mean", smoothed.mean()), ("max", smoothed.max())):
        context.out.add(
            "jitter_rfc3550", statistic, float(value) if size > 1 else None, size, "one sample does not vary"
        )


def _loss(context: RoleContext, distinct: int, duplicates: int, reordered: int) -> None:
    out = context.out
    sent = context.samples("sent/1", "sent_ns", ("sent_ns", "intended_ns")) if context.has("sent/1") else None
    if sent is not None and sent["sent_ns"].size:
        count = int(sent["sent_ns"].size)
        out.distribution("pacing_error", sent["sent_ns"] - sent["intended_ns"])
    else:
        out.absent("pacing_error", "no request was recorded")
        count = context.counters.get("sent_packets", 0) if context.window.whole else 0
    if count == 0:
        for metric in ("loss", "duplicates", "reordering"):
            out.absent(metric, "how many requests were sent is not known")
        return
    out.add("loss", "ratio", max(0.0, 1.0 - distinct / count), count)
    told = context.counters.get("duplicate_packets", 0)  # the probe keeps the first answer only, and counts
    if told and not context.window.whole:
        out.absent("duplicates", "duplicates are counted over the whole of a role, not in a window")
    else:
        duplicates = max(duplicates, told)
        out.add("duplicates", "ratio", duplicates / count, count)
        out.add("duplicates", "count", duplicates, count)
    out.add("reordering", "ratio", reordered / distinct if distinct else None, distinct, NO_REPLY)
    out.add("reordering", "count", reordered, distinct)
