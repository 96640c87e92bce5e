"""Roles that end at a service: its guest and port take the place of a server of virtlab's own.

A role names the service as its `to`, or an address with a port outside of all that is declared. The parameters of
virtlab's own server, and what else such a role does not have, are refused where the file states them, and left out of
the Plan otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from ipaddress import ip_address
from typing import Any

from virtlab.catalogue.kinds import shown
from virtlab.catalogue.sockets import FIRST, PORT, ROUND_ROBIN, SERVICE_GUEST
from virtlab.catalogue.workloads.request_response import HTTP, NAME, PASSIVE_SHARE, TCP, UDP
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.services import ServiceSpec
from virtlab.lazy import pattern
from virtlab.units import nearest

OUTSIDE = pattern(r"\[(?P<v6>[^]]+)\]:(?P<six>.*)|(?P<v4>[\d.]+):(?P<four>.*)")


def with_ends(
    roles: Mapping[str, RoleSpec],
    services: Mapping[str, ServiceSpec],
    guests: Container[str] | None,
    findings: Findings,
) -> dict[str, RoleSpec]:
    """The roles, each with the guest at which it ends. Those with mistakes are left out; their mistakes are added.

    `guests`: those that there are; None where that is unknown.
    """
    found = {}
    for name, role in roles.items():
        watch = findings.watch()
        is_guest = guests is not None and role.target in guests
        if is_guest and findings.declares("services", role.target):
            what = f"'{role.target}' is a guest and a service"
            findings.add(("roles", name, "to"), what, "give the service another name")
        elif (outside := OUTSIDE.fullmatch(role.target)) is not None:
            ended = _outside(role, outside, findings)
        elif is_guest or not findings.declares("services", role.target):
            ended = _at_guest(role, findings)
        elif role.target in services:
            ended = _at_service(role, services[role.target], findings)
        else:
            continue  # the service's own mistake says what to mend
        if not watch.wrong:
            found[name] = ended
    return found


def _at_guest(role: RoleSpec, findings: Findings) -> RoleSpec:
    """A role whose far end is virtlab's own."""
    if role.declaration.at_service is None:
        return role
    at = ("roles", role.name)
    for key, text in role.declaration.at_service.only(role.parameters):
        findings.add_text((*at, key), text)
    _no_server(role, findings)
    if "port" in role.given:
        what = "virtlab's own server has a port that its system chose"
        findings.add(
            (*at, "port"), what, "remove it, or let the role end at a service ('to: SERVICE')", key=True
        )
    return role


def _outside(role: RoleSpec, named: re.Match[str], findings: Findings) -> RoleSpec:
    """A role whose far end is a server that the file does not declare."""
    at = ("roles", role.name)
    traits = role.declaration.at_service
    if traits is None:
        findings.add((*at, "to"), f"{role.workload} measures guests, not addresses", "name a guest")
        return role
    if traits.speaks(role.parameters) != HTTP:
        what = "nothing outside answers in virtlab's own protocol"
        findings.add((*at, "to"), what, "write 'protocol: http', or name a guest or a service")
    _refuse_unfit(role, findings)
    _no_server(role, findings)
    if "port" in role.given:
        findings.add((*at, "port"), "the address has its port already", "remove it", key=True)
    try:
        address = ip_address(named["v6"] or named["v4"])
        written = named["six"] or named["four"]
        port = PORT.parse(int(written) if written.isdigit() else written)
    except ValueError as error:
        what = str(error).partition(";")[0]
        findings.add(
            (*at, "to"),
            f"'{shown(role.target)}': {what}",
            "write e.g. '192.0.2.7:8080' or '[2001:db8::7]:80'",
        )
        return role
    if role.family not in {None, f"ipv{address.version}"}:
        findings.add((*at, "family"), f"{address} is not an {role.family} address", "remove 'family'")
    return role._replace(target="", parameters={**_fit(role), "address": str(address), "port": port})


def _no_server(role: RoleSpec, findings: Findings) -> None:
    """A role that ends at no service chooses among no guests."""
    for key in (SERVICE_GUEST.name, PASSIVE_SHARE.name):
        if key in role.given:
            what = "it is of a role that ends at a service"
            findings.add(("roles", role.name, key), what, "remove it", key=True)


def _refuse_unfit(role: RoleSpec, findings: Findings) -> None:
    """Parameters in the file that a role has not that ends at no server of virtlab's own."""
    assert role.declaration.at_service is not None
    unfit = role.declaration.at_service.without(role.parameters)
    for key in sorted(role.given & unfit.keys()):
        findings.add(("roles", role.name, key), unfit[key], "remove it", key=True)


def _fit(role: RoleSpec) -> dict[str, Any]:
    """Its parameters without those."""
    assert role.declaration.at_service is not None
    unfit = role.declaration.at_service.without(role.parameters)
    plan_names = {each.plan for each in role.declaration.parameters if each.name in unfit}
    return {key: value for key, value in role.parameters.items() if key not in plan_names}


def _at_service(role: RoleSpec, service: ServiceSpec, findings: Findings) -> RoleSpec:
    at = ("roles", role.name)
    traits = role.declaration.at_service
    if traits is None:
        what = f"'{service.name}' is a service, and {role.workload} measures guests"
        findings.add((*at, "to"), what, f"name its guest, {service.on[0]}")
        return role
    wanted = service.declaration.whole
    if wanted != (role.workload if traits.whole else None):
        able = f"a service of kind {service.kind} is asked by {wanted}" if wanted else "it is no store"
        cure = f"write 'workload: {wanted}'" if wanted else "name a service with 'kind: store'"
        findings.add((*at, "to"), f"'{service.name}' is not what {role.workload} asks: {able}", cure)
        return role
    guest = _server(role, service, findings)
    protocol = traits.speaks(role.parameters)
    if protocol not in service.declaration.speaks:
        able = " or ".join(f"'protocol: {each}'" for each in sorted(service.declaration.speaks))
        spoken = "HTTP" if protocol == HTTP else f"virtlab's own protocol over {protocol}"
        what = f"a service of kind {service.kind} does not speak {spoken}"
        cure = f"write {able}" if able else "name a guest"
        if able and role.declaration.parameter("protocol") is None:
            cure = f"ask it by {NAME}, with {able}"
        findings.add((*at, "to"), what, cure)
    else:
        for text in traits.does_not_fit(role.parameters, service.parameters):
            findings.add_text((*at, "to"), f"of service '{service.name}', {text}")
    _refuse_unfit(role, findings)
    own = service.ready and service.ready.get("port")
    port = role.parameters.get("port", own)
    if service.declaration.port is not None and port != own:
        what = f"'{service.name}' listens at port {own} alone"
        findings.add((*at, "port"), what, "remove it, or write that port into the 'ready' of the service")
    if port is None:
        what = f"'{service.name}' does not say its port"
        findings.add((*at, "to"), what, "write 'port' here, or 'ready: {port: ...}' of the service")
    values = {key: value for key, value in _fit(role).items() if key != SERVICE_GUEST.plan}
    if service.active is not None:
        values.setdefault(PASSIVE_SHARE.plan, 0.0)
    elif role.parameters.get(SERVICE_GUEST.plan) == ROUND_ROBIN and len(service.on) > 1:
        values[ROUND_ROBIN] = True
    return role._replace(target=guest, service=service.name, parameters={**values, "port": port})


def _server(role: RoleSpec, service: ServiceSpec, findings: Findings) -> str:
    """The guest of the service that is asked; of one that is asked as a whole, the first."""
    if service.declaration.whole is not None:
        return service.on[0]
    at = ("roles", role.name)
    named = role.parameters.get(SERVICE_GUEST.plan)
    if service.active is not None:
        if named is not None:
            what = f"of the servers of '{service.name}' only {service.active} is active"
            cure = f"remove it; '{PASSIVE_SHARE.name}' says how many requests enter at the others"
            findings.add((*at, SERVICE_GUEST.name), what, cure, key=True)
        return service.active
    if PASSIVE_SHARE.name in role.given:
        what = f"none of the servers of '{service.name}' is passive"
        cure = f"write 'active: {service.on[0]}' into the service, or remove it"
        findings.add((*at, PASSIVE_SHARE.name), what, cure, key=True)
    listed = ", ".join(service.on[:8])
    if named is None and len(service.on) > 1:
        what = f"'{service.name}' is on {len(service.on)} guests, and a role ends at one"
        cure = f"write 'server: {service.on[-1]}' or another of {listed}, 'server: {FIRST}', or 'server: {ROUND_ROBIN}'"
        findings.add((*at, "to"), what, cure)
    elif named == ROUND_ROBIN:
        traits = role.declaration.at_service
        if traits is None or not traits.places:
            what = f"{role.workload} asks one server"
            findings.add((*at, SERVICE_GUEST.name), what, f"write one of {listed}")
        elif len(service.on) > 1 and traits.speaks(role.parameters) == UDP:
            what = "servers are asked in turn over TCP"
            able = f"'protocol: {TCP}', or " if TCP in service.declaration.speaks else ""
            cure = f"write {able}one of {listed}"
            findings.add((*at, SERVICE_GUEST.name), what, cure)
    elif named is not None and named != FIRST and named not in service.on:
        what = f"'{service.name}' is not on '{shown(named)}'"
        cure = nearest(str(named), [*service.on, ROUND_ROBIN]) or f"write one of {listed}, or '{FIRST}'"
        findings.add((*at, SERVICE_GUEST.name), what, cure)
    elif named is not None and named != FIRST:
        return str(named)
    return service.on[0]
