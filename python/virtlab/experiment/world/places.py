"""Hosts with several virtual switches: who stands where, who is isolated, and that no frame circles.

Every virtual switch is a broadcast domain of its own, unless a guest that forwards frames (`forwarding: layer2`) joins
two. Several such guests side by side close loops; isolation opens them, as a frame that came from one of them is handed
to none of the others. Whether that is enough is decided by the graph, not by the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import HostSpec, LinkSpec, PlacedGuestSpec, VswitchSpec
from virtlab.experiment.world.boxes import Attachment, Bridge, Cable, Station
from virtlab.experiment.world.storms import Port, storm
from virtlab.units import nearest

Hosts = Mapping[str, HostSpec]
Plugged = Sequence[tuple[str, Cable]]  # physical ports of a host, with the cables in them


def platform_of(host: HostSpec, guest: PlacedGuestSpec) -> str:
    """How a guest exists: as it says, else as its host does."""
    return guest.platform or host.platform


def vswitch_of(hosts: Hosts, end: str) -> str | None:
    """The virtual switch that the end of a link means, where its host names them."""
    host, dot, own = end.partition(".")
    named = hosts[host].vswitches if host in hosts else None
    if named is None:
        return None
    return f"{host}.{own if dot else next(iter(named))}"


def stands_on(host: HostSpec, guest: PlacedGuestSpec) -> list[str]:
    """The virtual switches of a guest; the first of its host when it says none."""
    return guest.vswitches if guest.vswitches is not None else list(host.vswitches or ())[:1]


def check_places(
    hosts: Hosts, cables: Mapping[str, tuple[tuple[str, str], LinkSpec]], findings: Findings
) -> None:
    """Adds every mistake about virtual switches that a host names, and about guests that forward."""
    for name, host in hosts.items():
        at: Steps = ("hosts", name)
        if host.vswitches is None:
            for guest, spec in host.guests.items():
                if spec.forwarding != "none" or spec.vswitches is not None or spec.isolate is not None:
                    what = f"'{guest}' needs virtual switches by name"
                    cure = "write e.g. 'vswitches: [br0, br1]' at its host"
                    findings.add((*at, "guests", guest), what, cure)
            continue
        if not PLATFORMS[host.platform].vswitch:
            what = f"platform {host.platform} has no virtual switch"
            findings.add((*at, "vswitches"), what, "remove 'vswitches', or take another platform", key=True)
        for own, entry in host.vswitches.items():
            if (entry.kind or host.vswitch) == "none":
                findings.add(
                    (*at, "vswitches", own), "a virtual switch of no kind", "write 'kind: linux_bridge'"
                )
            else:
                _check_ports(name, own, host, entry.kind or host.vswitch, cables, findings)
                _check_entries((*at, "vswitches", own), entry, entry.kind or host.vswitch, findings)
        for guest, spec in host.guests.items():
            _check_guest((*at, "guests", guest), guest, host, spec, findings)
    for name, (ends, _) in cables.items():
        for position, end in enumerate(ends):
            several = end in hosts and len(hosts[end].vswitches or ()) > 1
            if several:
                cure = f"write e.g. '{end}.{next(iter(hosts[end].vswitches or ()))}' in 'ends' of a link"
                where: Steps = ("links", name, "ends", position)
                findings.add(where, f"'{end}' has several virtual switches", cure)


def _check_ports(
    name: str, own: str, host: HostSpec, kind: str, cables: Mapping[str, tuple[tuple[str, str], LinkSpec]],
    findings: Findings,
) -> None:  # fmt: skip
    guests = sum(own in stands_on(host, guest) for guest in host.guests.values())
    uplinks = sum(f"{name}.{own}" in ends for ends, _ in cables.values())
    most = VSWITCHES[kind].ports_max
    if guests + uplinks > most:
        what = f"{guests} guests and {uplinks} uplinks exceed the {most} ports of {kind}"
        findings.add(("hosts", name, "vswitches", own), what, "spread the guests over more hosts")


def _check_entries(at: Steps, entry: VswitchSpec, kind: str, findings: Findings) -> None:
    if entry.flow_entries == "shared" or not VSWITCHES[kind].unknown({"flow_entries": entry.flow_entries}):
        return
    able = " or ".join(f"'kind: {name}'" for name, each in VSWITCHES.items() if each.parameters)
    what = f"{kind} forwards by address and knows no entries of flows"
    findings.add((*at, "flow_entries"), what, f"remove it, or write {able}", key=True)


def _check_guest(at: Steps, name: str, host: HostSpec, spec: PlacedGuestSpec, findings: Findings) -> None:
    known = list(host.vswitches or ())
    places = stands_on(host, spec)
    for own in places:
        if own not in known:
            cure = nearest(own, known) or f"there are {', '.join(known)}"
            findings.add((*at, "vswitches"), f"its host has no virtual switch '{own}'", cure)
    if not places or len(set(places)) != len(places):
        findings.add(
            (*at, "vswitches"), f"'{name}' stands nowhere, or twice", "name each virtual switch once"
        )
    if spec.forwarding != "none" and len(places) < 2:
        what = f"'{name}' has nothing to forward between"
        findings.add((*at, "forwarding"), what, "write e.g. 'vswitches: [br0, br1]'")
    if spec.forwarding == "layer2":
        if len(places) > 2:
            what = f"'{name}' forwards frames between {len(places)} virtual switches"
            findings.add((*at, "forwarding"), what, "name two, or write 'forwarding: layer3'")
        for key in ("ipv4", "ipv6"):
            if getattr(spec, key) is not None:
                what = f"'{name}' forwards frames and has no IP address"
                findings.add((*at, key), what, "remove it, or write 'forwarding: layer3'", key=True)


def bridging(hosts: Hosts) -> bool:
    """Whether some guest forwards frames."""
    return next(bridged(hosts), None) is not None


def bridged(hosts: Hosts) -> Iterator[tuple[str, str]]:
    """Pairs of virtual switches that guests join into one broadcast domain."""
    for name, host in hosts.items():
        for guest in host.guests.values():
            if guest.forwarding == "layer2":
                one, other = stands_on(host, guest)
                yield f"{name}.{one}", f"{name}.{other}"


def isolated(host: HostSpec, guest: PlacedGuestSpec, own: str) -> bool:
    """Whether a guest's port of a virtual switch is isolated."""
    return guest.isolate if guest.isolate is not None else (host.vswitches or {})[own].isolate


def check_storms(hosts: Hosts, cables: Mapping[str, Cable], findings: Findings) -> None:
    """Adds the mistake of a way on which a frame would circle."""
    boxes: dict[str, dict[str, bool]] = {}
    wires: list[tuple[Port[str], Port[str]]] = []
    for name, host in hosts.items():
        for guest, spec in host.guests.items():
            for own in stands_on(host, spec) if host.vswitches is not None else ():
                port = f"{guest}/{own}"
                boxes.setdefault(f"{name}.{own}", {})[port] = isolated(host, spec, own)
                if spec.forwarding == "layer2":
                    boxes.setdefault(f"guest {name}.{guest}", {})[own] = False
                    wires.append(((f"{name}.{own}", port), (f"guest {name}.{guest}", own)))
    for cable in cables.values():
        ends: list[Port[str]] = []
        for box, port, vswitch in zip(cable.boxes, cable.ports, cable.vswitches, strict=True):
            at = vswitch or box
            boxes.setdefault(at, {})[port] = False
            ends.append((at, port))
        wires.append((ends[0], ends[1]))
    way = storm(boxes, wires)
    if way:
        through = ", ".join(box.removeprefix("guest ") for box in way)
        name = next(box.partition(".")[0] for box in way if box in boxes and not box.startswith("guest "))
        cure = "write 'isolate: true' at both virtual switches, or 'forwarding: layer3'"
        findings.add(("hosts", name), f"a frame would circle for ever through {through}", cure)


def bridges_of(name: str, host: HostSpec, ports: Plugged) -> dict[str, Bridge]:
    """The virtual switches that a host names."""
    found = {}
    for own, entry in (host.vswitches or {}).items():
        full = f"{name}.{own}"
        uplinks = tuple(port for port, cable in ports if _end_of(cable, port) == full)
        because = f"hosts.{name}.vswitches.{own}"
        parameters = {} if entry.flow_entries == "shared" else {"flow_entries": entry.flow_entries}
        found[full] = Bridge(
            entry.kind or host.vswitch, name, uplinks, because, entry.learning, entry.flooding, parameters
        )
    return found


def _end_of(cable: Cable, port: str) -> str | None:
    return cable.vswitches[cable.ports.index(port)]


def stations_of(
    name: str, host: HostSpec, ports: Plugged, domain: Callable[[str], str]
) -> dict[str, Station]:
    """The guests of a host that names its virtual switches: eth0, eth1, ... in the order that they name them."""
    found = {}
    for guest, spec in host.guests.items():
        vnics = {}
        for number, own in enumerate(stands_on(host, spec)):
            full = f"{name}.{own}"
            rates = [cable.spec.rate for port, cable in ports if _end_of(cable, port) == full]
            rate = min(rates, default=None)
            vnics[f"eth{number}"] = Attachment(full, None, domain(full), rate, isolated(host, spec, own))
        station = f"{name}.{guest}"
        found[station] = Station(
            station, name, platform_of(host, spec), vnics, spec, forwards=spec.forwarding == "layer3",
            because=f"hosts.{name}.guests.{guest}", bridges=spec.forwarding == "layer2",
        )  # fmt: skip
    return found
