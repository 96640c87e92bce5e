"""Delay of a stream whose flows have strong and weak shares of the load, combined into one number.

L = q mean(L over weak) + (1 - q) mean(L over strong), where L of a flow is the mean path one-way delay of its packets,
and q the weak flows' share of the whole load; with equal shares the plain mean over flows. See `catalogue.split` for
what is mended of the published formula.
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads.stream import not_estimable
from virtlab.catalogue.flows import flows_of
from virtlab.catalogue.split import combined_latency_ns
from virtlab.lazy import NDArray, np


def values(context: RoleContext, packets: dict[str, NDArray[Any]], bound_ns: float | None) -> None:
    """Adds `split_owd.mean` of two flows or more; absent where clocks differ, or where nothing of a flow arrived."""
    flows = flows_of(context.role.parameters)
    shares = context.role.parameters.get("shares") or [1.0 / flows] * flows
    if flows < 2 or len(set(shares)) > 2:
        return
    why = not_estimable(bound_ns, packets["received_ns"] - packets["sent_ns"])
    if why is not None:
        context.out.absent("split_owd", why)
        return
    means = _means(packets, flows)
    silent = [flow for flow in range(flows) if means[flow] is None]
    if silent:
        context.out.absent("split_owd", f"nothing arrived of {len(silent)} of {flows} flows")
        return
    high = max(shares)
    known = [mean for mean in means if mean is not None]
    weak = [mean for mean, share in zip(known, shares, strict=True) if share < high]
    strong = [mean for mean, share in zip(known, shares, strict=True) if share == high]
    weak_share = sum(share for share in shares if share < high)
    combined = combined_latency_ns(weak, strong, weak_share)
    context.out.add("split_owd", "mean", combined, int(packets["seq"].size))


def _means(packets: dict[str, NDArray[Any]], flows: int) -> list[float | None]:
    """Mean delay of each flow in ns; None where nothing arrived."""
    flow = packets["flow"].astype(np.int64)
    delay = (packets["received_ns"] - packets["sent_ns"]).astype(np.float64)
    count = np.bincount(flow, minlength=flows)[:flows]
    total = np.bincount(flow, weights=delay, minlength=flows)[:flows]
    return [float(total[one] / count[one]) if count[one] else None for one in range(flows)]
