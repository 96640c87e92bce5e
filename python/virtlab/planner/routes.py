"""Static routes for any graph of broadcast domains and routers.

Domains and routers form a bipartite graph. A breadth-first search from each target domain gives every other
domain its distance and the router to take; among equals the first by name, so the same graph has the same
routes.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.experiment.addressing import Addresses
from virtlab.experiment.topology import Station, Wiring
from virtlab.plan import Route


def routes_of(wiring: Wiring, addresses: Addresses) -> dict[str, tuple[Route, ...]]:
    """Routes by guest, for every subnet that the guest is not in and can reach."""
    routers = {name: station for name, station in sorted(wiring.stations.items()) if station.forwards}
    if not routers:
        return {}
    domains = list(dict.fromkeys(domain for domain, _ in addresses.subnets))
    routes: dict[str, list[Route]] = {}
    for target in domains:
        distance = _distances(target, routers)
        for station in wiring.stations.values():
            own = {attachment.domain: vnic for vnic, attachment in station.vnics.items()}
            if target in own or not own:
                continue
            found = _first_hop(own, distance, routers)
            if found is not None:
                domain, router = found
                routes.setdefault(station.name, []).extend(
                    _routes(addresses, target, domain, own[domain], routers[router], station)
                )
    return {name: tuple(found) for name, found in routes.items()}


def _distances(target: str, routers: dict[str, Station]) -> dict[str, int]:
    """Routers to pass from each domain to the target."""
    distance = {target: 0}
    frontier = [target]
    while frontier:
        reached = []
        for router in routers.values():
            domains = [attachment.domain for attachment in router.vnics.values()]
            near = [distance[domain] for domain in domains if domain in frontier]
            if near:
                for domain in domains:
                    if domain not in distance:
                        distance[domain] = min(near) + 1
                        reached.append(domain)
        frontier = reached
    return distance


def _first_hop(
    own: dict[str, str], distance: dict[str, int], routers: dict[str, Station]
) -> tuple[str, str] | None:
    """The domain to leave by, and the router to take in it."""
    reachable = [domain for domain in own if domain in distance]
    if not reachable:
        return None
    domain = min(reachable, key=lambda name: distance[name])
    for name, router in routers.items():
        beyond = [distance.get(attachment.domain) for attachment in router.vnics.values()]
        stands_here = any(attachment.domain == domain for attachment in router.vnics.values())
        if stands_here and distance[domain] - 1 in beyond:
            return domain, name
    return None


def _routes(
    addresses: Addresses, target: str, domain: str, vnic: str, router: Station, station: Station
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
