"""The sections of an experiment file, typed: what each key holds after its unit is read.

A section in the singular (`host`, `switch`, `router`, `link`) gives the defaults of all objects of its kind;
the same word in the plural names the objects. Every description here is shown by editors that read the
published JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from virtlab.catalogue import DEFAULT_PLATFORM, DEFAULT_ROUTER, DEFAULT_VSWITCH
from virtlab.catalogue.collected import HOST_CPU, LINK_COUNTERS, SOFTNET_COUNTERS, VNIC_COUNTERS
from virtlab.catalogue.kinds import shown
from virtlab.experiment.read import leaves
from virtlab.experiment.read.leaves import object_name
from virtlab.units.ethernet import MTU_BYTES

GUESTS_MAX = 4096


class Part(BaseModel):
    """Frozen; an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, populate_by_name=True)


class DiskSpec(Part):
    """A disk of a guest beside what it boots, empty at the begin of a run."""

    size: leaves.PositiveBytes = Field(
        description="how much it holds, in whole sectors of 512 B; of a namespace or container in whole pages of 4 KiB"
    )
    medium: leaves.Medium = Field(
        "memory",
        description="where the testbed keeps what is written: in memory, or in a file of the run's own folder; service: a "
        "store keeps it, on either backend",
    )
    service: str | None = Field(
        None, description="of medium: service, the service of kind store that keeps its blocks"
    )
    block: leaves.PositiveBytes | None = Field(
        None, description="of medium: service, length of its blocks, 64 KiB to 4 MiB; absent: 64 KiB"
    )
    write_cache: leaves.Bytes = Field(
        0,
        description="a write that fits into it is complete at once, and kept later; absent: it has no cache",
    )
    rate: leaves.ByteRate | None = Field(
        None, description="at which its medium takes and gives bytes; absent: as fast as it is asked"
    )
    latency: leaves.Time = Field(
        0, description="from the end of a request at its medium until it is done, beside others"
    )

    @property
    def said(self) -> list[str]:
        """The keys whose value is not what it is if absent."""
        fields = type(self).model_fields.items()
        return [name for name, field in fields if getattr(self, name) != field.default]


class GuestSpec(Part):
    """A guest. What it does not say, its host says."""

    cpu: leaves.Share | None = Field(None, description="share of one CPU that it may use, e.g. '50 %'")
    memory: leaves.PositiveBytes | None = Field(None, description="memory that it may use, e.g. '512 MiB'")
    swap: leaves.PositiveBytes | None = Field(
        None,
        description="how much more than its memory it may have, on the machine's swap; absent: nothing; by root alone",
    )
    balloon: leaves.PositiveBytes | None = Field(
        None,
        description="how much of its memory a virtual machine gives back before the run; absent: nothing",
    )
    image: leaves.ImageName | None = Field(
        None,
        description="root file system of a container, by its name in `virtlab image list`; recipe of an appliance; "
        "disk image of a virtual machine, by its path (.qcow2, .raw, .img)",
    )
    runtime: leaves.Runtime | None = Field(
        None, description="what runs a container: runc, crun, podman; absent: runc, else crun"
    )
    seccomp: leaves.Seccomp | None = Field(
        None, description="filter of a container's system calls: default, none; absent: default"
    )
    user_namespace: leaves.UserNamespace | None = Field(
        None, description="users of a container that root runs: none, those of the machine; own; absent: none"
    )
    firmware: leaves.Firmware | None = Field(
        None, description="what starts the boot loader of a virtual machine's disk: bios, uefi; absent: bios"
    )
    vcpus: leaves.Count | None = Field(None, description="virtual processors of a virtual machine; absent: 1")
    disk: DiskSpec | None = Field(None, description="a disk of its own, e.g. {size: 64 MiB}; absent: none")
    vnic_model: leaves.VnicModel | None = Field(
        None, description="device that a virtual machine sees: virtio, e1000, e1000e"
    )
    idle: leaves.Idle | None = Field(None, description="receivers sleep until a packet comes, or poll for it")
    offloads: leaves.Offloads | None = Field(
        None, description="segmentation and checksum offloads of its vNIC"
    )
    mtu: leaves.Mtu | None = Field(None, description="MTU of its vNIC; the network's when absent")
    ipv4: leaves.Address4 | None = Field(
        None, description="address with prefix length instead of an automatic one"
    )
    ipv6: leaves.Address6 | None = Field(
        None, description="address with prefix length instead of an automatic one"
    )
    mac: leaves.Mac | None = Field(None, description="MAC address 02:... instead of an automatic one")


class PlacedGuestSpec(GuestSpec):
    """A guest of a host: its platform, its virtual switches, and whether it forwards."""

    platform: leaves.Platform | None = Field(
        None, description="how it exists, where that is not as its host says: machines beside namespaces"
    )
    vswitches: list[leaves.ObjectName] | None = Field(
        None, description="virtual switches of its host that it stands on, a vNIC each; absent: the first"
    )
    forwarding: leaves.Forwarding = Field(
        "none", description="between its vNICs: layer3 (IP, static routes), layer2 (a bridge inside), or none"
    )
    isolate: leaves.Flag | None = Field(None, description="instead of what its virtual switches say")
    pool: leaves.ObjectName | None = Field(
        None,
        description="pool of its host's processors that it is in, or none; absent: the only one, if there is one",
    )
    weight: leaves.Weight | None = Field(
        None,
        description="what it gets of its pool, against the others in it, while all want more; absent: 100, where another "
        "has one",
    )
    count: leaves.Count | None = Field(None, description="so many guests of this kind: NAME1, NAME2, ...")


class VswitchSpec(Part):
    """One of several virtual switches of a host."""

    kind: leaves.VswitchKind | None = Field(None, description="its kind; absent: the host's 'vswitch'")
    isolate: leaves.Flag = Field(
        default=False,
        description="guests on it reach its uplinks and guests with 'isolate: false', never each other",
    )
    learning: leaves.Flag = Field(default=True, description="source addresses become forwarding entries")
    flooding: leaves.Flag = Field(
        default=True, description="frames to unknown addresses, to groups and to all leave through every port"
    )
    flow_entries: leaves.FlowEntries = Field(
        "shared",
        description="of an Open vSwitch's datapath: shared by all flows to an address, or each flow's own, so that its "
        "first packet goes up to the rules",
    )


class PoolSpec(Part):
    """Processors of a host that the guests in it share."""

    cpus: leaves.Count = Field(description="how many processors its guests share")
    by: leaves.PoolBy = Field(
        "affinity",
        description="affinity: they run on so many processors and no others; quota: on all of the host's, for so much time",
    )
    memory: leaves.PositiveBytes | None = Field(
        None, description="memory that its guests share, e.g. '512 MiB'; by root alone"
    )
    swap: leaves.PositiveBytes | None = Field(
        None,
        description="how much more than its memory they may have together, on the machine's swap; absent: nothing",
    )


def _pools(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' names no pool; write e.g. {{cores: {{cpus: 2}}}}")
    return {object_name(name): entry for name, entry in value.items()}


def _vswitches(value: Any) -> Any:
    if isinstance(value, list):
        return _named_once(value, "virtual switch")
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"'{shown(value)}' names no virtual switch; write e.g. [br0, br1], or a mapping of names"
        )
    return {object_name(name): {} if entry is None else entry for name, entry in value.items()}


def _guests(value: Any) -> Any:
    """Guests as a mapping of names; a count gives g1, g2, ..."""
    if isinstance(value, bool):
        raise ValueError(f"'{shown(value)}' is not a number of guests; write e.g. 2, or [web, database]")
    if isinstance(value, int):
        if not 1 <= value <= GUESTS_MAX:
            raise ValueError(f"{value} guests on a host are not possible; write between 1 and {GUESTS_MAX}")
        return {f"g{number}": {} for number in range(1, value + 1)}
    if isinstance(value, list):
        return _named_once(value, "guest")
    if isinstance(value, dict):
        if not value:
            raise ValueError("a host without guests takes part in nothing; write e.g. 1")
        return _counted_out(value)
    raise ValueError(
        f"'{shown(value)}' does not name guests; write their number, names [web, database], or a mapping"
    )


def _counted_out(guests: dict[Any, Any]) -> dict[str, Any]:
    """Entries with a count as so many guests; names that clash are a mistake."""
    found: dict[str, Any] = {}
    for name, guest in guests.items():
        own = dict(guest) if isinstance(guest, dict) else guest or {}
        count = own.pop("count", None) if isinstance(own, dict) else None
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= GUESTS_MAX
        ):
            raise ValueError(f"'{shown(count)}' is not a number of guests; write 'count: 12'")
        for number in range(1, (count or 1) + 1):
            if len(found) >= GUESTS_MAX:
                raise ValueError(f"more than {GUESTS_MAX} guests on a host are not possible; write fewer")
            full = object_name(name if count is None else f"{name}{number}")
            if full in found:
                raise ValueError(f"'{full}' is named twice; give every guest its own name")
            found[full] = own
    return found


def _named_once(names: list[Any], noun: str) -> dict[str, Any]:
    if not names:
        raise ValueError(f"an empty list names no {noun}; write at least one name")
    for name in names:
        object_name(name)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{twice}' is named twice; give every {noun} its own name")
    return {name: {} for name in names}


def _numbered(letter: str, noun: str, most: int) -> BeforeValidator:
    """Objects as a mapping of names; a count gives LETTER1, LETTER2, ..."""

    def normal(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= most:
                raise ValueError(f"{value} {noun} are not possible; write between 1 and {most}")
            return {f"{letter}{number}": {} for number in range(1, value + 1)}
        if isinstance(value, list):
            return _named_once(value, noun.rstrip("s"))
        if not isinstance(value, dict) or not value:
            raise ValueError(
                f"'{shown(value)}' names no {noun}; write their number, a list of names, or a mapping"
            )
        return {object_name(name): {} if entry is None else entry for name, entry in value.items()}

    return BeforeValidator(normal)


class HostSpec(GuestSpec):
    """A machine that runs guests, with one virtual switch for them."""

    guests: Annotated[dict[str, PlacedGuestSpec], BeforeValidator(_guests)] = Field(
        default={"g1": PlacedGuestSpec.model_construct()},
        description="how many guests, their names, or names with properties",
    )
    platform: leaves.Platform = Field(DEFAULT_PLATFORM, description="how its guests exist")
    vswitch: leaves.VswitchKind = Field(DEFAULT_VSWITCH, description="the virtual switch inside, or none")
    vswitches: Annotated[dict[str, VswitchSpec], BeforeValidator(_vswitches)] | None = Field(
        None, description="several virtual switches by name instead of one; links end at HOST.VSWITCH"
    )
    cpus: leaves.Count | None = Field(
        None, description="processors of its own; absent: it shares the machine's with all other such hosts"
    )
    pools: Annotated[dict[str, PoolSpec], BeforeValidator(_pools)] | None = Field(
        None, description="processors that guests in a pool share, by name: {cores: {cpus: 2}}"
    )
    joins: leaves.ObjectName | None = Field(
        None, description="the switch or router that a topology wires it to"
    )
    address: leaves.Destination | None = Field(
        None, description="how ssh calls a host that exists already: a name, USER@NAME, ssh://USER@NAME:PORT"
    )
    interface: leaves.Interface | None = Field(
        None, description="interface of an existing host; absent: the one whose address ssh reached"
    )
    network: leaves.Network = Field(
        "own", description="of an existing host: own (its interface as it is), or vxlan (a VXLAN over that)"
    )
    domain: leaves.Text | None = Field(None, description="libvirt's name of the domain that is the host")
    hypervisor: leaves.Text | None = Field(
        None,
        description="libvirt's local daemon (qemu:///session), or a name of your own settings; absent: qemu:///system",
    )
    queue: Any = Field(
        None, description="the queue at the ports of its virtual switches that 'queue_at' names"
    )
    queue_at: leaves.QueueAt = Field(
        "guest",
        description="guest: at ports towards guests; uplink: towards the wire, instead of the link's queue; both; none",
    )
    port_rate: leaves.Rate | None = Field(
        None, description="rate of ports towards guests; absent: as fast as a guest takes frames"
    )
    pushback: leaves.Pushback | None = Field(
        None,
        description="where frames wait for the wire: uplink: in one queue that its guests share; guest: each guest's at "
        "its own vNIC; none: only in the link's queue; absent: uplink where guests are behind a virtual switch that can",
    )


class TopologySpec(Part):
    """A shape made of switches (or routers) that wires all hosts."""

    shape: leaves.Shape = Field(
        "line", description="line, star or tree of switches; none: a cable between two hosts"
    )
    switches: leaves.Switches = Field(1, description="number of switches")
    branching: leaves.Count = Field(2, description="children of each switch of a tree")
    device: leaves.Device = Field("switch", description="what stands at each place: a switch, or a router")


def _topology(value: Any) -> Any:
    return {"shape": value} if isinstance(value, str) or value is None else value


class SwitchSpec(Part):
    """A physical store-and-forward switch."""

    processing: leaves.Time = Field(
        0, description="time it takes for a frame besides receiving and sending it"
    )


class RouterSpec(Part):
    """A machine that forwards between its ports, each port in a subnet of its own."""

    platform: leaves.Platform = Field(
        DEFAULT_ROUTER, description="native: the machine itself forwards; else a guest on it"
    )
    vswitch: leaves.VswitchKind = Field(
        DEFAULT_VSWITCH, description="between a guest router's ports and its machine's"
    )
    cpu: leaves.Share | None = Field(None, description="share of one CPU that it may use")
    memory: leaves.PositiveBytes | None = Field(None, description="memory that it may use")
    image: leaves.ImageName | None = Field(
        None, description="recipe of an appliance, by name; disk image of a virtual machine, by its path"
    )
    runtime: leaves.Runtime | None = Field(None, description="what runs a container: runc, crun, podman")
    seccomp: leaves.Seccomp | None = Field(
        None, description="filter of a container's system calls: default, none"
    )
    user_namespace: leaves.UserNamespace | None = Field(
        None, description="users of a container that root runs: none, own"
    )
    firmware: leaves.Firmware | None = Field(
        None, description="what starts the boot loader of a virtual machine's disk: bios, uefi"
    )
    vnic_model: leaves.VnicModel | None = Field(
        None, description="device that a virtual machine sees at each port"
    )
    routing: leaves.Routing = Field(
        "static", description="static: routes computed beforehand; ospf: FRRouting finds them"
    )
    licence: leaves.Rate | None = Field(
        None, description="most that it sends out of each of its ports, e.g. '2.5 Mbit/s'; absent: no limit"
    )
    pin: leaves.Pin = Field(
        "none",
        description="processor that it forwards on: none: its senders'; one: the same for all; spread: each another in turn",
    )


class LinkSpec(Part):
    """A full-duplex cable between two ports."""

    ends: tuple[leaves.LinkEnd, leaves.LinkEnd] | None = Field(
        None,
        description="the two hosts, switches or routers that it connects; absent: a link of the topology",
    )
    rate: leaves.Rate = Field(10**9, description="rate in each direction, e.g. '100 Mbit/s'")
    propagation: leaves.Time = Field(0, description="time a bit takes from end to end")
    realise: leaves.Realise = Field("auto", description="how the testbed makes it real")
    queue: Any = Field(None, description="the queue in front of each direction")
    queue_back: Any = Field(
        None, description="the queue in front of the second end's direction, when it differs"
    )


class NetworkSpec(Part):
    """Settings of the whole network."""

    ipv4: leaves.Pool4 = Field("10.0.0.0/16", description="pool of IPv4 addresses, or none")
    ipv6: leaves.Pool6 = Field("none", description="pool of IPv6 addresses, or none")
    mtu: leaves.Mtu = Field(MTU_BYTES, description="MTU of every vNIC")
    arp: leaves.Arp = Field(
        "static", description="static: permanent neighbours; live: the kernel's own resolution"
    )
    offloads: leaves.Offloads = Field("off", description="segmentation and checksum offloads of every vNIC")
    ipv6_noise: leaves.Flag = Field(default=False, description="let the kernel send its own IPv6 packets")
    spin: leaves.Spin = Field("auto", description="may the soft switch spin before a departure?")


class TimingSpec(Part):
    """When things happen, where no timeline says it."""

    warmup: leaves.Time = Field(
        500_000_000, description="from the start of the loads to the first measurement"
    )
    pause: leaves.Time = Field(100_000_000, description="between one measurement and the next")
    drain: leaves.Time = Field(200_000_000, description="from the end of the loads to the end of the run")
    together: leaves.Flag = Field(
        default=False, description="run all measuring roles at once, not one after another"
    )


class CollectSpec(Part):
    """The data that a run keeps."""

    packets: list[leaves.ObjectName] | None = Field(
        None, description="roles whose samples are kept; absent: all"
    )
    series: dict[str, leaves.PositiveTime] = Field(
        {HOST_CPU.name: 100_000_000}, description="series, and how often"
    )
    telemetry: leaves.PeriodOrOff = Field(
        1_000_000_000,
        description="how often processors, memory and disks are sampled where series does not say, or off",
    )
    counters: list[leaves.Text] = Field(
        [VNIC_COUNTERS.name, LINK_COUNTERS.name, SOFTNET_COUNTERS.name],
        description="counters read at both ends",
    )


class LimitsSpec(Part):
    """Bounds of one run."""

    run: leaves.PositiveTime | None = Field(
        None, description="longest time of a run; absent: from the timeline"
    )
    disk: leaves.PositiveBytes | None = Field(
        None,
        description="most bytes of samples and artefacts that a run may keep; one that has more failed, without them",
    )


class UntilSpec(Part):
    """The precision at which repetition stops."""

    metric: leaves.Text = Field(description="'ROLE.METRIC.STATISTIC', e.g. 'probe.rtt.mean'")
    relative_interval: leaves.ProperShare = Field(
        description="half the width of the interval, relative to the value"
    )


class RepeatSpec(Part):
    """The number of runs of each design point."""

    minimum: leaves.Count = Field(3, description="runs of every point")
    maximum: leaves.Count | None = Field(
        None, description="most runs of a point; absent: the minimum, or 30 with 'until'"
    )
    until: UntilSpec | None = Field(None, description="repeat until the interval is as narrow as this")
    time: leaves.PositiveTime | None = Field(None, description="begin no further run after this time")
    confidence: leaves.ProperShare = Field(0.95, description="confidence level of intervals and verdicts")


Hosts = Annotated[dict[str, HostSpec], _numbered("h", "hosts", 4096)]
Switches = Annotated[dict[str, SwitchSpec], _numbered("s", "switches", 1024)]
Routers = Annotated[dict[str, RouterSpec], _numbered("r", "routers", 1024)]
Links = dict[leaves.ObjectName, LinkSpec]
Topology = Annotated[TopologySpec, BeforeValidator(_topology)]
SECTIONS: dict[str, Any] = {  # beside 'search', which few files have
    "hosts": Hosts,
    "host": HostSpec,
    "topology": Topology,
    "switches": Switches,
    "switch": SwitchSpec,
    "routers": Routers,
    "router": RouterSpec,
    "links": Links,
    "link": LinkSpec,
    "network": NetworkSpec,
    "timing": TimingSpec,
    "collect": CollectSpec,
    "limits": LimitsSpec,
}
