"""Metrics of the measuring itself, and of the machine under it.

They say whether a number may be believed: a starved probe or switch taints its run. Those that no role has
come from series and counters of entities: hosts, guests, links, virtual switches.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_SAMPLED = ("mean", "median", "p95", "p99", "min", "max")

HEALTH = by_key(
    Metric(
        "pacing_error", "ns", "lower",
        "How late a packet or burst left after its intended instant (open loop).", "sent minus intended",
        ("mean", "median", "p95", "p99", "p99.9", "max"),
        "role", "pacing error",
    ),
    Metric(
        "late_bursts", "ratio", "lower", "Bursts that left more than a tenth of their period late.",
        "sent minus intended", ("ratio", "count"), "role", "bursts late",
    ),
    Metric(
        "stalls", "count", "lower",
        "Times the probe itself was not run for long enough to disturb the measurement.",
        "the probe's own clock", ("count",), "role", "probe stalls",
    ),
    Metric(
        "stall", "ns", "lower", "The longest stall of the probe.", "the probe's own clock", ("max",),
        "role", "probe stall",
    ),
    Metric(
        "socket_drops", "count", "lower",
        "Packets that arrived and were dropped at the probe's own receive buffer: no loss of the "
        "network.", "Linux SO_RXQ_OVFL, tp_drops", ("count",), "role", "probe receive-buffer drops",
    ),
    Metric(
        "send_errors", "count", "lower", "Send calls that the kernel refused.", "errno of send", ("count",),
        "role", "send errors",
    ),
    Metric(
        "warm_up", "ratio", "lower",
        "Share of the window's samples that MSER-5 would cut as warm-up: a warning that the warm-up "
        "before the window was too short. Nothing is cut.", "White 1997, MSER-5", ("ratio",), "role",
        "drift at the start",
    ),
    Metric(
        "start_time", "ns", "lower",
        "Time from starting a guest that is a machine of its own until its agent answers; beside others that start.",
        "the leader's clock", ("total",), "entity", "start-up time",
    ),
    Metric(
        "cpu", "ratio", "lower", "Busy share of the CPUs of an entity, 0 to 1 per CPU.",
        "/proc/stat, cgroup cpuacct", _SAMPLED, "entity", "CPU",
    ),
    Metric(
        "steal", "ratio", "lower", "Share of time that the hypervisor beneath took away.", "/proc/stat",
        _SAMPLED, "entity", "steal",
    ),
    Metric(
        "run_queue_delay", "ns", "lower", "Time tasks waited on a run queue, per second of wall time.",
        "/proc/PID/schedstat, /proc/schedstat", _SAMPLED, "entity", "run-queue delay",
    ),
    Metric(
        "memory_available", "bytes", "higher",
        "Memory that the kernel of a host or guest can give without swapping, by its own estimate.",
        "/proc/meminfo MemAvailable", _SAMPLED, "entity", "memory available",
    ),
    Metric(
        "memory_pressure", "ratio", "lower",
        "Share of the time in which some task of a host or guest waited for memory.",
        "/proc/pressure/memory, some", _SAMPLED, "entity", "memory pressure",
    ),
    Metric(
        "major_faults", "1/s", "lower",
        "Page faults per second of a host or guest that had to read or unpack their page.",
        "/proc/vmstat pgmajfault", _SAMPLED, "entity", "major faults",
    ),
    Metric(
        "page_faults", "count", "neither",
        "Page faults of a guest whose memory is bounded, or of all guests of such a pool; in a machine with a balloon.",
        "control group: memory.stat pgfault; virtio-balloon stat-minor-faults", ("total",), "entity", "page faults",
    ),
    Metric(
        "major_page_faults", "count", "lower",
        "Page faults that had to read their page, of the same guests and pools as `page_faults`.",
        "control group: memory.stat pgmajfault; virtio-balloon stat-major-faults", ("total",), "entity", "major page faults",
    ),
    Metric(
        "memory_limit_hits", "count", "lower",
        "How often a guest, or those of a pool, wanted more memory than they may have, so that the kernel took some back.",
        "control group: memory.failcnt; memory.events max", ("total",), "entity", "hits of the memory limit",
    ),
    Metric(
        "swapped_in", "count", "lower",
        "Pages read back from swap, for a guest with bounded memory or for all guests of a pool with it.",
        "control group: memory.stat workingset_refault_anon", ("total",), "entity", "pages from swap",
    ),
    Metric(
        "memory_stalled", "ns", "lower",
        "For how long some task of a guest, or of a pool, whose memory is bounded waited for memory; of control groups v2.",
        "control group: memory.pressure, some", ("total",), "entity", "waiting for memory",
    ),
    Metric(
        "softnet_drops", "count", "lower", "Packets the kernel dropped before any protocol saw them.",
        "/proc/net/softnet_stat", ("total",), "entity", "softnet drops",
    ),
    Metric(
        "backlog", "bytes", "lower", "Bytes waiting in a queue discipline.", "tc -s qdisc", _SAMPLED, "entity",
        "queue backlog",
    ),
    Metric(
        "backlog_packets", "count", "lower", "Packets waiting in a queue discipline.", "tc -s qdisc",
        _SAMPLED, "entity", "queue backlog in packets",
    ),
    Metric(
        "residence", "ns", "lower",
        "Time that the frames which left a queue had waited in it; of queues that the soft switch or the simulator plays.",
        "arrival to start of transmission", ("mean",), "entity", "queue residence",
    ),
    Metric(
        "drops", "count", "lower", "Packets dropped by a queue or interface, or lost at a link that was cut.",
        "interface and qdisc counters", ("total",), "entity", "drops",
    ),
    Metric(
        "lateness", "ns", "lower", "How late the soft switch let a frame go after its computed departure.",
        "soft switch, departure minus model", ("mean", "median", "p95", "p99", "p99.9", "max"), "entity",
        "switch lateness",
    ),
)  # fmt: skip
