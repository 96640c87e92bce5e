"""The wires: hosts, switches and routers of one design point, and the cables between them.

A shape (`line`, `star`, `tree`, `none`) expands to switches s1, s2, ... (or routers r1, r2, ...) and cables
named after their ends; `links` without a topology give any graph. The broadcast domains are the connected
parts of layer 2; a cycle inside one would let a single frame circle for ever, so it is a mistake. Cycles
through routers are fine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from virtlab.catalogue import PLATFORMS, VSWITCHES, Platform, bounded, write_platform
from virtlab.experiment.read import leaves
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import (
    GuestSpec,
    HostSpec,
    LinkSpec,
    RouterSpec,
    SwitchSpec,
    TopologySpec,
)
from virtlab.experiment.world.boxes import Attachment, Bridge, Cable, Station
from virtlab.experiment.world.disks import check_disks
from virtlab.experiment.world.existing import check_existing, existing_station, refuse_existing
from virtlab.experiment.world.places import (
    bridged,
    bridges_of,
    bridging,
    check_places,
    check_storms,
    platform_of,
    stations_of,
    vswitch_of,
)
from virtlab.experiment.world.pools import check_pools
from virtlab.units import nearest

__all__ = [
    "Attachment",
    "Bridge",
    "Cable",
    "Station",
    "Wiring",
    "check_ends",
    "is_bare",
    "port_name",
    "root",
    "wire",
]


@dataclass(slots=True)
class Wiring:
    """Everything that is wired; maps by name."""

    hosts: dict[str, HostSpec] = field(default_factory=dict)
    switches: dict[str, SwitchSpec] = field(default_factory=dict)
    routers: dict[str, RouterSpec] = field(default_factory=dict)
    cables: dict[str, Cable] = field(default_factory=dict)
    bridges: dict[str, Bridge] = field(default_factory=dict)
    stations: dict[str, Station] = field(default_factory=dict)

    def places(self) -> set[str]:
        """Guests, hosts and their pools, as series and counters call them."""
        pools = {f"pools.{name}.{pool}" for name, host in self.hosts.items() for pool in host.pools or ()}
        return pools | {f"guests.{name}" for name in self.stations} | {f"hosts.{name}" for name in self.hosts}


def wire(
    hosts: Mapping[str, HostSpec],
    topology: TopologySpec | None,
    switches: Mapping[str, SwitchSpec],
    routers: Mapping[str, RouterSpec],
    links: Mapping[str, LinkSpec],
    defaults: tuple[SwitchSpec, RouterSpec, LinkSpec],
    findings: Findings,
) -> Wiring | None:
    """The wiring of one design point, or None when it has mistakes (which are added)."""
    watch = findings.watch()
    wiring = Wiring(dict(hosts), dict(switches), dict(routers))
    if topology is not None:
        ends = _shaped(topology, wiring, defaults, findings)
        cables = _named_cables(ends, links, defaults[2], findings)
    else:
        cables = _explicit_cables(wiring, links, findings)
    if not watch.wrong:
        check_places(wiring.hosts, cables, findings)
    if watch.wrong:
        return None
    _plug(wiring, cables)
    _check_plugged(wiring, findings, shaped=topology is not None)
    _check_hosts(wiring, findings)
    if bridging(wiring.hosts):
        check_storms(wiring.hosts, wiring.cables, findings)
    else:
        _check_loops(wiring, findings)
    if watch.wrong:
        return None
    _populate(wiring)
    return wiring


Ends = tuple[str, str]


def _shaped(
    topology: TopologySpec,
    wiring: Wiring,
    defaults: tuple[SwitchSpec, RouterSpec, LinkSpec],
    findings: Findings,
) -> list[Ends]:
    """Cables of a shape; its switches or routers are added to the wiring where the file does not describe them."""
    hosts = list(wiring.hosts)
    if topology.shape in {"none", "direct"} or topology.switches == 0:
        if len(hosts) > 2:
            what = f"a single cable connects two hosts, not {len(hosts)}"
            findings.add(("topology",), what, "write shape: line, star or tree")
        if topology.switches and "switches" in topology.model_fields_set:
            what = f"a cable between two hosts has no {topology.switches} switches"
            findings.add(("topology", "switches"), what, "write 'switches: 0', or shape: line")
        for host in hosts:
            if wiring.hosts[host].joins is not None:
                findings.add(
                    ("hosts", host, "joins"), "there is no switch to join", "remove 'joins'", key=True
                )
        return [(hosts[0], hosts[1])] if len(hosts) == 2 else []
    letter = "s" if topology.device == "switch" else "r"
    names = [f"{letter}{number}" for number in range(1, topology.switches + 1)]
    for name in names:
        if topology.device == "switch":
            wiring.switches.setdefault(name, defaults[0])
        else:
            wiring.routers.setdefault(name, defaults[1])
    inner, outer = _skeleton(topology, names)
    return _with_hosts(wiring, hosts, names, inner, outer, findings)


def _skeleton(topology: TopologySpec, names: list[str]) -> tuple[list[Ends], list[str]]:
    """Cables between the switches of a shape, and the switches that hosts are spread over."""
    if topology.shape == "line":
        return list(pairwise(names)), names
    if topology.shape == "star":
        return [(names[0], name) for name in names[1:]], names[1:] or names
    parents = {names[n]: names[(n - 1) // topology.branching] for n in range(1, len(names))}
    leaves = [name for name in names if name not in parents.values()]
    return [(parent, child) for child, parent in parents.items()], leaves


def _with_hosts(
    wiring: Wiring,
    hosts: list[str],
    names: list[str],
    inner: list[Ends],
    outer: list[str],
    findings: Findings,
) -> list[Ends]:
    ends: list[Ends] = []
    late: list[Ends] = []
    free = [name for name in hosts if wiring.hosts[name].joins is None]
    places = {}
    for position, host in enumerate(free):
        place = position * (len(outer) - 1) / (len(free) - 1) if len(free) > 1 else 0
        places[host] = outer[int(place + 0.5)]
    for position, host in enumerate(hosts):
        joins = wiring.hosts[host].joins
        if joins is not None and joins not in names:
            cure = nearest(joins, names) or f"it has {', '.join(names)}"
            findings.add(("hosts", host, "joins"), f"the topology has no switch '{joins}'", cure)
            continue
        place_name = joins if joins is not None else places[host]
        if position == 0:
            ends.append((host, place_name))
        else:
            late.append((place_name, host))
    return [*ends, *inner, *late]


def _named_cables(
    ends: list[Ends], links: Mapping[str, LinkSpec], default: LinkSpec, findings: Findings
) -> dict[str, tuple[Ends, LinkSpec]]:
    """Cables of a topology; an entry of `links` with a cable's name says what differs there."""
    cables = {f"{first}-{second}": ((first, second), default) for first, second in ends}
    for name, spec in links.items():
        if spec.ends is not None:
            if name in cables:
                findings.add(
                    ("links", name, "ends"),
                    f"the topology already says where {name} goes",
                    "remove 'ends'",
                    key=True,
                )
            cables[name] = (spec.ends, spec)
        elif name in cables:
            cables[name] = (cables[name][0], spec)
    return cables


def _explicit_cables(
    wiring: Wiring, links: Mapping[str, LinkSpec], findings: Findings
) -> dict[str, tuple[Ends, LinkSpec]]:
    cables: dict[str, tuple[Ends, LinkSpec]] = {}
    for name, spec in links.items():
        if spec.ends is None:
            findings.add(
                ("links", name), "'ends' is missing", "write e.g. 'ends: [h1, s1]', or a topology", key=True
            )
        else:
            cables[name] = (spec.ends, spec)
    for name in wiring.hosts:
        if wiring.hosts[name].joins is not None:
            findings.add(
                ("hosts", name, "joins"),
                "there is no topology to join",
                "write 'ends: [...]' in links",
                key=True,
            )
    return cables


def _plug(wiring: Wiring, cables: Mapping[str, tuple[Ends, LinkSpec]]) -> None:
    """Gives every end of a cable its physical port: `s1.p2` on switches and routers, `h1.up` on hosts."""
    used: dict[str, int] = {}
    for name, (ends, spec) in cables.items():
        ports = []
        boxes = (ends[0].partition(".")[0], ends[1].partition(".")[0])
        for box in boxes:
            used[box] = used.get(box, 0) + 1
            ports.append(port_name(box, used[box], is_host=box in wiring.hosts))
        because = f"links.{name}" if spec.ends is not None else f"topology ({name})"
        at = (vswitch_of(wiring.hosts, ends[0]), vswitch_of(wiring.hosts, ends[1]))
        wiring.cables[name] = Cable(name, boxes, (ports[0], ports[1]), spec, because, at)


def port_name(box: str, number: int, *, is_host: bool) -> str:
    """The name of a physical port.

    >>> port_name("h1", 1, is_host=True), port_name("h1", 2, is_host=True), port_name("s1", 2, is_host=False)
    ('h1.up', 'h1.up2', 's1.p2')
    """
    if is_host:
        return f"{box}.up" if number == 1 else f"{box}.up{number}"
    return f"{box}.p{number}"


def check_ends(
    hosts: Mapping[str, object],
    switches: Mapping[str, object],
    routers: Mapping[str, object],
    links: Mapping[str, LinkSpec],
    extra: list[str],
    findings: Findings,
) -> None:
    """Every end of an explicit link is a box, every box has one meaning."""  # fmt: skip
    named = [
        f"{name}.{own}" for name, host in hosts.items() for own in getattr(host, "vswitches", None) or ()
    ]
    boxes = list(dict.fromkeys([*hosts, *named, *switches, *routers, *extra]))
    for first, section in (("hosts", hosts), ("switches", switches)):
        for name in section:
            others = {"switches": switches, "routers": routers} if first == "hosts" else {"routers": routers}
            for other, names in others.items():
                if name in names:
                    findings.add(
                        (other, name),
                        f"'{name}' is already one of the {first}",
                        "give it another name",
                        key=True,
                    )
    for name, spec in links.items():
        for position, box in enumerate(spec.ends or ()):
            if box not in boxes:
                cure = nearest(box, boxes) or f"there are {', '.join(boxes)}"
                findings.add(
                    ("links", name, "ends", position), f"there is no host, switch or router '{box}'", cure
                )
        if spec.ends is not None and spec.ends[0] == spec.ends[1]:
            findings.add(("links", name, "ends"), "both ends are the same", "connect two different boxes")


def _check_plugged(wiring: Wiring, findings: Findings, *, shaped: bool) -> None:
    """A box without a cable is a slip in an explicit graph; under a topology it is one of another design point."""
    plugged = {box for cable in wiring.cables.values() for box in cable.boxes}
    for section, boxes in (("switches", wiring.switches), ("routers", wiring.routers)):
        for name in [name for name in boxes if name not in plugged]:
            if not shaped:
                cure = f"write a link with 'ends: [..., {name}]', or remove it"
                findings.add((section, name), f"no cable leads to '{name}'", cure, key=True)
            del boxes[name]


def _check_hosts(wiring: Wiring, findings: Findings) -> None:
    plugged: dict[str, int] = {}
    for cable in wiring.cables.values():
        for box in cable.boxes:
            plugged[box] = plugged.get(box, 0) + 1
    for name, host in wiring.hosts.items():
        platform = PLATFORMS[host.platform]
        at: Steps = ("hosts", name)
        if platform.guests_max is not None and len(host.guests) > platform.guests_max:
            what = f"{len(host.guests)} guests on platform {platform.name}, which has {platform.guests_max} per host"
            findings.add((*at, "guests"), what, "write 'guests: 1', or take another platform")
        _check_machines(at, host, findings)
        check_pools(name, host, findings)
        bare = is_bare(wiring, name)
        _check_platforms(at, host, bare, findings)
        if platform.existing:
            check_existing(at, host, plugged.get(name, 0), findings)
            continue
        refuse_existing(at, host, findings)
        if bare and platform.features.own_kernel:
            what = f"guests of platform {platform.name} stand on a virtual switch"
            findings.add((*at, "vswitch"), what, "write 'vswitch: linux_bridge'")
        if bare and platform.vswitch and len(host.guests) > 1:
            what = f"{len(host.guests)} guests without a virtual switch on one port"
            findings.add((*at, "vswitch"), what, "write 'vswitch: linux_bridge', or 'guests: 1'")
        if bare and not plugged.get(name):
            findings.add(
                at,
                f"'{name}' has neither a virtual switch nor a cable",
                "connect it, or give it a virtual switch",
                key=True,
            )
        if not bare and len(host.guests) + plugged.get(name, 0) > VSWITCHES[host.vswitch].ports_max:
            most = VSWITCHES[host.vswitch].ports_max
            what = f"{len(host.guests)} guests and {plugged.get(name, 0)} uplinks exceed the {most} ports of {host.vswitch}"
            findings.add((*at, "guests"), what, "spread the guests over more hosts")


def _check_platforms(at: Steps, host: HostSpec, bare: bool, findings: Findings) -> None:
    """A guest with a platform of its own stands on its host's virtual switch."""
    for name, guest in host.guests.items():
        if guest.platform in {None, host.platform}:
            continue
        where = (*at, "guests", name, "platform")
        if bare:
            what = f"'{name}' is not of its host's platform, {host.platform}, and there is no virtual switch"
            findings.add(where, what, "write 'vswitch: linux_bridge' at its host, or remove it")
        elif not PLATFORMS[str(guest.platform)].vswitch or PLATFORMS[host.platform].existing:
            what = f"platform {guest.platform} is a host without guests"
            findings.add(where, what, "take another platform, or a host of its own")


def _check_machines(at: Steps, host: HostSpec, findings: Findings) -> None:
    """Processors, devices and images are of some platforms only; at a host they are of those guests that can have
    them.
    """
    of_guests = {name: PLATFORMS[platform_of(host, guest)] for name, guest in host.guests.items()}
    all_of_them = list({platform.name: platform for platform in of_guests.values()}.values())
    _check_machine(at, all_of_them or [PLATFORMS[host.platform]], host, findings)
    for name, guest in host.guests.items():
        _check_machine((*at, "guests", name), [of_guests[name]], guest, findings)
    check_disks(at, host, PLATFORMS[host.platform], of_guests, findings)


def takes_image(platform: Platform, image: str) -> bool:
    """Whether a platform's guests can have what an `image` means."""
    return platform.disks if leaves.is_disk(image) else platform.images


def container_images(wiring: Wiring) -> dict[str, str]:
    """The images of containers that have one."""
    found = {
        name: image_of(wiring, station)
        for name, station in wiring.stations.items()
        if PLATFORMS[station.platform].runtimes
    }
    return {name: image for name, image in found.items() if image is not None}


def image_of(wiring: Wiring, station: Station) -> str | None:
    """What is installed here and a guest is made from: a root file system, a recipe, a disk; None where nothing is."""
    host = wiring.hosts.get(station.host)
    named = (station.spec.image, host and host.image)
    platform = PLATFORMS[station.platform]
    return next((name for name in named if name and takes_image(platform, name)), None)


def _check_machine(at: Steps, platforms: list[Platform], spec: GuestSpec, findings: Findings) -> None:
    named = " and ".join(platform.name for platform in platforms)
    if spec.vcpus is not None and not any("vcpus" in platform.limits for platform in platforms):
        what = f"guests of platform {named} share their host's processors"
        findings.add((*at, "vcpus"), what, f"remove it, or {bounded('vcpus')}", key=True)
    if spec.swap is not None and not any("swap" in platform.limits for platform in platforms):
        what = f"guests of platform {named} have no swap limit of their own"
        findings.add((*at, "swap"), what, "remove it, or write 'swap' at their pool", key=True)
    if spec.balloon is not None and not any("balloon" in platform.limits for platform in platforms):
        what = f"guests of platform {named} have no balloon to give memory back by"
        findings.add((*at, "balloon"), what, f"remove it, or {bounded('balloon')}", key=True)
    if spec.image is not None and not any(takes_image(platform, spec.image) for platform in platforms):
        if leaves.is_disk(spec.image):
            what = f"guests of platform {named} boot no disk image"
            cure = f"remove it, or {write_platform(lambda each: each.disks)}"
        else:
            what = f"guests of platform {named} have no root file system of their own to choose"
            cure = f"remove it, or {write_platform(lambda each: each.images)}"
            if any(platform.disks for platform in platforms):
                cure = f"remove it, or name a disk image by its path, e.g. '{spec.image}.qcow2'"
        findings.add((*at, "image"), what, cure, key=True)
    in_container = f"remove it, or {write_platform(lambda each: bool(each.runtimes))}"
    if spec.runtime is not None and not any(platform.runtimes for platform in platforms):
        what = f"guests of platform {named} are run by no container runtime"
        findings.add((*at, "runtime"), what, in_container, key=True)
    if spec.seccomp is not None and not any(platform.runtimes for platform in platforms):
        what = f"system calls of guests of platform {named} are not filtered"
        findings.add((*at, "seccomp"), what, in_container, key=True)
    if spec.user_namespace is not None and not any(platform.runtimes for platform in platforms):
        what = f"guests of platform {named} have no users of their own to choose"
        findings.add((*at, "user_namespace"), what, in_container, key=True)
    if spec.firmware is not None and not any(platform.disks for platform in platforms):
        what = f"guests of platform {named} boot no disk"
        cure = f"remove it, or {write_platform(lambda each: each.disks)}"
        findings.add((*at, "firmware"), what, cure, key=True)
    known = [model for platform in platforms for model in platform.vnic_models]
    if spec.vnic_model is not None and spec.vnic_model not in known:
        what = f"guests of platform {named} see " + (
            ", ".join(known) or "no device but the kernel's own port"
        )
        cure = f"remove it, or {write_platform(lambda each: spec.vnic_model in each.vnic_models)}"
        findings.add((*at, "vnic_model"), what, cure, key=True)


def is_bare(wiring: Wiring, host: str) -> bool:
    """Whether a host's guest stands on the physical port itself, without a virtual switch."""
    spec = wiring.hosts[host]
    return spec.vswitches is None and (spec.vswitch == "none" or not PLATFORMS[spec.platform].vswitch)


def _layer_two(wiring: Wiring, cable: Cable) -> Iterator[str]:
    """The layer-2 vertices at the ends of a cable: a switch, a host's bridge, or a single port."""
    for box, port, vswitch in zip(cable.boxes, cable.ports, cable.vswitches, strict=True):
        through = box in wiring.switches or (box in wiring.hosts and not is_bare(wiring, box))
        yield vswitch or (box if through else port)


def _check_loops(wiring: Wiring, findings: Findings) -> None:
    """Union-find over layer 2: a cable that joins what is joined already closes a loop."""
    above: dict[str, str] = {}
    for cable in wiring.cables.values():
        first, second = (root(above, vertex) for vertex in _layer_two(wiring, cable))
        if first == second:
            at: Steps = ("links", cable.name, "ends") if cable.because.startswith("links.") else ("topology",)
            what = f"{cable.name} closes a loop in which a frame would circle for ever"
            findings.add(at, what, "remove one link of the loop, or put a router into it")
        above[first] = second


def root(above: dict[str, str], vertex: str) -> str:
    """The representative of a vertex; paths are shortened on the way."""
    top = vertex
    while above.get(top, top) != top:
        top = above[top]
    while above.get(vertex, vertex) != top:
        above[vertex], vertex = top, above[vertex]
    return top


def _populate(wiring: Wiring) -> None:
    """Bridges and stations, each vNIC with its domain and the rate of its access link."""
    above: dict[str, str] = {}
    for one, other in bridged(wiring.hosts):
        above[root(above, one)] = root(above, other)
    ports: dict[str, list[tuple[str, Cable]]] = {}
    for cable in wiring.cables.values():
        first, second = (root(above, vertex) for vertex in _layer_two(wiring, cable))
        above[first] = second
        for box, port in zip(cable.boxes, cable.ports, strict=True):
            ports.setdefault(box, []).append((port, cable))
    for name, host in wiring.hosts.items():
        _populate_host(wiring, name, host, ports.get(name, []), above)
    for name, router in wiring.routers.items():
        _populate_router(wiring, name, router, ports.get(name, []), above)


def _populate_host(
    wiring: Wiring, name: str, host: HostSpec, ports: list[tuple[str, Cable]], above: dict[str, str]
) -> None:
    if PLATFORMS[host.platform].existing:
        wiring.stations |= existing_station(name, host)
        return
    if host.vswitches is not None:
        wiring.bridges |= bridges_of(name, host, ports)
        wiring.stations |= stations_of(name, host, ports, lambda vswitch: root(above, vswitch))
        return
    rate = min((cable.spec.rate for _, cable in ports), default=None)
    bare = is_bare(wiring, name)
    if not bare:
        uplinks = tuple(port for port, _ in ports)
        wiring.bridges[f"{name}.br"] = Bridge(host.vswitch, name, uplinks, f"hosts.{name}.vswitch")
    for guest, spec in host.guests.items():
        vnics = {}
        if bare:
            for number, (port, cable) in enumerate(ports):
                vnics[f"eth{number}"] = Attachment(None, port, root(above, port), cable.spec.rate)
        else:
            vnics["eth0"] = Attachment(f"{name}.br", None, root(above, name), rate)
        full = f"{name}.{guest}"
        wiring.stations[full] = Station(
            full,
            name,
            platform_of(host, spec),
            vnics,
            spec,
            forwards=False,
            because=f"hosts.{name}.guests.{guest}",
        )


def _populate_router(
    wiring: Wiring, name: str, router: RouterSpec, ports: list[tuple[str, Cable]], above: dict[str, str]
) -> None:
    bare = not PLATFORMS[router.platform].vswitch or router.vswitch == "none"
    vnics = {}
    because = f"routers.{name}"
    for number, (port, cable) in enumerate(ports):
        domain = root(above, port)
        if bare:
            vnics[f"eth{number}"] = Attachment(None, port, domain, cable.spec.rate)
        else:
            bridge = f"{name}.br{number + 1}"
            wiring.bridges[bridge] = Bridge(router.vswitch, name, (port,), because)
            vnics[f"eth{number}"] = Attachment(bridge, None, domain, cable.spec.rate)
    spec = GuestSpec.model_construct(
        cpu=router.cpu, memory=router.memory, image=router.image, vnic_model=router.vnic_model,
        runtime=router.runtime, seccomp=router.seccomp, user_namespace=router.user_namespace,
        firmware=router.firmware,
    )  # fmt: skip
    wiring.stations[name] = Station(name, name, router.platform, vnics, spec, forwards=True, because=because)
