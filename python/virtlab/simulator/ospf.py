"""OSPF as it has converged: the routes that routers with `routing: ospf` would have found before the run begins.

Every port costs the same, so the way to a subnet is the one through fewest routers; one path among equals, the first by
name (FRRouting's own choice among equals is another router's now and then). No hello is played, so none crosses a
licence. IPv4, as in the testbed.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network, ip_interface

from virtlab.plan import Plan, Route

REALISED = "static routes, as OSPF has converged; no hellos"


def converged(plan: Plan) -> dict[str, tuple[Route, ...]]:
    """Router -> its routes to every subnet that it is not in and can reach over other such routers."""
    ports: dict[str, list[tuple[str, IPv4Interface]]] = {
        name: [
            (vnic_name, address)
            for vnic_name, vnic in guest.vnics.items()
            for text in vnic.ip
            if isinstance(address := ip_interface(text), IPv4Interface)
        ]
        for name, guest in sorted(plan.world.guests.items())
        if guest.routing == "ospf"
    }
    subnets = dict.fromkeys(address.network for own in ports.values() for _, address in own)
    routes: dict[str, list[Route]] = {name: [] for name in ports}
    for target in subnets:
        distance = _distances(target, ports)
        for name, own in ports.items():
            if any(address.network == target for _, address in own):
                continue
            best: tuple[int, str, Route] | None = None
            for vnic, address in own:
                for neighbour, theirs in ports.items():
                    hop = next((one for _, one in theirs if one.network == address.network), None)
                    if neighbour == name or hop is None or neighbour not in distance:
                        continue
                    route = Route(to=str(target), via=str(hop.ip), vnic=vnic)
                    found = (distance[neighbour], neighbour, route)
                    if best is None or found[:2] < best[:2]:
                        best = found
            if best is not None:
                routes[name].append(best[2])
    return {name: tuple(found) for name, found in routes.items()}


def _distances(target: IPv4Network, ports: dict[str, list[tuple[str, IPv4Interface]]]) -> dict[str, int]:
    """Routers between each router and the target; 0 for those in it."""
    frontier = [name for name, own in ports.items() if any(each.network == target for _, each in own)]
    distance = dict.fromkeys(frontier, 0)
    while frontier:
        reached = []
        for name in frontier:
            near = {address.network for _, address in ports[name]}
            for other, own in ports.items():
                if other not in distance and any(each.network in near for _, each in own):
                    distance[other] = distance[name] + 1
                    reached.append(other)
        frontier = reached
    return distance
