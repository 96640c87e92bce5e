"""One file per workload: its samples in a run to the values of its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from virtlab.analysis.workloads import (
    burst_load,
    psping,
    raw_stream,
    rt_tasks,
    rtt,
    tcp_rr,
    tcp_stream,
    udp_stream,
)

if TYPE_CHECKING:
    from virtlab.analysis.context import RoleContext

WORKLOADS: dict[str, Callable[[RoleContext], None]] = {
    "rtt": rtt.values,
    "burst_load": burst_load.values,
    "udp_stream": udp_stream.values,
    "tcp_stream": tcp_stream.values,
    "tcp_rr": tcp_rr.values,
    "psping": psping.values,
    "raw_stream": raw_stream.values,
    "rt_tasks": rt_tasks.values,
}

__all__ = ["WORKLOADS"]
