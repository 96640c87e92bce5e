"""What `udp_stream` and `raw_stream` share: numbered packets one way, stamped where they left and where they
arrived.

The path's delay ends at the receiver's kernel stamp, the application's at its user stamp. How many were sent
is known from the sender's own rows or counter; from inside a window, from the numbers of what arrived.
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import jain, rate_per_s
from virtlab.analysis.sequence import arrivals
from virtlab.analysis.variation import ipdv, jitter_rfc3550
from virtlab.analysis.workloads import health
from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.flows import flows_of
from virtlab.lazy import NDArray, np
from virtlab.metrics import METRICS

COLUMNS = ("seq", "flow", "sent_ns", "received_ns", "payload_bytes")
NOTHING = "nothing arrived in the window"
UNKNOWN = "the two ends have different clocks, and how far apart they are is not known"
ALL = (
    "owd",
    "path_owd",
    "ipdv",
    "pdv",
    "jitter_rfc3550",
    "loss",
    "flow_loss",
    "duplicates",
    "reordering",
    "achieved_load",
    "achieved_share",
    "throughput",
    "goodput",
    "lost_rate",
    "packet_rate",
    "fairness",
)


def values(
    context: RoleContext,
    frame_bytes: NDArray[Any] | int,
    packets: dict[str, NDArray[Any]],
    *,
    whole_frames: bool,
) -> None:
    """All metrics of the stream. `frame_bytes`: bytes of frames (header to FCS) per packet, all fragments
    together.

    `whole_frames`: offered and achieved load count frames and not payload (layer 2).
    """
    out = context.out
    size = int(packets["seq"].size)
    judged = arrivals(packets["seq"], packets["flow"])
    sent = sent_per_flow(context, packets)
    total_sent = sum(sent.values()) if sent is not None else None
    if size == 0:
        for metric in ALL:
            if metric != "loss":
                out.absent(metric, NOTHING)
        out.add("loss", "ratio", 1.0 if total_sent else None, total_sent or 0, "nothing was sent")
        _pacing(context)
        health.values(context)
        return
    _delays(context, packets, judged.first)
    load_bytes = frame_bytes if whole_frames else packets["payload_bytes"]
    arrived = packets["received_ns"]
    for metric, amount in (("throughput", frame_bytes), ("goodput", packets["payload_bytes"])):
        rate = rate_per_s(arrived, amount)
        out.add(metric, "mean", None if rate is None else 8.0 * rate, size, "fewer than two packets arrived")
    for statistic in ("min", "max"):
        out.add("goodput", statistic, None, 0, "a stream of datagrams is not counted per interval")
    out.add("packet_rate", "mean", rate_per_s(arrived, 1), size, "fewer than two packets arrived")
    _losses(context, packets, judged.first, sent, load_bytes)
    if total_sent:
        out.add("duplicates", "ratio", judged.duplicates / total_sent, total_sent)
        out.add("duplicates", "count", judged.duplicates, total_sent)
    else:
        out.absent("duplicates", "how many were sent is not known")
    out.add("reordering", "ratio", judged.reordered / judged.distinct, judged.distinct)
    out.add("reordering", "count", judged.reordered, judged.distinct)
    _pacing(context)
    health.values(context)


def _delays(context: RoleContext, packets: dict[str, NDArray[Any]], first: NDArray[Any]) -> None:
    out = context.out
    bound = clock_bound_ns(context)
    path_ns = packets["received_ns"] - packets["sent_ns"]
    _smoothed(context, path_ns)
    once = slice(None) if bool(first.all()) else first
    path_ns = path_ns[once]
    differences = ipdv(path_ns, packets["seq"][once], packets["flow"][once])
    if differences.size:
        out.distribution("ipdv", differences)
    else:
        out.absent("ipdv", "no two packets in a row arrived")
    del differences
    _one_way(context, "path_owd", path_ns, bound)
    if not_estimable(bound, path_ns) is not None:
        out.distribution("pdv", path_ns, shift=float(path_ns.min()))
    else:
        out.shifted("pdv", "path_owd", float(path_ns.min()))
    del path_ns
    user = context.samples("packet/1", "sent_ns", ("user_ns", "sent_ns"))
    stamped = first & (user["user_ns"] > 0)
    _one_way(context, "owd", (user["user_ns"] - user["sent_ns"])[stamped], bound)


def _one_way(context: RoleContext, metric: str, delay_ns: NDArray[Any], bound: float | None) -> None:
    why = not_estimable(bound, delay_ns)
    if why is not None or bound is None:
        context.out.absent(metric, str(why))
    elif not delay_ns.size:
        context.out.absent(metric, "no packet carries the stamp")
    else:
        context.out.distribution(metric, delay_ns, skip=("bound",))
        context.out.add(metric, "bound", bound, int(delay_ns.size))


def not_estimable(bound_ns: float | None, delay_ns: NDArray[Any]) -> str | None:
    """Why one-way delays between two clocks cannot be given: how far these are apart is unknown, or known no better
    than the delays are long (their median). Differences of delays are not concerned. None when they can.

    >>> import numpy as np
    >>> not_estimable(0.0, np.array([0])), not_estimable(100.0, np.array([150, 900]))
    (None, None)
    >>> not_estimable(200_000.0, np.array([150_000]))
    'not estimable: the clocks of its two ends agree within 200 us only, and its median is 150 us'
    """
    if bound_ns is None:
        return UNKNOWN
    if not bound_ns or not delay_ns.size:
        return None
    median_ns = float(np.median(delay_ns))
    if median_ns >= bound_ns:
        return None
    return (
        f"not estimable: the clocks of its two ends agree within {bound_ns / 1000:.4g} us only, "
        f"and its median is {median_ns / 1000:.4g} us"
    )


def _smoothed(context: RoleContext, delay_ns: NDArray[Any]) -> None:
    smoothed = jitter_rfc3550(delay_ns)
    size = int(smoothed.size)
    for statistic, value in (("final", smoothed[-1]), ("mean", smoothed.mean()), ("max", smoothed.max())):
        context.out.add(
            "jitter_rfc3550", statistic, float(value) if size > 1 else None, size, "one packet does not vary"
        )


def clock_bound_ns(context: RoleContext) -> float | None:
    """Within what bound the two ends' clocks agree: 0 on one kernel; None when it is not known.

    A run's `clocks` may give `{"bound_ns": ...}` for all, or per role or guest.
    """
    clocks = context.record.clocks
    ends = [end for end in (context.role.from_, context.role.to) if end]
    found: list[float] = []
    for key in (context.name, *ends):
        entry = clocks.get(key)
        if isinstance(entry, dict) and "bound_ns" in entry:
            found.append(float(entry["bound_ns"]))
    if found:
        return sum(found)
    if "bound_ns" in clocks:
        return float(clocks["bound_ns"])
    guests, hosts = context.record.plan.world.guests, context.record.plan.world.hosts
    at = {hosts[guests[end].host].at for end in ends if end in guests}
    platforms = [PLATFORMS.get(guests[end].platform) for end in ends if end in guests]
    same_kernel = all(platform is not None and platform.shares_kernel for platform in platforms)
    return 0.0 if same_kernel and len(at) <= 1 else None


def sent_per_flow(context: RoleContext, packets: dict[str, NDArray[Any]]) -> dict[int, int] | None:
    """Packets sent in the window by flow; None when nothing counts them. `packets`: columns of `packet/1`."""
    if context.has("sent/1"):
        rows = context.samples("sent/1", "sent_ns", ("flow",))
        if rows["flow"].size:
            flows, counts = np.unique(rows["flow"], return_counts=True)
            return {int(flow): int(count) for flow, count in zip(flows, counts, strict=True)}
    flows = np.unique(packets["flow"])
    if context.window.whole and context.counters.get("sent_packets", 0) > 0:
        total = context.counters["sent_packets"]
        planned = flows_of(context.role.parameters)
        told = [context.counters.get(f"flow{flow}.sent_packets") for flow in range(planned)]
        counted = {flow: count for flow, count in enumerate(told) if count is not None}
        if len(counted) == planned > 1:
            return counted
        if planned == 1:
            return {int(flows[0]) if flows.size else 0: total}
        return {flow: total // planned + (flow < total % planned) for flow in range(planned)}
    if not flows.size:
        return None
    found = {}
    for flow in flows:
        seq = packets["seq"][packets["flow"] == flow] if flows.size > 1 else packets["seq"]
        found[int(flow)] = int(seq.max()) - int(seq.min()) + 1
    return found


def _losses(
    context: RoleContext,
    packets: dict[str, NDArray[Any]],
    first: NDArray[Any],
    sent: dict[int, int] | None,
    load_bytes: NDArray[Any] | int,
) -> None:
    out = context.out
    assert sent is not None  # something arrived, so its numbers say how many were sent
    flows = packets["flow"] if bool(first.all()) else packets["flow"][first]
    found, counts = np.unique(flows, return_counts=True)
    distinct = {int(flow): int(count) for flow, count in zip(found, counts, strict=True)}
    flying = _in_flight(context, packets, sent)
    sent = {flow: count - flying.get(flow, 0) for flow, count in sent.items()}
    total = sum(sent.values())
    loss = max(0.0, 1.0 - sum(distinct.values()) / total)
    out.add("loss", "ratio", loss, total)
    per_flow = np.array(
        [max(0.0, 1.0 - distinct.get(flow, 0) / count) for flow, count in sent.items() if count]
    )
    for statistic, value in (("min", per_flow.min()), ("mean", per_flow.mean()), ("max", per_flow.max())):
        out.add("flow_loss", statistic, float(value), int(per_flow.size))
    if len(sent) > 1:
        out.add(
            "fairness", "jain", jain(np.array([distinct.get(flow, 0) for flow in sent])), len(sent), NOTHING
        )
    else:
        out.add("fairness", "jain", None, 1, "there is only one flow")
    mean_bytes = float(load_bytes) if isinstance(load_bytes, int) else float(load_bytes.mean())
    achieved = _achieved_packets_per_s(packets)
    load = None if achieved is None else 8.0 * achieved * mean_bytes
    few = "fewer than two packets arrived"
    out.add("achieved_load", "mean", load, total, few)
    goodput = rate_per_s(packets["received_ns"], packets["payload_bytes"])
    lost = None if goodput is None or loss >= 1.0 else 8.0 * goodput * loss / (1.0 - loss)
    out.add("lost_rate", "mean", lost, total, few)
    offered = next(
        (
            value.value
            for value in reversed(out.values)
            if (value.role, value.metric) == (out.role, "offered_load")
        ),
        None,
    )
    share = load / offered if load is not None and offered else None
    out.add("achieved_share", "ratio", share, total, "as fast as possible" if offered is None else few)


def _in_flight(
    context: RoleContext, packets: dict[str, NDArray[Any]], sent: dict[int, int]
) -> dict[int, int]:
    """Packets per flow that were still in a queue when the run ended: the last ones of the flow, none of which
    arrived, and no more than frames waited. They are not lost, so the loss leaves them out.
    """
    if not context.waiting or not context.window.whole:
        return {}
    found, left = {}, context.waiting
    for flow, count in sent.items():
        mine = packets["flow"] == flow
        tail = count - 1 - int(packets["seq"][mine].max()) if bool(mine.any()) else 0
        found[flow] = max(0, min(tail, left))
        left -= found[flow]
    return found


def _achieved_packets_per_s(packets: dict[str, NDArray[Any]]) -> float | None:
    """Packets per second that left, from numbers and sender's stamps of what arrived: loss does not bias
    it."""
    total = 0.0
    flows = np.unique(packets["flow"])
    for flow in flows:
        mine = packets["flow"] == flow if flows.size > 1 else slice(None)
        seq, sent_ns = packets["seq"][mine], packets["sent_ns"][mine]
        low, high = int(np.argmin(seq)), int(np.argmax(seq))
        span_ns = int(sent_ns[high]) - int(sent_ns[low])
        if span_ns <= 0:
            return None
        total += (int(seq[high]) - int(seq[low])) * 1e9 / span_ns
    return total


def _pacing(context: RoleContext) -> None:
    if context.has("sent/1"):
        rows = context.samples("sent/1", "sent_ns", ("sent_ns", "intended_ns"))
        paced = rows["intended_ns"] > 0
        if bool(paced.any()):
            context.out.distribution("pacing_error", (rows["sent_ns"] - rows["intended_ns"])[paced])
            return
    p99 = context.counters.get("pacing_error_p99_ns")
    if p99 is None:
        context.out.absent("pacing_error", "the sender kept no schedule of its own")
        return
    for statistic in METRICS["pacing_error"].statistics:
        value = float(p99) if statistic == "p99" else None
        context.out.add("pacing_error", statistic, value, 1, "the sender counted p99 only")
