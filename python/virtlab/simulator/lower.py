"""The Plan as the core reads it: names resolved to places in lists, the timeline as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from virtlab.catalogue import VSWITCHES
from virtlab.catalogue.actions import commands_guest, moves_guest
from virtlab.catalogue.services.demand_server import forwarding
from virtlab.catalogue.sockets import ROUND_ROBIN
from virtlab.catalogue.workloads.program import MOST
from virtlab.catalogue.workloads.request_response import NAME as ASKING
from virtlab.plan import Action, Guest, Plan, Queue, Role, Route, Vnic, Vswitch
from virtlab.plan.seeds import service_seed, stream_seed
from virtlab.planner.guests.clusters import entries, ways_of_requests
from virtlab.planner.queues.draws import draws, seeded
from virtlab.planner.queues.licence import QUEUE_PACKETS, burst_bytes
from virtlab.planner.queues.pushback import (
    TAP_BIT_PER_S,
    UPLINK_PACKETS,
    SharedQueue,
    is_held,
    shared_queues,
    sharing,
)
from virtlab.planner.steps import step
from virtlab.planner.topology import ends
from virtlab.planner.topology.cuts import cut_links
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.simulator.disks import disk, disk_usage
from virtlab.simulator.moves import lowered_move
from virtlab.simulator.ospf import converged
from virtlab.simulator.pools import in_pool, pools
from virtlab.simulator.profile import Profile
from virtlab.simulator.programs import deeds
from virtlab.simulator.services import as_simulated, operation, server_of
from virtlab.simulator.shares import processors, working
from virtlab.simulator.stores import stores
from virtlab.simulator.usage import usage

WITHOUT_EFFECT = frozenset(  # `limits` has seen to what they may say; a histogram is of the report
    {"family", "meter", "pacing", "idle", "port", "histogram_buckets", "histogram_edges_ns"}
)


def vnic_path(guest: str, vnic: str) -> str:
    """A vNIC's path in the Plan, which is its name in counters too."""
    return f"guests.{guest}.vnics.{vnic}"


def addresses(guest: Guest) -> Iterator[tuple[str, ends.Interface]]:
    """Addresses of a guest with their vNICs."""
    for name, _, address in ends.interfaces(guest):
        yield name, address


def lower(plan: Plan, seed: int, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The core's input. `overrides` are parameters by role."""
    world = plan.world
    layer_two = LayerTwo(plan)
    guests = {name: place for place, name in enumerate(world.guests)}
    vswitches = {name: place for place, name in enumerate(world.vswitches)}
    members = [(guest, name) for guest, entry in world.guests.items() for name in entry.vnics]
    paths = [vnic_path(*each) for each in members]
    vnics = {path: place for place, path in enumerate(paths)}
    roles = {name: place for place, name in enumerate(plan.roles)}
    tables: dict[str, dict[str, Any]] = {name: {} for name in vswitches}
    inside: dict[str, dict[str, int]] = {name: {} for name, entry in world.guests.items() if entry.bridges}
    forwarding: dict[str, dict[str, str]] = {}
    found = converged(plan)
    live = world.arp == "live"
    shared = sharing(plan)
    worked = working(plan)
    pooled = in_pool(plan)
    cut = cut_links(plan)
    lowered_vnics = []
    for guest, entry in world.guests.items():
        for name, vnic in entry.vnics.items():
            path, mac = vnic_path(guest, name), vnic.mac.lower()
            for box, port in layer_two.ports_towards_vnic(guest, name).items():
                if live:
                    continue  # switches learn
                if box.kind == "switch":
                    forwarding.setdefault(box.name, {})[mac] = port
                elif box.kind == "bridge":
                    inside[box.name][mac] = vnics[vnic_path(*port.split("/"))]
                else:
                    tables[box.name][mac] = _way(port, layer_two, vnics)
            on = {"vswitch": vswitches[vnic.vswitch]} if vnic.vswitch is not None else {"port": vnic.uplink}
            lowered_vnics.append(
                {
                    "name": path, "guest": guests[guest], "mac": mac, "mtu_bytes": vnic.mtu_bytes,
                    "pushback_bit_per_s": TAP_BIT_PER_S if vnic.vswitch in shared else vnic.pushback_bit_per_s,
                    "on": on,
                    "licence": licence(entry, vnic),
                    **({"held": True} if vnic.vswitch in shared and is_held(plan, guest, name) else {}),
                }
            )  # fmt: skip
    return {
        "fabric": {
            "ports": list(layer_two.owner),
            "switches": {
                name: {"processing_ns": each.processing_ns} for name, each in world.switches.items()
            },
            "links": {
                name: {
                    "ends": list(link.ends),
                    "rate_bit_per_s": link.rate_bit_per_s,
                    "propagation_ns": link.propagation_ns,
                    "cuts": name in cut,
                    "queue": {
                        way: seeded(queue(getattr(link.queue, way)), seed, name, way) for way in ("ab", "ba")
                    },
                }
                for name, link in world.links.items()
            },
            "forwarding": forwarding,
        },
        "guests": [
            _guest(plan, name, vnics, found, pooled.get(name), works=name in worked) for name in world.guests
        ],
        **pools(plan),
        **usage(plan),
        **disk_usage(plan),
        "vnics": lowered_vnics,
        "vswitches": [_vswitch(plan, name, tables, layer_two, vnics) for name in vswitches],
        **({"uplinks": [_uplink(each) for each in shared_queues(plan)]} if shared else {}),
        "bridging": [{"guest": guests[name], "ways": ways, "learns": live} for name, ways in inside.items()],
        "neighbours": {
            str(address.ip): entry.vnics[vnic].mac.lower()
            for entry in world.guests.values()
            for vnic, address in addresses(entry)
        },
        **({"resolution": resolution(seed)} if live else {}),
        **({"noise": noise(seed, world.vswitches)} if world.ipv6_noise else {}),
        "roles": [_role(plan, name, vnics, seed, (overrides or {}).get(name, {})) for name in plan.roles],
        **({"passive": passive} if (passive := _passive(plan, vnics)) else {}),
        **stores(plan, {each: vnics[vnic_path(*each)] for each in members}, seed),
        "timeline": [
            {**_action(plan, action, roles, guests), "args": lowered_move(plan, action, vnics, vswitches)}
            if moves_guest(action.do)
            else _action(plan, action, roles, guests)
            for action in plan.timeline
        ],
        "windows": {name: (window.from_, window.to) for name, window in plan.windows.items()},
        "counters": list(plan.collect.counters),
        "limit_ns": plan.limits.run_ns,
    }


def as_played(lowered: Mapping[str, Any], plan: Plan, profile: Profile) -> Mapping[str, Any]:
    """The input, in an ideal world with every guest held back by a shared queue: platforms do not differ there."""
    if not profile.is_ideal or "uplinks" not in lowered:
        return lowered
    places = {place for place, name in enumerate(plan.world.vswitches) if name in sharing(plan)}
    vnics = [
        {**each, "held": True} if each["on"].get("vswitch") in places else each for each in lowered["vnics"]
    ]
    return {**lowered, "vnics": vnics}


def _uplink(shared: SharedQueue) -> dict[str, Any]:
    return {
        "port": shared.port,
        "rate_bit_per_s": shared.rate_bit_per_s,
        "limit_packets": UPLINK_PACKETS,
        "mtu_bytes": shared.mtu_bytes,
    }


def licence(guest: Guest, vnic: Vnic) -> dict[str, int] | None:
    """The token bucket of a router's port."""
    if guest.licence_bit_per_s is None:
        return None
    return {
        "rate_bit_per_s": guest.licence_bit_per_s,
        "burst_bytes": burst_bytes(vnic),
        "limit_packets": QUEUE_PACKETS,
    }


def reseeded(lowered: Mapping[str, Any], plan: Plan, seed: int) -> dict[str, Any]:
    """The same input for a run of another seed."""
    roles = [
        {
            **role,
            "parameters": _reseeded_parameters(plan, role, seed),
            "ends": [
                {**end, "seed": _seed(plan, role["name"], side, seed)}
                for side, end in zip(("client", "server"), role["ends"], strict=True)
            ],
        }
        for role in lowered["roles"]
    ]
    live: dict[str, Any] = {"resolution": resolution(seed)} if "resolution" in lowered else {}
    if "noise" in lowered:
        live["noise"] = {**lowered["noise"], "seed": noise_seed(seed)}
    links = lowered["fabric"]["links"]
    if any(draws(entry) for link in links.values() for entry in link["queue"].values()):
        again = {
            name: {
                **link,
                "queue": {way: seeded(entry, seed, name, way) for way, entry in link["queue"].items()},
            }
            for name, link in links.items()
        }
        live["fabric"] = {**lowered["fabric"], "links": again}
    return {**lowered, **live, "roles": roles}


def _reseeded_parameters(plan: Plan, lowered: Mapping[str, Any], seed: int) -> dict[str, Any]:
    values, role = dict(lowered["parameters"]), plan.roles[lowered["name"]]
    if role.parameters.get(ROUND_ROBIN):
        on = plan.world.services[str(role.parameters["service"])].on
        values["entries"] = [
            {**each, **_drawing(role, on[each["place"]], seed)} for each in values["entries"]
        ]
    return values


def resolution(seed: int) -> dict[str, int]:
    """Guests ask for hardware addresses; how long they believe an answer is drawn."""
    return {"seed": stream_seed(seed, "neighbours")}


def noise(seed: int, vswitches: Mapping[str, Vswitch]) -> dict[str, Any]:
    """Kernels say of themselves what they say over IPv6; a Linux bridge is an interface itself."""
    bridges = [place for place, vswitch in enumerate(vswitches.values()) if VSWITCHES[vswitch.kind].interface]
    return {"seed": noise_seed(seed), "bridges": bridges}


def noise_seed(seed: int) -> int:
    """The seed of the instants at which guests send IPv6 noise."""
    return stream_seed(seed, "ipv6 noise")


def queue(entry: Queue) -> dict[str, Any]:
    """One queue: the discipline alone, without its implementation."""
    values = entry.model_dump(mode="json", exclude={"by"})
    return {key: value for key, value in values.items() if value is not None}


def _way(port: str, layer_two: LayerTwo, vnics: Mapping[str, int]) -> dict[str, Any]:
    """What lies behind a port of a virtual switch: an uplink, or GUEST/VNIC."""
    return {"port": port} if port in layer_two.owner else {"vnic": vnics[vnic_path(*port.split("/"))]}


def _vswitch(
    plan: Plan, name: str, tables: Mapping[str, dict[str, Any]], layer_two: LayerTwo, vnics: Mapping[str, int]
) -> dict[str, Any]:
    entry = plan.world.vswitches[name]
    isolated = {
        f"{guest}/{own}": vnic.isolated
        for guest, each in plan.world.guests.items()
        for own, vnic in each.vnics.items()
    }
    # Where tables are given and no guest forwards frames, every source stands where its table has it.
    moving = plan.world.arp == "live" or any(guest.bridges for guest in plan.world.guests.values())
    return {
        "ways": tables[name],
        "ports": [
            {"way": _way(edge.port, layer_two, vnics), "isolated": isolated.get(edge.port, False)}
            for edge in layer_two.edges[Box("vswitch", name)]
        ],
        "learns": entry.learning and moving,
        "floods": entry.flooding,
    }


def _guest(
    plan: Plan,
    name: str,
    vnics: Mapping[str, int],
    guest_routes: Mapping[str, tuple[Route, ...]],
    vcpus: float | None,
    *,
    works: bool,
) -> dict[str, Any]:
    guest = plan.world.guests[name]
    own = list(addresses(guest))
    routes = [(address.network, vnics[vnic_path(name, vnic)], None) for vnic, address in own] + [
        (ip_network(route.to, strict=False), vnics[vnic_path(name, route.vnic)], str(ip_address(route.via)))
        for route in (*plan.world.routes.get(name, ()), *guest_routes.get(name, ()))
    ]
    routes.sort(key=lambda route: -route[0].prefixlen)
    shared = vcpus or (processors(guest) if works else None)
    return {
        **({} if shared is None else {"processors": shared}),
        **disk(plan, name),
        "forwards": guest.forwards,
        "addresses": [str(address.ip) for _, address in own],
        "routes": [
            {
                "network": str(network.network_address),
                "prefix_bits": network.prefixlen,
                "vnic": vnic,
                "via": via,
            }
            for network, vnic, via in routes
        ],
    }


def _role(
    plan: Plan, name: str, vnics: Mapping[str, int], seed: int, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    role = plan.roles[name]
    found = ends.role_ends(plan, role)
    parameters = as_simulated(plan, role) | dict(overrides)
    most = parameters.pop(MOST, None) if role.workload == ASKING else None
    if entered := list(entries(plan, role)):
        parameters["entries"] = [
            {"place": each.place, **_between(each.ends, vnics), **_drawing(role, each.guest, seed)}
            for each in entered
        ]
    if found is not None and parameters.get("via"):
        near = ends.via_vnics(plan, found[0], parameters["via"])
        parameters["via"] = [vnics[vnic_path(*vnic)] for vnic in near if vnic is not None]
    return {
        "name": name,
        "workload": role.workload,
        "parameters": {
            key: value for key, value in parameters.items() if key not in WITHOUT_EFFECT and value is not None
        },
        "ends": [
            {"vnic": vnic, "address": address, "seed": _seed(plan, name, side, seed)}
            for side, (vnic, address) in zip(
                ("client", "server"), _ends(plan, role, found, vnics), strict=True
            )
        ],
        "kept": name in plan.collect.packets,
        **({} if most is None else {"most": most}),
    }


def _drawing(role: Role, guest: str, seed: int) -> dict[str, int]:
    """The seed of a server in that guest, where each of several draws for a role."""
    if not role.parameters.get(ROUND_ROBIN):
        return {}
    return {"seed": service_seed(seed, str(role.parameters["service"]), guest)}


def _between(pair: tuple[ends.RoleEnd, ends.RoleEnd], vnics: Mapping[str, int]) -> dict[str, Any]:
    """Addresses of both ends, and the places of their vNICs."""
    near, far = (None if end.address is None else str(end.address.ip) for end in pair)
    places = [vnics[vnic_path(end.guest, end.vnic)] for end in pair]
    return {"local": near, "address": far, "vnics": places}


def _passive(plan: Plan, vnics: Mapping[str, int]) -> list[dict[str, Any]]:
    """Servers that forward to another, of services that a role asks, each with the ends of its connection."""
    asked = {role.parameters.get("service") for role in plan.roles.values()}
    found = []
    for way in ways_of_requests(plan):
        pair = ends.role_ends(plan, way.role)
        if way.service in asked and pair is not None:
            service = plan.world.services[way.service]
            found.append(
                {
                    "service": way.service,
                    "places": [service.on.index(guest) for guest in (way.passive, way.active)],
                    "parameters": dict(server_of(service) or {}),
                    "bounds": forwarding(service.parameters),
                    "ends": [
                        {"vnic": vnic, "address": address, "seed": 0}
                        for vnic, address in _ends(plan, way.role, pair, vnics)
                    ],
                }
            )
    return found


def _seed(plan: Plan, name: str, side: str, seed: int) -> int:
    """The seed of one end of a role: a service draws by its own name, for all roles that end at it."""
    role = plan.roles[name]
    service = role.parameters.get("service")
    if service is None or side == "client":
        return stream_seed(seed, name, side)
    return service_seed(seed, str(service), str(role.to))


def _ends(
    plan: Plan, role: Role, pair: tuple[ends.RoleEnd, ends.RoleEnd] | None, vnics: Mapping[str, int]
) -> list[tuple[int, str | None]]:
    """Place of the vNIC and address of both ends; a role without traffic has no vNIC, and its guest at both."""
    if pair is None:
        guest = str(role.from_)
        own = next(iter(plan.world.guests[guest].vnics), None)
        return [(0 if own is None else vnics[vnic_path(guest, own)], None)] * 2
    return [
        (vnics[vnic_path(end.guest, end.vnic)], None if end.address is None else str(end.address.ip))
        for end in pair
    ]


def _action(
    plan: Plan, action: Action, roles: Mapping[str, int], guests: Mapping[str, int]
) -> dict[str, Any]:
    args = action.args if action.link is None else {**action.args, "link": action.link}
    return {
        **step(action), "do": action.do, "args": args, "for_ns": action.for_ns or 0,
        "role": None if action.role is None else roles[action.role],
        "guest": guests.get(action.guest or ""),
        **({"program": deeds(plan, action)} if commands_guest(action.do) else {}),
        **({"operation": operated} if (operated := operation(plan, action, guests)) else {}),
        **({"progress": progress} if (progress := _progress(action, roles)) else {}),
    }  # fmt: skip


def _progress(action: Action, roles: Mapping[str, int]) -> dict[str, Any]:
    """What has to have come to a role before a wait is over; nothing of other actions."""
    wait = action.until
    if wait is None or wait.metric is None:
        return {}
    role, _, _ = wait.metric.partition(".")
    return {"role": roles[role], "op": wait.op, "value": wait.value, "every_ns": wait.every_ns}
