"""Workloads: traffic that a role makes. One file each; the names here are what `workload:` may say."""

from virtlab.catalogue.declaration import Workload
from virtlab.catalogue.workloads.burst_load import BURST_LOAD
from virtlab.catalogue.workloads.dirty import DIRTY
from virtlab.catalogue.workloads.http_get import HTTP_GET
from virtlab.catalogue.workloads.objects import OBJECTS
from virtlab.catalogue.workloads.program import PROGRAM
from virtlab.catalogue.workloads.psping import PSPING
from virtlab.catalogue.workloads.raw_stream import RAW_STREAM
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.catalogue.workloads.rt_tasks import RT_TASKS
from virtlab.catalogue.workloads.rtt import RTT
from virtlab.catalogue.workloads.tcp_rr import TCP_RR
from virtlab.catalogue.workloads.tcp_stream import TCP_STREAM
from virtlab.catalogue.workloads.udp_stream import UDP_STREAM

WORKLOADS: dict[str, Workload] = {
    entry.name: entry
    for entry in (
        RTT,
        BURST_LOAD,
        UDP_STREAM,
        TCP_STREAM,
        TCP_RR,
        HTTP_GET,
        REQUEST_RESPONSE,
        PSPING,
        RAW_STREAM,
        RT_TASKS,
        DIRTY,
        PROGRAM,
        OBJECTS,
    )
}


def measuring(metric: str) -> tuple[str, ...]:
    """Names of the workloads that measure a metric."""
    return tuple(name for name, entry in WORKLOADS.items() if metric in entry.metrics)


def below_ip(workload: str) -> bool:
    """Whether a workload makes whole frames, which no router takes."""
    entry = WORKLOADS.get(workload)
    return entry is not None and entry.transport({}) == "ethernet"


def is_command(workload: str) -> bool:
    """Whether a command in a guest plays a workload, and no probe."""
    return workload in WORKLOADS and WORKLOADS[workload].command


def is_budgeted(workload: str) -> bool:
    """Whether a workload runs under a budget of processor time each period."""
    return workload in WORKLOADS and WORKLOADS[workload].budgeted


__all__ = ["WORKLOADS", "below_ip", "is_budgeted", "is_command", "measuring"]
