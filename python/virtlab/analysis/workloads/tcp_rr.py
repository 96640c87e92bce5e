"""`tcp_rr`: request and response over one TCP connection, one at a time, as netperf's TCP_RR.

Transactions per second count those that ended in the window, between the first end and the last.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.analysis.rates import rate_per_s
from virtlab.analysis.workloads import health
from virtlab.lazy import np


def values(context: RoleContext) -> None:
    """Transactions per second and the time of each."""
    out = context.out
    rows = context.samples("transaction/1", "finished_ns")
    count = int(rows["finished_ns"].size)
    if count == 0:
        for metric in ("transaction_rate", "transaction_time"):
            out.absent(metric, "no transaction ended in the window")
    else:
        total = 0.0
        for flow in np.unique(rows["flow"]):
            total += rate_per_s(rows["finished_ns"][rows["flow"] == flow], 1) or float("nan")
        out.add("transaction_rate", "mean", total, count, "fewer than two transactions of a flow")
        out.distribution("transaction_time", rows["finished_ns"] - rows["started_ns"])
    health.values(context)
