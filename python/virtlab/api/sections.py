"""The sections of an experiment file, for type checkers. Written by `python -m tools.sections`, from the file's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict


Range = TypedDict(
    "Range",
    {
        "from": "Required[str | int | float]",
        "to": "Required[str | int | float]",
        "step": "Required[str | int | float]",
    },
    total=False,
)


class Disk(TypedDict, total=False):
    """A disk of a guest beside what it boots, empty at the begin of a run."""

    size: Required[str]
    medium: Literal["memory", "file", "service"] | str
    service: str
    block: str
    write_cache: str
    rate: str
    latency: str


class PlacedGuest(TypedDict, total=False):
    """A guest of a host: its platform, its virtual switches, and whether it forwards."""

    cpu: str
    memory: str
    swap: str
    balloon: str
    image: str
    runtime: Literal["runc", "crun", "podman"] | str
    seccomp: Literal["default", "none"] | str
    user_namespace: Literal["none", "own"] | str
    firmware: Literal["bios", "uefi"] | str
    vcpus: int | str
    disk: Disk | str
    vnic_model: Literal["virtio", "e1000", "e1000e"] | str
    idle: Literal["sleep", "poll"] | str
    offloads: Literal["off", "default"] | str
    mtu: str
    ipv4: str
    ipv6: str
    mac: str
    platform: Literal["namespace", "native", "container", "qemu", "xen", "appliance", "ssh", "libvirt"] | str
    vswitches: Sequence[str] | str
    forwarding: Literal["none", "layer3", "layer2"] | str
    isolate: bool | str
    pool: str
    weight: int | str
    count: int | str


class Vswitch(TypedDict, total=False):
    """One of several virtual switches of a host."""

    kind: Literal["linux_bridge", "ovs-netdev", "ovs-kernel", "none"] | str
    isolate: bool | str
    learning: bool | str
    flooding: bool | str
    flow_entries: Literal["shared", "own"] | str


class Pool(TypedDict, total=False):
    """Processors of a host that the guests in it share."""

    cpus: Required[int | str]
    by: Literal["affinity", "quota"] | str
    memory: str
    swap: str


class FifoQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Literal["fifo"]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str


class PfifoQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["pfifo"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str


class BfifoQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["bfifo"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str


class PfifoFastQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["pfifo_fast"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str


class SfqQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["sfq"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    quantum: str
    perturb: str
    flows: int | str
    depth: int | str
    divisor: int | str


class CodelQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["codel"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    target: str
    interval: str
    ecn: bool | str
    ideal: bool | str


class FqCodelQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["fq_codel"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    flows: int | str
    quantum: str
    target: str
    interval: str
    ecn: bool | str
    memory_limit: str
    drop_batch: int | str


class PieQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["pie"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    target: str
    tupdate: str
    alpha: int | str
    beta: int | str
    ecn: bool | str
    bytemode: bool | str


class TbfQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["tbf"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    rate: Required[str]
    burst: Required[str]


HtbQueueMatch = TypedDict(
    "HtbQueueMatch",
    {
        "class": "Required[str]",
        "dscp": "Any",
        "pcp": "Any",
        "protocol": "Any",
        "from": "Any",
        "to": "Any",
        "from_port": "Any",
        "to_port": "Any",
        "flow": "Any",
    },
    total=False,
)


class HtbQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["htb"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    classes: Required[Mapping[str, Mapping[str, Any] | None]]
    match: Sequence[HtbQueueMatch]
    default: Required[str]


class HtbQueue2(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["htb"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    rate: Required[str]
    ceil: str
    burst: str
    cburst: str
    quantum: str


HfscQueueMatch = TypedDict(
    "HfscQueueMatch",
    {
        "class": "Required[str]",
        "dscp": "Any",
        "pcp": "Any",
        "protocol": "Any",
        "from": "Any",
        "to": "Any",
        "from_port": "Any",
        "to_port": "Any",
        "flow": "Any",
    },
    total=False,
)


class HfscQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["hfsc"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    classes: Required[Mapping[str, Mapping[str, Any] | None]]
    match: Sequence[HfscQueueMatch]
    default: Required[str]


class HfscQueue2(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["hfsc"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    m1: str
    d: str
    m2: Required[str]


PrioQueueMatch = TypedDict(
    "PrioQueueMatch",
    {
        "class": "Required[str]",
        "dscp": "Any",
        "pcp": "Any",
        "protocol": "Any",
        "from": "Any",
        "to": "Any",
        "from_port": "Any",
        "to_port": "Any",
        "flow": "Any",
    },
    total=False,
)


class PrioQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["prio"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    classes: Required[Mapping[str, Mapping[str, Any] | None]]
    match: Sequence[PrioQueueMatch]
    default: Required[str]


DrrQueueMatch = TypedDict(
    "DrrQueueMatch",
    {
        "class": "Required[str]",
        "dscp": "Any",
        "pcp": "Any",
        "protocol": "Any",
        "from": "Any",
        "to": "Any",
        "from_port": "Any",
        "to_port": "Any",
        "flow": "Any",
    },
    total=False,
)


class DrrQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["drr"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    classes: Required[Mapping[str, Mapping[str, Any] | None]]
    match: Sequence[DrrQueueMatch]
    default: Required[str]


class NetemQueue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[Literal["netem"]]
    by: Literal["auto", "kernel", "virtlab"] | str
    limit: str
    delay: str
    loss: str


class Queue(TypedDict, total=False):
    """Keys of a section."""

    kind: Required[str]


class Host(TypedDict, total=False):
    """A machine that runs guests, with one virtual switch for them."""

    cpu: str
    memory: str
    swap: str
    balloon: str
    image: str
    runtime: Literal["runc", "crun", "podman"] | str
    seccomp: Literal["default", "none"] | str
    user_namespace: Literal["none", "own"] | str
    firmware: Literal["bios", "uefi"] | str
    vcpus: int | str
    disk: Disk | str
    vnic_model: Literal["virtio", "e1000", "e1000e"] | str
    idle: Literal["sleep", "poll"] | str
    offloads: Literal["off", "default"] | str
    mtu: str
    ipv4: str
    ipv6: str
    mac: str
    guests: int | Sequence[str] | Mapping[str, PlacedGuest | str] | str
    platform: Literal["namespace", "native", "container", "qemu", "xen", "appliance", "ssh", "libvirt"] | str
    vswitch: Literal["linux_bridge", "ovs-netdev", "ovs-kernel", "none"] | str
    vswitches: Mapping[str, Vswitch | str] | str
    cpus: int | str
    pools: Mapping[str, Pool | str] | str
    joins: str
    address: str
    interface: str
    network: Literal["own", "vxlan"] | str
    domain: str
    hypervisor: str
    queue: Literal["fifo", "pfifo", "bfifo", "pfifo_fast", "sfq", "codel", "fq_codel", "pie", "tbf", "htb", "hfsc", "prio", "drr", "netem"] | FifoQueue | PfifoQueue | BfifoQueue | PfifoFastQueue | SfqQueue | CodelQueue | FqCodelQueue | PieQueue | TbfQueue | HtbQueue | HtbQueue2 | HfscQueue | HfscQueue2 | PrioQueue | DrrQueue | NetemQueue | Queue | str
    queue_at: Literal["guest", "uplink", "both", "none"] | str
    port_rate: str
    pushback: Literal["uplink", "guest", "none"] | str


class Topology(TypedDict, total=False):
    """A shape made of switches (or routers) that wires all hosts."""

    shape: Literal["line", "star", "tree", "direct", "none"] | str
    switches: int | str
    branching: int | str
    device: Literal["switch", "router"] | str


class Switch(TypedDict, total=False):
    """A physical store-and-forward switch."""

    processing: str


class Router(TypedDict, total=False):
    """A machine that forwards between its ports, each port in a subnet of its own."""

    platform: Literal["namespace", "native", "container", "qemu", "xen", "appliance", "ssh", "libvirt"] | str
    vswitch: Literal["linux_bridge", "ovs-netdev", "ovs-kernel", "none"] | str
    cpu: str
    memory: str
    image: str
    runtime: Literal["runc", "crun", "podman"] | str
    seccomp: Literal["default", "none"] | str
    user_namespace: Literal["none", "own"] | str
    firmware: Literal["bios", "uefi"] | str
    vnic_model: Literal["virtio", "e1000", "e1000e"] | str
    routing: Literal["static", "ospf"] | str
    licence: str
    pin: Literal["none", "one", "spread"] | str


class Link(TypedDict, total=False):
    """A full-duplex cable between two ports."""

    ends: Sequence[str] | str
    rate: str
    propagation: str
    realise: Literal["auto", "netem", "soft_switch", "shaping"] | str
    queue: Literal["fifo", "pfifo", "bfifo", "pfifo_fast", "sfq", "codel", "fq_codel", "pie", "tbf", "htb", "hfsc", "prio", "drr", "netem"] | FifoQueue | PfifoQueue | BfifoQueue | PfifoFastQueue | SfqQueue | CodelQueue | FqCodelQueue | PieQueue | TbfQueue | HtbQueue | HtbQueue2 | HfscQueue | HfscQueue2 | PrioQueue | DrrQueue | NetemQueue | Queue | str
    queue_back: Literal["fifo", "pfifo", "bfifo", "pfifo_fast", "sfq", "codel", "fq_codel", "pie", "tbf", "htb", "hfsc", "prio", "drr", "netem"] | FifoQueue | PfifoQueue | BfifoQueue | PfifoFastQueue | SfqQueue | CodelQueue | FqCodelQueue | PieQueue | TbfQueue | HtbQueue | HtbQueue2 | HfscQueue | HfscQueue2 | PrioQueue | DrrQueue | NetemQueue | Queue | str


class Network(TypedDict, total=False):
    """Keys of a section."""

    ipv4: str
    ipv6: str
    mtu: str
    arp: Literal["static", "live"] | str
    offloads: Literal["off", "default"] | str
    ipv6_noise: bool | str
    spin: Literal["auto", "always", "never"] | str


class Timing(TypedDict, total=False):
    """Keys of a section."""

    warmup: str
    pause: str
    drain: str
    together: bool | str


class Collect(TypedDict, total=False):
    """Keys of a section."""

    packets: Sequence[str] | str
    series: Mapping[str, str] | str
    telemetry: str | Literal["off"]
    counters: Sequence[str] | str


class Limits(TypedDict, total=False):
    """Keys of a section."""

    run: str
    disk: str


class Goal(TypedDict, total=False):
    """The condition that a good load of a search meets."""

    loss: str
    exceed: str
    trial: str
    initial_trial: str
    duration_sum: str
    width: str
    preceding: int | str


class Latency(TypedDict, total=False):
    """Delay at stated loads (RFC 2544, 26.2)."""

    at: Sequence[Any] | str
    trials: int | str
    trial: str
    tag: Literal["frame", "all"] | str


class FrameLoss(TypedDict, total=False):
    """Loss from the highest load downwards, until two trials in a row lose nothing (RFC 2544, 26.3)."""

    step: str
    trial: str


class BackToBack(TypedDict, total=False):
    """The longest burst at the highest load that loses nothing (RFC 2544, 26.4; RFC 9004)."""

    trials: int | str
    longest: str
    width: str


class Recovery(TypedDict, total=False):
    """From the end of an overload to the last frame lost (RFC 2544, 26.5)."""

    overload: str
    overload_for: str
    drop_to: str
    watch: str
    trials: int | str


class Reset(TypedDict, total=False):
    """From a reset of the device until it forwards again (RFC 2544, 26.6; RFC 6201)."""

    guest: Required[str]
    down: str
    watch: str
    trials: int | str


class Tests(TypedDict, total=False):
    """What else is tried in the same world once the search is over."""

    pace: Literal["letter", "quick"] | str
    latency: Latency | None | str
    frame_loss: FrameLoss | None | str
    back_to_back: BackToBack | None | str
    recovery: Recovery | None | str
    reset: Reset | None | str


class Search(TypedDict, total=False):
    """Keys of a section."""

    variable: Required[str]
    low: Required[Any]
    high: Any
    resolution: Any
    method: Literal["mlrsearch", "bisection", "rfc2544"] | str
    goals: Sequence[Goal | str] | str
    until: str
    warmup: str
    loss_per: Literal["flow", "stream"] | str
    tests: Sequence[Literal["latency", "frame_loss", "back_to_back", "recovery"]] | Tests | str


RttRole = TypedDict(
    "RttRole",
    {  # round-trip time of requests on an open-loop schedule
        "workload": "Required[Literal[\"rtt\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\", \"ping\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "protocol": "Literal[\"icmp\", \"udp\"] | str",
        "dscp": "int | str",
        "size": "str",
        "interval": "str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "count": "int | str",
        "timeout": "str",
    },
    total=False,
)


BurstLoadRole = TypedDict(
    "BurstLoadRole",
    {  # bursts of bytes at a fixed period, in several streams
        "workload": "Required[Literal[\"burst_load\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "burst": "Required[str]",
        "period": "str",
        "streams": "int | str",
        "protocol": "Literal[\"udp\", \"icmp\"] | str",
        "direction": "Literal[\"one_way\", \"request_reply\"] | str",
        "origin": "Literal[\"from\", \"to\", \"both\"] | str",
        "phase": "Literal[\"fixed\", \"spread\", \"random\"] | str",
        "dscp": "int | str",
        "phase_offset": "str",
    },
    total=False,
)


UdpStreamRole = TypedDict(
    "UdpStreamRole",
    {  # datagrams at a rate or as fast as possible, one way
        "workload": "Required[Literal[\"udp_stream\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\", \"iperf3\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "rate": "str",
        "dscp": "int | str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "size": "str",
        "duration": "str",
        "send_buffer": "str",
        "receive_buffer": "str",
    },
    total=False,
)


TcpStreamRole = TypedDict(
    "TcpStreamRole",
    {  # bytes over TCP as fast as possible, one way
        "workload": "Required[Literal[\"tcp_stream\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\", \"iperf3\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "message": "str",
        "send_buffer": "str",
        "receive_buffer": "str",
        "streams": "int | str",
        "congestion_control": "Literal[\"cubic\", \"newreno\"] | str",
        "dscp": "int | str",
        "ecn": "bool | str",
        "no_delay": "bool | str",
    },
    total=False,
)


TcpRrRole = TypedDict(
    "TcpRrRole",
    {  # request and response over TCP, one at a time
        "workload": "Required[Literal[\"tcp_rr\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "request": "str",
        "response": "str",
        "send_buffer": "str",
        "receive_buffer": "str",
        "congestion_control": "Literal[\"cubic\", \"newreno\"] | str",
        "dscp": "int | str",
        "ecn": "bool | str",
    },
    total=False,
)


HttpGetRole = TypedDict(
    "HttpGetRole",
    {  # GET requests over HTTP/1.1, in turns or at a rate
        "workload": "Required[Literal[\"http_get\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "connections": "int | str",
        "keep_alive": "bool | str",
        "path": "str",
        "port": "int | str",
        "server": "str",
        "response": "str",
        "rate": "str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "timeout": "str",
        "send_buffer": "str",
        "receive_buffer": "str",
        "congestion_control": "Literal[\"cubic\", \"newreno\"] | str",
        "dscp": "int | str",
        "ecn": "bool | str",
    },
    total=False,
)


RequestResponseRole = TypedDict(
    "RequestResponseRole",
    {  # requests to a server that works for each, at a rate or from clients that think
        "workload": "Required[Literal[\"request_response\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "rate": "str",
        "arrivals": "Literal[\"constant\", \"poisson\", \"trace\"] | str",
        "trace": "str",
        "trace_period": "str",
        "protocol": "Literal[\"tcp\", \"udp\", \"http\"] | str",
        "port": "int | str",
        "server": "str",
        "passive_share": "str",
        "path": "str",
        "keep_alive": "bool | str",
        "connections": "int | str",
        "think": "str",
        "think_distribution": "Literal[\"constant\", \"exponential\"] | str",
        "request": "str",
        "response": "str",
        "timeout": "str",
        "retries": "int | str",
        "retry_after": "str",
        "deadline": "str",
        "serial_demand": "str",
        "demand": "str",
        "subtasks": "int | str",
        "demand_distribution": "Literal[\"constant\", \"exponential\", \"lognormal\", \"empirical\"] | str",
        "demand_variation": "str",
        "demand_samples": "Sequence[str] | str",
        "lock": "str",
        "write": "str",
        "write_mode": "Literal[\"buffered\", \"fsync\", \"throttled\"] | str",
        "idle_write": "str",
        "threads": "int | str",
        "backlog": "int | str",
        "full": "Literal[\"reject\", \"wait\"] | str",
        "pause": "str",
        "pause_after": "str",
        "send_buffer": "str",
        "receive_buffer": "str",
        "congestion_control": "Literal[\"cubic\", \"newreno\"] | str",
        "dscp": "int | str",
        "ecn": "bool | str",
    },
    total=False,
)


PspingRole = TypedDict(
    "PspingRole",
    {  # PsPing's tests: ping, latency and bandwidth of requests of a given size
        "workload": "Required[Literal[\"psping\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "test": "Literal[\"latency\", \"ping\", \"bandwidth\"] | str",
        "protocol": "Literal[\"tcp\", \"udp\", \"icmp\"] | str",
        "size": "str",
        "response": "str",
        "count": "int | str",
        "warmup": "int | str",
        "interval": "str",
        "outstanding": "int | str",
        "reverse": "bool | str",
        "timeout": "str",
        "at_most": "str",
        "histogram": "int | Sequence[str] | str",
    },
    total=False,
)


class RawStreamRoleSplit(TypedDict, total=False):
    """Keys of a section."""

    strong: Required[int | str]
    weak_share: Required[str]


RawStreamRole = TypedDict(
    "RawStreamRole",
    {  # frames of exact size, one way, straight or by way of guests that forward
        "workload": "Required[Literal[\"raw_stream\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "size": "str",
        "rate": "str",
        "duration": "str",
        "flows": "int | str",
        "shares": "Sequence[str] | str",
        "split": "RawStreamRoleSplit | str",
        "threads": "int | str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "dscp": "int | str",
        "priority": "int | str",
        "via": "Sequence[str] | str",
    },
    total=False,
)


class RtTasksRoleTasks(TypedDict, total=False):
    """Keys of a section."""

    name: Required[str]
    period: Required[str]
    wcet: Required[str]
    deadline: str


class RtTasksRoleCompetitors(TypedDict, total=False):
    """Keys of a section."""

    period: Required[str]
    budget: Required[str]


RtTasksRole = TypedDict(
    "RtTasksRole",
    {  # hard-deadline tasks under a CPU budget each period, against their exact bounds
        "workload": "Required[Literal[\"rt_tasks\"]]",
        "from": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "tasks": "Required[Sequence[RtTasksRoleTasks] | str]",
        "period": "str",
        "budget": "Required[str]",
        "overhead": "str",
        "policy": "Literal[\"rm\", \"dm\", \"given\"] | str",
        "server": "Literal[\"deadline\", \"quota\"] | str",
        "competitors": "Sequence[RtTasksRoleCompetitors] | str",
        "phases": "int | str",
        "duration": "str",
    },
    total=False,
)


DirtyRole = TypedDict(
    "DirtyRole",
    {  # memory that a guest writes to at a rate: what a live migration copies again
        "workload": "Required[Literal[\"dirty\"]]",
        "from": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "rate": "Required[str]",
        "working_set": "Required[str]",
    },
    total=False,
)


class ProgramRoleMetrics(TypedDict, total=False):
    """Keys of a section."""

    unit: Required[str]
    better: Required[Literal["lower", "higher", "neither"]]
    meaning: str
    json: str
    json_lines: str
    regex: str
    csv: str
    prometheus: str
    hdr_histogram: str
    time: str
    clock: str
    time_unit: str
    http: str
    file: str
    every: str
    delimiter: str


ProgramRoleFiles = TypedDict(
    "ProgramRoleFiles",
    {
        "from": "Required[str]",
        "executable": "bool",
    },
    total=False,
)


class ProgramRoleSimulatedAs(TypedDict, total=False):
    """Keys of a section."""

    service: str
    rate: str
    connections: int | str
    think: str
    think_distribution: Literal["constant", "exponential"]
    request: str
    timeout: str
    duration: str
    arrivals: Literal["constant", "poisson"]
    protocol: Literal["tcp", "udp"]
    count: int | str
    demand: str
    serial_demand: str
    subtasks: int | str
    threads: int | str
    demand_distribution: Literal["constant", "exponential", "lognormal", "empirical"]
    demand_variation: str
    demand_samples: Sequence[str]
    metrics: Mapping[str, str]


ProgramRole = TypedDict(
    "ProgramRole",
    {  # a program of your own in a guest, its metrics read from its output
        "workload": "Required[Literal[\"program\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "argv": "Sequence[str] | str",
        "metrics": "Mapping[str, ProgramRoleMetrics] | str",
        "user": "str | int",
        "files": "Mapping[str, str | ProgramRoleFiles] | str",
        "simulated_as": "ProgramRoleSimulatedAs | str",
        "timeout": "str",
    },
    total=False,
)


class ObjectsRoleSize(TypedDict, total=False):
    """Keys of a section."""

    uniform: Required[Sequence[str]]


class ObjectsRoleSize2(TypedDict, total=False):
    """Keys of a section."""

    exponential: Required[str]


class ObjectsRoleSizeLognormal(TypedDict, total=False):
    """Keys of a section."""

    mean: Required[str]
    variation: Required[str]


class ObjectsRoleSize3(TypedDict, total=False):
    """Keys of a section."""

    lognormal: Required[ObjectsRoleSizeLognormal]


ObjectsRole = TypedDict(
    "ObjectsRole",
    {  # operations on objects of a store, by threads in turns or at a rate
        "workload": "Required[Literal[\"objects\"]]",
        "from": "Required[str]",
        "to": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "count": "int | str",
        "operations": "Required[Literal[\"create\", \"read\", \"overwrite\", \"delete\", \"stat\", \"open\", \"list\", \"like SPECsfs2008\"] | Mapping[str, Any] | str]",
        "size": "str | Sequence[str] | ObjectsRoleSize | ObjectsRoleSize2 | ObjectsRoleSize3 | Mapping[str, float]",
        "threads": "int | str",
        "rate": "str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "error_budget": "str",
        "folder": "str",
        "order": "Literal[\"random\", \"sequential\", \"once\"] | str",
    },
    total=False,
)


class FilesRoleSize(TypedDict, total=False):
    """Keys of a section."""

    uniform: Required[Sequence[str]]


class FilesRoleSize2(TypedDict, total=False):
    """Keys of a section."""

    exponential: Required[str]


class FilesRoleSizeLognormal(TypedDict, total=False):
    """Keys of a section."""

    mean: Required[str]
    variation: Required[str]


class FilesRoleSize3(TypedDict, total=False):
    """Keys of a section."""

    lognormal: Required[FilesRoleSizeLognormal]


FilesRole = TypedDict(
    "FilesRole",
    {  # operations on files of a directory, by threads in turns or at a rate
        "workload": "Required[Literal[\"files\"]]",
        "from": "Required[str]",
        "as": "Literal[\"measure\", \"load\"] | str",
        "meter": "Literal[\"virtlab\"] | str",
        "family": "Literal[\"ipv4\", \"ipv6\"] | str",
        "enabled": "bool | str",
        "duration": "str",
        "count": "int | str",
        "directory": "str",
        "operations": "Required[Literal[\"create\", \"read\", \"overwrite\", \"delete\", \"stat\", \"open\", \"list\", \"like SPECsfs2008\"] | Mapping[str, Any] | str]",
        "size": "str | Sequence[str] | FilesRoleSize | FilesRoleSize2 | FilesRoleSize3 | Mapping[str, float]",
        "threads": "int | str",
        "rate": "str",
        "arrivals": "Literal[\"constant\", \"poisson\"] | str",
        "error_budget": "str",
        "folder": "str",
        "order": "Literal[\"random\", \"sequential\", \"once\"] | str",
        "sync": "Literal[\"none\", \"fsync\"] | str",
        "direct": "bool | str",
        "cache": "Literal[\"keep\", \"drop\"] | str",
    },
    total=False,
)


class Role(TypedDict, total=False):
    """Keys of a section."""

    workload: Required[str]


class DemandServerServiceReady(TypedDict, total=False):
    """at which port it listens, and for how long that is waited for"""

    port: int | str
    every: str
    timeout: str


class DemandServerService(TypedDict, total=False):
    """virtlab's own server, which spends a demand of processor time on each request of
    request_response"""

    kind: Required[Literal["demand_server"]]
    on: Required[str | Sequence[str]]
    needs: str | Sequence[str]
    ready: DemandServerServiceReady
    response: str
    serial_demand: str
    demand: str
    subtasks: int | str
    demand_distribution: Literal["constant", "exponential", "lognormal", "empirical"] | str
    demand_variation: str
    demand_samples: Sequence[str] | str
    lock: str
    write: str
    write_mode: Literal["buffered", "fsync", "throttled"] | str
    idle_write: str
    threads: int | str
    backlog: int | str
    full: Literal["reject", "wait"] | str
    pause: str
    pause_after: str
    active: str
    forwards: int | str
    forward_timeout: str


class ProgramServiceReady(TypedDict, total=False):
    """Keys of a section."""

    port: Required[int | str]
    http: str
    every: str
    timeout: str


class ProgramServiceReady2(TypedDict, total=False):
    """Keys of a section."""

    line: Required[str]
    every: str
    timeout: str


class ProgramServiceReady3(TypedDict, total=False):
    """Keys of a section."""

    argv: Required[Sequence[str]]
    every: str
    timeout: str


ProgramServiceFiles = TypedDict(
    "ProgramServiceFiles",
    {
        "from": "Required[str]",
        "executable": "bool",
    },
    total=False,
)


class ProgramServiceSimulatedAs(TypedDict, total=False):
    """Keys of a section."""

    response: str
    serial_demand: str
    demand: str
    subtasks: int | str
    demand_distribution: Literal["constant", "exponential", "lognormal", "empirical"]
    demand_variation: str
    demand_samples: Sequence[str]
    lock: str
    threads: int | str
    pause: str
    pause_after: str


class ProgramService(TypedDict, total=False):
    """a program of yours, started in each of its guests, that stays in the foreground"""

    kind: Required[Literal["program"]]
    on: Required[str | Sequence[str]]
    needs: str | Sequence[str]
    ready: ProgramServiceReady | ProgramServiceReady2 | ProgramServiceReady3
    argv: Sequence[str] | str
    environment: Mapping[str, str] | str
    user: str | int
    files: Mapping[str, str | ProgramServiceFiles] | str
    simulated_as: ProgramServiceSimulatedAs | str
    cpu: str
    memory: str


class StoreServiceReady(TypedDict, total=False):
    """at which port it listens, and for how long that is waited for"""

    port: int | str
    every: str
    timeout: str


class StoreService(TypedDict, total=False):
    """a distributed store of objects on its guests, asked by objects"""

    kind: Required[Literal["store"]]
    on: Required[str | Sequence[str]]
    needs: str | Sequence[str]
    ready: StoreServiceReady
    copies: int | str
    lookup: Literal["multicast", "ring", "elastic_hash"] | str
    partitions: int | str
    zones: int | str
    written_by: Literal["client", "proxy", "primary"] | str
    proxies: str | Sequence[str]
    write_quorum: int | str
    read_quorum: int | str
    ack: Literal["memory", "disk"] | str
    cache: str
    question: str
    timeout: str
    recovery_streams: int | str
    recovery_rate: str
    scan: str
    scans: int | str
    beat: str
    node_time: str
    node_rate: str
    proxy_time: str
    proxy_rate: str
    silence: str
    transfers: Literal["packets", "fluid", "messages"] | str


class SwiftServiceReady(TypedDict, total=False):
    """at which port it listens, and for how long that is waited for"""

    port: int | str
    every: str
    timeout: str


class SwiftService(TypedDict, total=False):
    """OpenStack Swift, of this machine's packages: nodes and proxies, asked by objects over HTTP"""

    kind: Required[Literal["swift"]]
    on: Required[str | Sequence[str]]
    needs: str | Sequence[str]
    ready: SwiftServiceReady
    proxies: Required[str | Sequence[str]]
    interface: Literal["swift", "s3"] | str
    auth: Literal["none", "tempauth"] | str
    access_key: str
    secret_key: str
    copies: int | str
    part_power: int | str
    zones: int | str
    workers: int | str
    concurrency: int | str
    interval: str
    timeout: str


class GlusterServiceReady(TypedDict, total=False):
    """at which port it listens, and for how long that is waited for"""

    port: int | str
    every: str
    timeout: str


class GlusterService(TypedDict, total=False):
    """GlusterFS, of this machine's packages: a volume of its nodes, mounted in its clients for files"""

    kind: Required[Literal["gluster"]]
    on: Required[str | Sequence[str]]
    needs: str | Sequence[str]
    ready: GlusterServiceReady
    clients: Required[str | Sequence[str]]
    access: Literal["fuse", "nfs"] | str
    copies: int | str


class Brought(TypedDict, total=False):
    """Keys of a section."""

    sha256: Required[str]
    bytes: Required[int]


class StartActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class StartActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class StartAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["start"]]
    id: Required[str]
    after: str | StartActionAfter | StartActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    role: str


class StopActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class StopActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class StopAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["stop"]]
    id: Required[str]
    after: str | StopActionAfter | StopActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    role: str


class RunActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class RunActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class RunAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["run"]]
    id: Required[str]
    after: str | RunActionAfter | RunActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    role: str


class SetActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class SetActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class SetAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["set"]]
    id: Required[str]
    after: str | SetActionAfter | SetActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    role: str
    link: str
    parameter: str
    value: Any


class WaitActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class WaitActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


WaitAction = TypedDict(
    "WaitAction",
    {
        "do": "Required[Literal[\"wait\"]]",
        "id": "Required[str]",
        "after": "str | WaitActionAfter | WaitActionAfter2",
        "timeout": "str",
        "on_timeout": "Literal[\"fail\", \"cancel\", \"censor\"]",
        "for": "str",
        "until": "Mapping[str, Any]",
    },
    total=False,
)


class ExecActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class ExecActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class ExecAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["exec"]]
    id: Required[str]
    after: str | ExecActionAfter | ExecActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    guest: str
    argv: Sequence[str]


class ResetActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class ResetActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


ResetAction = TypedDict(
    "ResetAction",
    {
        "do": "Required[Literal[\"reset\"]]",
        "id": "Required[str]",
        "after": "str | ResetActionAfter | ResetActionAfter2",
        "timeout": "str",
        "on_timeout": "Literal[\"fail\", \"cancel\", \"censor\"]",
        "guest": "str",
        "for": "str",
    },
    total=False,
)


class MigrateActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class MigrateActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class MigrateAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["migrate"]]
    id: Required[str]
    after: str | MigrateActionAfter | MigrateActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    guest: str
    to: str
    mode: Literal["pre_copy", "post_copy", "hot", "cold"] | str
    over: Literal["machine", "network"] | str
    bandwidth: str
    downtime_limit: str
    rounds_limit: int | str
    auto_converge: bool | str
    compression: Literal["xbzrle", "zlib", "zstd"] | str
    connections: int | str
    disk: Literal["shared", "mirrored"] | str
    pool: str
    recover_after: str


class CallActionAfter(TypedDict, total=False):
    """Keys of a section."""

    any: Required[Sequence[str]]


class CallActionAfter2(TypedDict, total=False):
    """Keys of a section."""

    all: Required[Sequence[str]]


class CallAction(TypedDict, total=False):
    """Keys of a section."""

    do: Required[Literal["call"]]
    id: Required[str]
    after: str | CallActionAfter | CallActionAfter2
    timeout: str
    on_timeout: Literal["fail", "cancel", "censor"]
    service: str
    op: str
    args: Mapping[str, Any]


Window = TypedDict(
    "Window",
    {
        "from": "Required[str]",
        "to": "Required[str]",
    },
    total=False,
)


class Until(TypedDict, total=False):
    """The precision at which repetition stops."""

    metric: Required[str]
    relative_interval: Required[str]


class Repeat(TypedDict, total=False):
    """The number of runs of each design point."""

    minimum: int | str
    maximum: int | str
    until: Until | str
    time: str
    confidence: str


class ClaimPublished(TypedDict, total=False):
    """rows of a published table that are shown beside the claim"""

    file: Required[str]
    metric: Required[str]
    where: Mapping[str, Any]
    level_column: str


class Claim(TypedDict, total=False):
    """Keys of a section."""

    id: str
    title: str
    text: Required[str]
    published: ClaimPublished


class Sections(TypedDict, total=False):
    """What an experiment file holds beside its version and its name."""

    title: str
    seed: int
    factors: Mapping[str, Sequence[str | float | bool] | Range | Mapping[str, Any]]
    exclude: Sequence[Mapping[str, Any]]
    hosts: Required[int | Sequence[str] | Mapping[str, Host | str] | str]
    host: Host | str
    topology: Literal["line", "star", "tree", "none", "direct"] | Topology | str
    switches: int | Sequence[str] | Mapping[str, Switch | str] | str
    switch: Switch | str
    routers: int | Sequence[str] | Mapping[str, Router | str] | str
    router: Router | str
    links: Mapping[str, Link | str] | str
    link: Link | str
    network: Network | str
    timing: Timing | str
    collect: Collect | str
    limits: Limits | str
    search: Search | str
    roles: Required[Mapping[str, RttRole | BurstLoadRole | UdpStreamRole | TcpStreamRole | TcpRrRole | HttpGetRole | RequestResponseRole | PspingRole | RawStreamRole | RtTasksRole | DirtyRole | ProgramRole | ObjectsRole | FilesRole | Role | str]]
    services: Mapping[str, DemandServerService | ProgramService | StoreService | SwiftService | GlusterService]
    traces: Mapping[str, str]
    brought: Mapping[str, Brought]
    timeline: Sequence[StartAction | StopAction | RunAction | SetAction | WaitAction | ExecAction | ResetAction | MigrateAction | CallAction]
    windows: Mapping[str, Window]
    repeat: int | Repeat
    claims: Sequence[str | Claim]
