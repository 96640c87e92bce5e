"""Static routes for any graph of broadcast domains and routers.

Domains and routers form a bipartite graph. A breadth-first search from each target domain gives every other domain
its distance and the router to take; among equals the first by name, so the same graph has the same routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from virtlab.experiment.world.addresses import Addresses
from virtlab.experiment.world.topology import Station, Wiring
from virtlab.plan import Route

Routers = Mapping[str, list[Station]]  # routers of a domain, by name


def routes_of(wiring: Wiring, addresses: Addresses) -> dict[str, tuple[Route, ...]]:
    """Routes by guest, for every subnet that the guest is not in and can reach."""
    standing: dict[str, list[Station]] = {}
    for _, station in sorted(wiring.stations.items()):
        if station.forwards:
            for domain in dict.fromkeys(attachment.domain for attachment in station.vnics.values()):
                standing.setdefault(domain, []).append(station)
    if not standing:
        return {}
    routes: dict[str, list[Route]] = {}
    for target in dict.fromkeys(domain for domain, _ in addresses.subnets):
        distance = _distances(target, standing)
        hops = {domain: _next_router(domain, distance, standing) for domain in distance if domain != target}
        for station in wiring.stations.values():
            own = {attachment.domain: vnic for vnic, attachment in station.vnics.items()}
            reachable = [domain for domain in own if domain in distance]
            if target in own or not reachable:
                continue
            domain = min(reachable, key=lambda name: distance[name])
            found = list(_routes(addresses, target, own[domain], hops[domain], station, domain))
            if found:
                routes.setdefault(station.name, []).extend(found)
    return {name: tuple(found) for name, found in routes.items()}


def _distances(target: str, standing: Routers) -> dict[str, int]:
    """Routers to pass from each domain to the target."""
    distance = {target: 0}
    frontier = [target]
    while frontier:
        reached = []
        for domain in frontier:
            for router in standing.get(domain, ()):
                for attachment in router.vnics.values():
                    if attachment.domain not in distance:
                        distance[attachment.domain] = distance[domain] + 1
                        reached.append(attachment.domain)
        frontier = reached
    return distance


def _next_router(domain: str, distance: Mapping[str, int], standing: Routers) -> Station:
    """The router of a domain that leads one step nearer."""
    return next(
        router
        for router in standing[domain]
        if any(distance[attachment.domain] == distance[domain] - 1 for attachment in router.vnics.values())
    )


def _routes(
    addresses: Addresses, target: str, vnic: str, router: Station, station: Station, domain: str
) -> Iterator[Route]:
    port = next(name for name, attachment in router.vnics.items() if attachment.domain == domain)
    for version in (4, 6):
        subnet = addresses.subnets.get((target, version))
        hops = [text.partition("/")[0] for text in addresses.of.get((router.name, port), [])]
        hop = next((address for address in hops if (":" in address) == (version == 6)), None)
        mine = [
            text for text in addresses.of.get((station.name, vnic), []) if (":" in text) == (version == 6)
        ]
        if subnet is not None and hop is not None and mine:
            yield Route(to=subnet, via=hop, vnic=vnic)
