"""Roles against the network: do their guests exist, can they reach each other, do their packets fit?"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue import PLATFORMS, below_ip
from virtlab.catalogue.costs import SIMULATED_AS
from virtlab.catalogue.references import ROLE_ENDS
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.model import NetworkSpec
from virtlab.experiment.work.references import check_references
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.services import ServiceSpec
from virtlab.experiment.world.topology import Wiring, container_images, root
from virtlab.units import nearest
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES


def check_roles(
    wiring: Wiring,
    network: NetworkSpec,
    roles: Mapping[str, RoleSpec],
    services: Mapping[str, ServiceSpec],
    findings: Findings,
) -> None:
    """Adds every mistake of roles that the network decides."""
    joined = _joined(wiring)
    for name, role in roles.items():
        known = True
        ends_named = (("from", role.source), ("to", role.target))
        for key, guest in ends_named if role.target else ends_named[:1]:
            if guest not in wiring.stations:
                known = False
                stations = list(wiring.stations)
                listed = f"there are {', '.join(stations[:8])}{', ...' if len(stations) > 8 else ''}"
                cure = nearest(guest, stations) or listed
                findings.add(("roles", name, key), f"there is no guest '{guest}'", cure)
        if not known:
            continue
        if not role.target:
            _check_outside(name, role, wiring, findings)
            continue
        if role.source == role.target:
            findings.add(("roles", name, "to"), f"'{role.target}' would talk to itself", "name another guest")
            continue
        if role.declaration.command:
            at = ("roles", name, "argv")
            ports = [(each.name, each.has_port) for each in services.values()]
            check_references(at, role.parameters.get("argv", ()), ROLE_ENDS, wiring.stations, ports, findings)
            if "argv" not in role.parameters and role.source not in container_images(wiring):
                cure = "write it, e.g. [ping, -c, '10', '{to}'], or let 'from' be a container with an 'image' that says it"
                findings.add(("roles", name), "'argv' of program is missing", cure, key=True)
            _check_cost(name, role, services, findings)
            for key, entry in (role.parameters.get("metrics") or {}).items():
                asked = [str(entry["http"])] if "http" in entry else []
                whole = ("roles", name, "metrics", key)
                check_references(whole, asked, ROLE_ENDS, wiring.stations, ports, findings, key="http")
        ends = [wiring.stations[guest] for guest in (role.source, role.target)]
        domains = [{attachment.domain for attachment in end.vnics.values()} for end in ends]
        if not {root(joined, domain) for domain in domains[0]} & {
            root(joined, domain) for domain in domains[1]
        }:
            what = f"there is no way from {role.source} to {role.target}"
            cure = "write a topology ('topology: line') or links between their hosts"
            if any(PLATFORMS[end.platform].existing for end in ends):
                cure = "let both be hosts that exist already, on the same 'network', or neither"
            findings.add(("roles", name, "to"), what, cure)
        elif role.parameters.get("via"):
            _check_forwarders(name, role, wiring, findings)
        elif below_ip(role.workload) and not domains[0] & domains[1]:
            what = f"layer-2 frames do not pass the router between {role.source} and {role.target}"
            cure = "take udp_stream, guests in one subnet, or name the router in 'via'"
            findings.add(("roles", name, "workload"), what, cure)
        _check_family(name, role, network, findings)
        _check_frame(name, role, network, findings)


def _check_cost(name: str, role: RoleSpec, services: Mapping[str, ServiceSpec], findings: Findings) -> None:
    """The service that a program's client asks in the simulator is there, in the guest at which the role ends."""
    asked = (role.parameters.get(SIMULATED_AS) or {}).get("service")
    if asked is None:
        return
    at = ("roles", name, SIMULATED_AS, "service")
    if asked not in services:
        if not findings.declares("services", asked):
            known = list(services)
            listed = f"there are {', '.join(known)}" if known else "declare it in 'services'"
            findings.add(at, f"there is no service '{asked}'", nearest(asked, known) or listed)
    elif role.target not in services[asked].on:
        where = " or ".join(services[asked].on)
        findings.add(at, f"'{asked}' is not on {role.target}, at which the role ends", f"let 'to' be {where}")
    elif services[asked].active not in (None, role.target):
        what = f"the active server of '{asked}' is on {services[asked].active}"
        findings.add(at, what, f"let 'to' be {services[asked].active}")


def _check_outside(name: str, role: RoleSpec, wiring: Wiring, findings: Findings) -> None:
    """Only a guest that is a host already reaches what is outside."""
    platform = wiring.stations[role.source].platform
    if not role.declaration.alone and not PLATFORMS[platform].existing:
        what = f"{role.source} is in a private world, which has no way out"
        cure = "let 'from' be a host that exists already ('platform: ssh'), or run the server as a service"
        findings.add(("roles", name, "to"), what, cure)


def _check_forwarders(name: str, role: RoleSpec, wiring: Wiring, findings: Findings) -> None:
    """Guests of `via` exist and are neither end; whether they share the sender's virtual switch and forward, a
    backend says.
    """
    for place, guest in enumerate(role.parameters["via"]):
        at = ("roles", name, "via", place)
        if guest not in wiring.stations:
            cure = nearest(guest, wiring.stations) or "name a guest that forwards"
            findings.add(at, f"there is no guest '{guest}'", cure)
        elif guest in (role.source, role.target):
            findings.add(at, f"'{guest}' is an end of the role", "name a guest between the two ends")


def _joined(wiring: Wiring) -> dict[str, str]:
    """Broadcast domains that routers join."""
    above: dict[str, str] = {}
    for station in wiring.stations.values():
        if station.forwards:
            domains = [attachment.domain for attachment in station.vnics.values()]
            for domain in domains[1:]:
                above[root(above, domain)] = root(above, domains[0])
    return above


def _check_family(name: str, role: RoleSpec, network: NetworkSpec, findings: Findings) -> None:
    if role.family is not None and getattr(network, role.family) == "none":
        cure = f"write e.g. 'network: {{{role.family}: {'10.0.0.0/16' if role.family == 'ipv4' else 'fd00::/48'}}}'"
        findings.add(("roles", name, "family"), f"the network has no {role.family} addresses", cure)


def _check_frame(name: str, role: RoleSpec, network: NetworkSpec, findings: Findings) -> None:
    size_bytes = role.parameters.get("frame_bytes", 0)
    most = network.mtu + HEADER_AND_FCS_BYTES
    if below_ip(role.workload) and size_bytes > most:
        what = f"a frame of {size_bytes} B exceeds the MTU of {network.mtu} B"
        findings.add(
            ("roles", name, "size"),
            what,
            f"write at most '{most} B frame', or a larger 'network: {{mtu: ...}}'",
        )
