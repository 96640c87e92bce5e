"""What a Plan can have collected besides packets: series, which are sampled, and groups of counters, read at marks.

Each is declared once, here. Which arm refuses a name, what is sampled beside every load, and what the reference says of
one follow from its declaration. Units and directions are those of its metrics (`virtlab.metrics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# The leader on the machine that is described, or what runs a guest, beside it.
Sampler = Literal["agent", "hypervisor"]


@dataclass(frozen=True, slots=True)
class Series:
    """What is sampled under one name, and who has it. `simulated`: where the simulator has it, too; "" nowhere."""

    name: str
    meaning: str  # as the reference has it
    source: str  # where the testbed takes it from, as the reference has it
    metrics: tuple[str, ...]  # of its samples
    simulated: str = ""
    sampler: Sampler = "agent"
    telemetry: bool = False  # sampled beside every load
    inside: bool = False  # as telemetry, by every kernel of a guest of its own machine
    each_kernel: bool = False  # also where only `series` names it
    of_disks: bool = False  # had where a guest has a disk whose operations are counted
    of_moving: bool = True  # also where a guest moves, and two machines carry its name
    by_xentop: bool = False  # which reports it of domains


@dataclass(frozen=True, slots=True)
class Counters:
    """A group of counters. `simulated`: where the simulator has it, too; "" nowhere."""

    name: str
    meaning: str  # as the reference has it
    source: str  # where the testbed takes it from, as the reference has it
    simulated: str = ""
    other_names: tuple[str, ...] = ()
    by_agents: bool = True  # the leader of a kernel reads it, not the planes of the world
    inside: bool = True  # so does every kernel of a guest
    counters: tuple[str, ...] = ()  # where its rows are told from others by the names of what they count
    of_moving: bool = True  # also where a guest moves, and two machines carry its name
    of_disks: bool = False  # had where a guest has a disk whose operations are counted

    @property
    def names(self) -> tuple[str, ...]:
        """All that a file may write."""
        return (self.name, *self.other_names)


_OF_DISK = (
    "disk_reads", "disk_read", "disk_read_time", "disk_writes", "disk_written", "disk_write_time", "disk_busy",
)  # fmt: skip
_POOLS = "where guests share pools"
_SOFTNET = "packets that the kernel processed, dropped, postponed, by processor"
_DISKS = "where a guest has a disk"

HOST_CPU = Series(
    "host.cpu",
    "each processor of the machine: busy share, steal, time in soft interrupts; where the kernel keeps it, how long "
    "tasks waited for it; context switches of all",
    "/proc/stat, /proc/schedstat",
    ("cpu", "softirq", "steal", "context_switches", "run_queue_delay"),
    simulated=f"`cpu` of hosts with processors of their own, {_POOLS}",
    telemetry=True,
    inside=True,
)
GUEST_CPU = Series(
    "guest.cpu",
    "processes of each guest: processors used (`cpu`), as a share of the machine's (`host_cpu_share`) and of those "
    "that it may use (`cpu_share`); waiting for one, context switches, memory, bytes read from and written to disks; "
    "time held back by a quota (`throttled`); the same shares of each [pool](pools.md) (`pools.HOST.POOL`), and `cpu` "
    "of each host that has processors of its own (`hosts.HOST`); of a guest that moves also the machine at each host "
    "(`guests.NAME.at.HOST`)",
    "/proc/PID/schedstat, /proc/PID/statm, /proc/PID/io, control groups; xentop",
    (
        "cpu", "cpu_share", "host_cpu_share", "run_queue_delay", "context_switches", "memory_used", "disk_read",
        "disk_written", "throttled",
    ),
    simulated=f"shares of processors, {_POOLS} or a store's nodes and proxies have processors",
    telemetry=True,
    by_xentop=True,
)  # fmt: skip
GUEST_VCPUS = Series(
    "guest.vcpus",
    "threads of each virtual machine (`guests.NAME.vcpuN`, `.io`): processors used, waiting, context switches; "
    "`cpu_share` of its virtual processors",
    "/proc/PID/task/TID/schedstat; xentop",
    ("cpu", "cpu_share", "run_queue_delay", "context_switches"),
    telemetry=True,
    of_moving=False,
    by_xentop=True,
)
MEMORY = Series(
    "memory",
    "of the machine (`host.memory`) and of every virtual machine by its own kernel (`guests.NAME.memory`): what is "
    "available, pressure, major faults",
    "/proc/meminfo, /proc/pressure/memory, /proc/vmstat; xentop",
    ("memory_available", "memory_pressure", "major_faults"),
    telemetry=True,
    inside=True,
    each_kernel=True,
    of_moving=False,
    by_xentop=True,
)
DISK = Series(
    "disk",
    "each disk of the machine (`host.vda`): operations, bytes, mean times of reads and writes, busy share",
    "/proc/diskstats",
    _OF_DISK,
    telemetry=True,
    inside=True,
)
GUEST_DISK = Series(
    "guest.disk",
    "the [disk](disks.md) of each guest (`guests.NAME.disk`): operations, bytes, mean times of reads and writes, busy "
    "share",
    "what serves the disk",
    _OF_DISK,
    simulated=_DISKS,
    telemetry=True,
    of_disks=True,
)
HOST_DISK = Series(
    "host.disk",
    "the same of all disks of a host's guests together (`hosts.HOST.disks`)",
    "what serves the disks",
    _OF_DISK,
    simulated=_DISKS,
    telemetry=True,
    of_disks=True,
)
DIRTY_RATE = Series(
    "guest.dirty_rate",
    "how fast each machine of `qemu` dirties its memory, by [sampling pages](metrics.md#guests-that-move) for that "
    "time, 1 s at least; not while it moves",
    "QEMU's monitor: calc-dirty-rate",
    ("sampled_dirty_rate",),
    sampler="hypervisor",
)
SOFTNET = Series(
    "softnet",
    _SOFTNET,
    "/proc/net/softnet_stat",
    ("softnet_processed", "softnet_dropped", "softnet_squeezed"),
)
QDISC = Series(
    "qdisc",
    "backlog and drops of the kernel's queues",
    "rtnetlink",
    ("backlog_packets", "backlog", "qdisc_drops"),
)
VNICS = Series("vnics", "bytes of every interface", "rtnetlink", ("received_bytes", "sent_bytes"))

VNIC_COUNTERS = Counters(
    "vnics", "packets, bytes and drops of every interface", "rtnetlink", simulated="of vNICs of guests"
)
LINK_COUNTERS = Counters(
    "links",
    "what each direction of a link carried and dropped, and how long frames waited; at the end of the run, how many "
    "wait in each guest's vNIC",
    "the soft switch; rtnetlink; Open vSwitch",
    simulated="each direction of a link",
    by_agents=False,
)
SOFTNET_COUNTERS = Counters(
    "softnet",
    _SOFTNET,
    "/proc/net/softnet_stat",
    counters=("softnet_processed", "softnet_drops", "softnet_squeezed"),
)
QDISC_COUNTERS = Counters(
    "qdisc", "packets, bytes, drops, backlog of the kernel's queues", "rtnetlink", other_names=("qdiscs",)
)
CPU_COUNTERS = Counters(
    "host.cpu", "time that each processor spent at what", "/proc/stat", other_names=("cpu",)
)
GUEST_COUNTERS = Counters(
    "guests",
    "what a guest's processes, machine or container used: processor time, memory, disk",
    "/proc/PID, control groups",
    of_moving=False,
)
DISK_COUNTERS = Counters(
    "disks",
    "what the [disk](disks.md) of each guest has done: operations, bytes, time",
    "what serves the disk",
    simulated=_DISKS,
    inside=False,
    of_disks=True,
)
MEMORY_COUNTERS = Counters(
    "memory",
    "what there is of memory and what is available, pressure, major faults, reclaimed pages",
    "/proc/pressure/memory, /proc/vmstat",
)

SERIES = {
    each.name: each
    for each in (
        HOST_CPU, GUEST_CPU, GUEST_VCPUS, MEMORY, DISK, GUEST_DISK, HOST_DISK, DIRTY_RATE, SOFTNET, QDISC, VNICS,
    )
}  # fmt: skip
COUNTERS = {
    name: each
    for each in (
        VNIC_COUNTERS, LINK_COUNTERS, SOFTNET_COUNTERS, QDISC_COUNTERS, CPU_COUNTERS, GUEST_COUNTERS, DISK_COUNTERS,
        MEMORY_COUNTERS,
    )
    for name in each.names
}  # fmt: skip
