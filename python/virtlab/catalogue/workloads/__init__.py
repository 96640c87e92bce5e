"""Workloads: traffic that a role makes. One file each; the names here are what `workload:` may say."""

from virtlab.catalogue.declaration import Workload
from virtlab.catalogue.named import Named

WORKLOADS: Named[Workload] = Named(
    __name__,
    "RTT BURST_LOAD UDP_STREAM TCP_STREAM TCP_RR HTTP_GET REQUEST_RESPONSE PSPING RAW_STREAM RT_TASKS DIRTY PROGRAM OBJECTS "
    "FILES",
)


def measuring(metric: str) -> tuple[str, ...]:
    """Names of the workloads that measure a metric."""
    return tuple(name for name, entry in WORKLOADS.items() if metric in entry.metrics)


def speaking(protocol: str) -> tuple[str, ...]:
    """Names of the workloads that ask virtlab's own server over this protocol, if nothing else is said."""
    found = []
    for name, entry in WORKLOADS.items():
        traits = entry.at_service
        if traits is not None and not traits.whole and traits.speaks(entry.complete({})) == protocol:
            found.append(name)
    return tuple(found)


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


__all__ = ["WORKLOADS", "below_ip", "is_budgeted", "is_command", "measuring", "speaking"]
