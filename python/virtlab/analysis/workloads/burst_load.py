"""`burst_load`: L bytes every T in S streams; did the requested load really flow?

Achieved load is bytes sent per time, stream by stream, from the first burst to the last (the first opens the
interval).
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import rate_per_s
from virtlab.analysis.workloads import health
from virtlab.lazy import NDArray, np

LATE_SHARE = 0.1  # of a period
IDLE = "no load was requested of the role"


def values(context: RoleContext) -> None:
    """Offered and achieved load, bursts late, replies lost, response time of a burst."""
    out = context.out
    burst_bytes, period_ns = context.parameter("burst_bytes"), context.parameter("period_ns")
    bursts = context.samples("burst/1", "intended_ns")
    sides = 2 if context.parameter("origin") == "both" else 1
    offered = 8e9 * burst_bytes * sides / period_ns if burst_bytes is not None and period_ns else None
    if offered is not None:
        out.add("offered_load", "mean", offered, 1)
    else:
        out.absent("offered_load", "the role names no load")
    if not bursts["burst"].size:
        reason = IDLE if burst_bytes == 0 else "no burst was sent in the window"
        for metric in ("achieved_load", "achieved_burst", "achieved_share", "loss", "burst_time",
                       "pacing_error", "late_bursts", "goodput"):  # fmt: skip
            out.absent(metric, reason)
        if burst_bytes == 0:
            out.values = [
                value for value in out.values if (value.role, value.metric) != (out.role, "achieved_load")
            ]
            out.add("achieved_load", "mean", 0.0, 1)
        health.values(context)
        return
    _load(context, bursts, offered)
    _punctuality(context, bursts, period_ns)
    _replies(context, bursts)
    health.values(context)


def _load(context: RoleContext, bursts: dict[str, NDArray[Any]], offered: float | None) -> None:
    out, count = context.out, int(bursts["burst"].size)
    achieved = 0.0
    for stream in np.unique(bursts["stream"]):
        mine = bursts["stream"] == stream
        rate = rate_per_s(bursts["sent_ns"][mine], bursts["sent_bytes"][mine])
        if rate is None:
            achieved = float("nan")
            break
        achieved += 8.0 * rate
    out.add("achieved_load", "mean", achieved, count, "a stream sent fewer than two bursts")
    share = achieved / offered if offered else None
    out.add("achieved_share", "ratio", share, count, "a stream sent fewer than two bursts")
    per_period = _per_period(bursts["burst"], bursts["sent_bytes"])
    for statistic, value in (
        ("mean", per_period.mean()),
        ("min", per_period.min()),
        ("max", per_period.max()),
    ):
        out.add("achieved_burst", statistic, float(value), int(per_period.size))


def _per_period(burst: NDArray[Any], sent_bytes: NDArray[Any]) -> NDArray[Any]:
    """Bytes of each period in which something was sent, over all streams."""
    first, last = int(burst.min()), int(burst.max())
    if last - first < 4 * burst.size:  # numbered as they come, so there is no need to sort them
        number = burst - first
        return np.bincount(number, weights=sent_bytes)[np.bincount(number) > 0]
    _, period = np.unique(burst, return_inverse=True)
    return np.bincount(period, weights=sent_bytes)


def _punctuality(context: RoleContext, bursts: dict[str, NDArray[Any]], period_ns: int | None) -> None:
    out, count = context.out, int(bursts["burst"].size)
    late_ns = bursts["sent_ns"] - bursts["intended_ns"]
    out.distribution("pacing_error", late_ns)
    if period_ns:
        late = int((late_ns > LATE_SHARE * period_ns).sum())
        out.add("late_bursts", "ratio", late / count, count)
        out.add("late_bursts", "count", late, count)
    else:
        out.absent("late_bursts", "the role names no period")


def _replies(context: RoleContext, bursts: dict[str, NDArray[Any]]) -> None:
    out, count = context.out, int(bursts["burst"].size)
    sent = int(bursts["sent_bytes"].sum())
    if context.parameter("direction") != "one_way":
        replied = int(bursts["replied_bytes"].sum())
        out.add("loss", "ratio", max(0.0, 1.0 - replied / sent) if sent else None, count, "nothing was sent")
        whole = bursts["finished_ns"] >= 0
        duration = (bursts["finished_ns"] - bursts["sent_ns"])[whole]
        if duration.size:
            out.distribution("burst_time", duration)
        else:
            out.absent("burst_time", "no burst was answered whole")
        arrived = 0.0
        for stream in np.unique(bursts["stream"]):
            mine = bursts["stream"] == stream
            arrived += 8.0 * (
                rate_per_s(bursts["sent_ns"][mine], bursts["replied_bytes"][mine]) or float("nan")
            )
        out.add("goodput", "mean", arrived, count, "a stream sent fewer than two bursts")
        for statistic in ("min", "max"):
            out.add("goodput", statistic, None, 0, "replies are not counted per interval")
        return
    out.absent("burst_time", "no reply was requested")
    out.absent("goodput", "no reply was requested")
    counters = context.counters
    if counters.get("sent_packets", 0) > 0 and "received_packets" in counters:
        lost = 1.0 - counters["received_packets"] / counters["sent_packets"]
        out.add("loss", "ratio", max(0.0, lost), counters["sent_packets"])
    else:
        out.absent("loss", "no reply was requested, and the far end counted nothing")
