"""`psping`: what PsPing prints of each test, and more: every request is kept, those of the warm-up do not count.

Latency and pings have a round-trip time per request; a bandwidth test has bytes per second. Minimum and maximum of a
bandwidth are over ten equal parts of the test, so they do not depend on how long it was.
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads import health
from virtlab.lazy import NDArray, np

PARTS = 10


def values(context: RoleContext) -> None:
    """Round-trip or connect time, bandwidth, loss."""
    rows = requests(context)
    out, test = context.out, context.parameter("test")
    answered = rows["finished_ns"] >= 0
    times = (rows["finished_ns"] - rows["sent_ns"])[answered]
    connecting = test == "ping" and context.parameter("protocol") == "tcp"
    wanted = "bandwidth" if test == "bandwidth" else "connect_time" if connecting else "rtt"
    for metric in ("rtt", "connect_time", "transaction_time"):
        mine = metric == wanted or (metric == "transaction_time" and wanted == "bandwidth")
        if not mine:
            out.absent(metric, f"this test of psping does not measure it ({test})")
        elif times.size:
            out.distribution(metric, times)
        else:
            out.absent(metric, "no request was answered in the window")
    if wanted == "bandwidth":
        _bandwidth(context, {name: column[answered] for name, column in rows.items()})
    else:
        out.absent("bandwidth", f"this test of psping does not measure it ({test})")
    size = int(answered.size)
    out.add("loss", "ratio", 1.0 - times.size / size if size else None, size, "no request was sent")
    health.values(context)


def requests(context: RoleContext) -> dict[str, NDArray[Any]]:
    """Columns sent_ns, finished_ns (-1: never), payload_bytes of the requests that count, in order of sending."""
    if context.has("request/1") or not context.has("sent/1"):
        rows = context.samples("request/1", "sent_ns")
        order = np.argsort(rows["seq"], kind="stable")
        rows = {name: column[order] for name, column in rows.items()}
        counts = rows["seq"] >= 0
        return {name: column[counts] for name, column in rows.items()}
    sent, replies = context.samples("sent/1", "sent_ns"), context.samples("rtt/1", "sent_ns")
    counts = sent["seq"] >= int(context.parameter("warmup") or 0)
    seq = sent["seq"][counts]
    finished = np.full(seq.size, -1, dtype=np.int64)
    if seq.size:
        place = np.searchsorted(seq, replies["seq"])
        known = (place < seq.size) & (seq[np.minimum(place, seq.size - 1)] == replies["seq"])
        finished[place[known]] = replies["received_ns"][known]
    return {
        "seq": seq, "sent_ns": sent["sent_ns"][counts], "finished_ns": finished,
        "payload_bytes": sent["payload_bytes"][counts].astype(np.int64),
    }  # fmt: skip


def _bandwidth(context: RoleContext, rows: dict[str, NDArray[Any]]) -> None:
    out, count = context.out, int(rows["finished_ns"].size)
    few = f"{count} requests were answered, a bandwidth needs 2"
    order = np.argsort(rows["finished_ns"], kind="stable")
    finished, sizes = rows["finished_ns"][order], rows["payload_bytes"][order]
    span_ns = int(finished[-1] - finished[0]) if count else 0
    mean = float(sizes[1:].sum()) / (span_ns / 1e9) if span_ns > 0 else None
    out.add("bandwidth", "mean", mean, count, few)
    enough = count > 2 * PARTS and span_ns > 0
    parts: NDArray[Any] = np.empty(0)
    if enough:
        # The first answer opens the time; one that ends a part belongs to it.
        which = np.minimum((finished[1:] - finished[0] - 1) * PARTS // span_ns, PARTS - 1)
        parts = np.bincount(which, weights=sizes[1:], minlength=PARTS) / (span_ns / PARTS / 1e9)
    for statistic, value in (("min", parts.min), ("max", parts.max)):
        least = f"{count} requests were answered, ten parts need more than {2 * PARTS}"
        out.add("bandwidth", statistic, float(value()) if enough else None, count, least)
