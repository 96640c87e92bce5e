"""Metrics of machines and guests beside the load: processors, memory, network interfaces, disks.

They are rates and shares over an interval: of our own telemetry, of domains of Xen, which xentop watches, and of
imported results. Of network interfaces our own telemetry has counters.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

AT_HOST = ".at."
"""Between the name of a guest that moves and the host where it has one of its machines: `guests.h1.vm.at.h2`."""

_SAMPLED = ("mean", "median", "p95", "p99", "min", "max")

MACHINES = by_key(
    Metric(
        "cpu_share", "ratio", "lower",
        "Busy share of all processors that a guest may use: of a virtual machine its virtual processors, of other guests by "
        "mask and quota; of a pool, the processors that its guests share. 0 to 1 however many they are; `cpu` counts them.",
        "/proc/PID/schedstat; vCenter cpu.usage", _SAMPLED, "entity", "share of its CPUs",
    ),
    Metric(
        "host_cpu_share", "ratio", "lower",
        "Busy share of all processors of the host (its `cpus`, or those of the machine) that the processes of a guest, its "
        "virtual machine with all threads, or all guests of a pool took; `cpu_share` is of those that they may use. "
        "Absent of a guest that moves between hosts with other numbers of processors.",
        "/proc/PID/schedstat", _SAMPLED, "entity", "share of the host's CPUs",
    ),
    Metric(
        "throttled", "ratio", "lower",
        "Share of time for which the quota of a guest held its processes back, summed over processors.",
        "cpu.stat of its control group", _SAMPLED, "entity", "throttled",
    ),
    Metric(
        "context_switches", "1/s", "lower",
        "How often a processor turned to another thread, per second: of a guest, how often to one of its own.",
        "/proc/stat ctxt; /proc/PID/schedstat", _SAMPLED, "entity", "context switches",
    ),
    Metric(
        "memory_used", "bytes", "lower",
        "Memory that an entity uses, as its tool counts it; of processes of a guest: what they have resident.",
        "/proc/PID/statm; sar kbmemused; xentop MEM(k); esxtop, vCenter: consumed", _SAMPLED, "entity", "memory used",
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
        "disk_reads", "1/s", "neither", "Reads of a disk that ended, per second.", "/proc/diskstats", _SAMPLED,
        "entity", "disk reads",
    ),
    Metric(
        "disk_writes", "1/s", "neither", "Writes of a disk that ended, per second.", "/proc/diskstats", _SAMPLED,
        "entity", "disk writes",
    ),
    Metric(
        "disk_read", "byte/s", "neither",
        "What was read from a disk, or from all disks by a guest's processes, per second of the interval.",
        "/proc/diskstats; /proc/PID/io; iostat; esxtop; vCenter", _SAMPLED, "entity", "disk read",
    ),
    Metric(
        "disk_written", "byte/s", "neither",
        "What was written to a disk, or to all disks by a guest's processes, per second of the interval.",
        "/proc/diskstats; /proc/PID/io; iostat; esxtop; vCenter", _SAMPLED, "entity", "disk written",
    ),
    Metric(
        "disk_read_time", "ns", "lower", "Mean time of a read in the interval, queueing included.",
        "/proc/diskstats; iostat r_await; esxtop; vCenter", _SAMPLED, "entity", "time of a read",
    ),
    Metric(
        "disk_write_time", "ns", "lower", "Mean time of a write in the interval, queueing included.",
        "/proc/diskstats; iostat w_await; esxtop; vCenter", _SAMPLED, "entity", "time of a write",
    ),
    Metric(
        "disk_busy", "ratio", "lower", "Share of the interval in which a disk had a request.",
        "/proc/diskstats; iostat %util",
        _SAMPLED, "entity", "disk busy",
    ),
)  # fmt: skip
