"""Each flow of a stream by itself, as an entity `ROLE.FLOW`: FLOW is the guest that forwards it, where there
is one for each, else `flow0`, `flow1`, ...

Loss, duplicates, reordering, one-way delay and packet rate have the same meaning as of the whole stream. A flow of
which nothing arrived has lost everything, if it is known how much was sent; its delay is missing, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import rate_per_s
from virtlab.analysis.sequence import arrivals
from virtlab.analysis.workloads.stream import not_estimable
from virtlab.catalogue.flows import FLOWS_TOLD, flow_names, flows_of
from virtlab.lazy import NDArray

NOTHING = "nothing of the flow arrived in the window"


def values(
    context: RoleContext, packets: dict[str, NDArray[Any]], sent: Mapping[int, int], bound_ns: float | None
) -> None:
    """Metrics of each of 2 to 64 flows. `sent`: packets sent by flow; `bound_ns`: of the clocks of the two ends."""
    flows = flows_of(context.role.parameters)
    if not 2 <= flows <= FLOWS_TOLD:
        return
    out, role = context.out, context.out.role
    try:
        for flow, name in enumerate(flow_names(context.role.parameters)):
            out.role = f"{role}.{name}"
            mine = packets["flow"] == flow
            one = {key: column[mine] for key, column in packets.items()}
            _add_flow(context, one, sent.get(flow), bound_ns)
    finally:
        out.role = role


def _add_flow(
    context: RoleContext, packets: dict[str, NDArray[Any]], sent: int | None, bound_ns: float | None
) -> None:
    out, size = context.out, int(packets["seq"].size)
    judged = arrivals(packets["seq"], packets["flow"])
    unknown = "how many were sent is not known"
    loss = max(0.0, 1.0 - judged.distinct / sent) if sent else None
    out.add("loss", "ratio", loss, sent or 0, unknown)
    out.add("duplicates", "ratio", judged.duplicates / sent if sent else None, sent or 0, unknown)
    out.add("duplicates", "count", judged.duplicates, sent or size)
    out.add("reordering", "ratio", judged.reordered / judged.distinct if size else None, size, NOTHING)
    out.add("reordering", "count", judged.reordered, size)
    out.add("packet_rate", "mean", rate_per_s(packets["received_ns"], 1) if size else None, size, NOTHING)
    if not size:
        out.absent("path_owd", NOTHING)
        return
    delay_ns = (packets["received_ns"] - packets["sent_ns"])[judged.first]
    why = not_estimable(bound_ns, delay_ns)
    if why is not None or bound_ns is None:
        out.absent("path_owd", str(why))
    else:
        out.distribution("path_owd", delay_ns, skip=("bound",))
        out.add("path_owd", "bound", bound_ns, size)
