"""Metrics of machines and guests as their own tools report them: memory, network interfaces, disks.

Our own telemetry has counters of interfaces and disks; these are rates over the tool's interval: of imported results, and of
domains of Xen, which xentop watches.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_SAMPLED = ("mean", "median", "p95", "p99", "min", "max")

MACHINES = by_key(
    Metric(
        "cpu_share", "ratio", "lower",
        "Busy share of all processors of a guest together, 0 to 1 however many they are; `cpu` of a guest counts them.",
        "vCenter cpu.usage", _SAMPLED, "entity", "share of its CPUs",
    ),
    Metric(
        "memory_used", "bytes", "lower", "Memory that an entity uses, as its tool counts it.",
        "sar kbmemused; xentop MEM(k); esxtop, vCenter: consumed", _SAMPLED, "entity", "memory used",
    ),
    Metric(
        "network_received", "bit/s", "neither",
        "What an interface, or all of a guest, received per second of the tool's interval.",
        "sar -n DEV; xentop -n, TX; esxtop; vCenter", _SAMPLED, "entity", "received",
    ),
    Metric(
        "network_sent", "bit/s", "neither",
        "What an interface, or all of a guest, sent per second of the tool's interval.",
        "sar -n DEV; xentop -n, RX; esxtop; vCenter", _SAMPLED, "entity", "sent",
    ),
    Metric(
        "disk_read", "byte/s", "neither", "What was read from a disk per second of the tool's interval.",
        "iostat; esxtop; vCenter", _SAMPLED, "entity", "disk read",
    ),
    Metric(
        "disk_written", "byte/s", "neither", "What was written to a disk per second of the tool's interval.",
        "iostat; esxtop; vCenter", _SAMPLED, "entity", "disk written",
    ),
    Metric(
        "disk_read_time", "ns", "lower", "Mean time of a read in the tool's interval, queueing included.",
        "iostat r_await; esxtop; vCenter", _SAMPLED, "entity", "time of a read",
    ),
    Metric(
        "disk_write_time", "ns", "lower", "Mean time of a write in the tool's interval, queueing included.",
        "iostat w_await; esxtop; vCenter", _SAMPLED, "entity", "time of a write",
    ),
    Metric(
        "disk_busy", "ratio", "lower", "Share of the interval in which a disk had a request.", "iostat %util",
        _SAMPLED, "entity", "disk busy",
    ),
)  # fmt: skip
