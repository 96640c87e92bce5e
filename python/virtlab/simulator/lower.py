"""The Plan as the core reads it: names resolved to places in lists, the timeline as it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Interface, ip_address, ip_interface, ip_network
from typing import Any

from virtlab.plan import Action, Guest, Plan, Queue, Role
from virtlab.simulator.wiring import Wiring, vnic_path

WITHOUT_EFFECT = frozenset({"family", "meter", "pacing", "idle"})  # `refusals` has seen to what they may say


def addresses(guest: Guest) -> Iterator[tuple[str, IPv4Interface]]:
    """IPv4 addresses of a guest with their vNICs."""
    for name, vnic in guest.vnics.items():
        for text in vnic.ip:
            address = ip_interface(text)
            if isinstance(address, IPv4Interface):
                yield name, address


def role_ends(plan: Plan, role: Role) -> tuple[tuple[str, IPv4Interface | None], ...] | None:
    """vNIC path and address of both ends: the first pair on one network, else the first pair at all."""
    guests = plan.world.guests
    if role.from_ not in guests or role.to not in guests:
        return None
    source, target = guests[role.from_], guests[role.to]
    pairs = [
        (far.ip not in own.network, (vnic_path(role.from_, vnic), own), (vnic_path(role.to, far_vnic), far))
        for vnic, own in addresses(source)
        for far_vnic, far in addresses(target)
    ]
    if pairs:
        _, here, there = min(pairs, key=lambda pair: pair[0])
        return here, there
    if role.workload == "raw_stream" and source.vnics and target.vnics:
        return (
            (vnic_path(role.from_, next(iter(source.vnics))), None),
            (vnic_path(role.to, next(iter(target.vnics))), None),
        )
    return None


def lower(plan: Plan, seed: int, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The core's input. `overrides` are parameters by role."""
    world = plan.world
    wiring = Wiring(plan)
    guests = {name: place for place, name in enumerate(world.guests)}
    vswitches = {name: place for place, name in enumerate(world.vswitches)}
    paths = [vnic_path(guest, name) for guest, entry in world.guests.items() for name in entry.vnics]
    vnics = {path: place for place, path in enumerate(paths)}
    roles = {name: place for place, name in enumerate(plan.roles)}
    tables: list[dict[str, Any]] = [{} for _ in vswitches]
    forwarding: dict[str, dict[str, str]] = {}
    ports = [uplink for vswitch in world.vswitches.values() for uplink in vswitch.uplinks]
    lowered_vnics = []
    for guest, entry in world.guests.items():
        for name, vnic in entry.vnics.items():
            path = vnic_path(guest, name)
            for (kind, box), port in wiring.ways_to(("vnic", path)).items():
                if kind == "switch":
                    forwarding.setdefault(box, {})[vnic.mac.lower()] = port
                else:
                    way = {"vnic": vnics[path]} if not port else {"port": port}
                    tables[vswitches[box]][vnic.mac.lower()] = way
            on = {"vswitch": vswitches[vnic.vswitch]} if vnic.vswitch is not None else {"port": vnic.uplink}
            if vnic.uplink is not None:
                ports.append(vnic.uplink)
            lowered_vnics.append(
                {
                    "name": path, "guest": guests[guest], "mac": vnic.mac.lower(), "mtu_bytes": vnic.mtu_bytes,
                    "pushback_bit_per_s": vnic.pushback_bit_per_s, "on": on,
                }
            )  # fmt: skip
    return {
        "fabric": {
            "ports": ports,
            "switches": {
                name: {"processing_ns": each.processing_ns} for name, each in world.switches.items()
            },
            "links": {
                name: {
                    "ends": list(link.ends),
                    "rate_bit_per_s": link.rate_bit_per_s,
                    "propagation_ns": link.propagation_ns,
                    "queue": {"ab": queue(link.queue.ab), "ba": queue(link.queue.ba)},
                }
                for name, link in world.links.items()
            },
            "forwarding": forwarding,
        },
        "guests": [_guest(plan, name, vnics) for name in world.guests],
        "vnics": lowered_vnics,
        "vswitches": tables,
        "neighbours": {
            str(address.ip): entry.vnics[vnic].mac.lower()
            for entry in world.guests.values()
            for vnic, address in addresses(entry)
        },
        "roles": [_role(plan, name, vnics, seed, (overrides or {}).get(name, {})) for name in plan.roles],
        "timeline": [_action(action, roles) for action in plan.timeline],
        "windows": {name: (window.from_, window.to) for name, window in plan.windows.items()},
        "counters": list(plan.collect.counters),
        "limit_ns": plan.limits.run_ns,
    }


def queue(entry: Queue) -> dict[str, Any]:
    """One queue: the discipline alone, whoever would realise it."""
    values = entry.model_dump(mode="json", exclude={"by"})
    return {key: value for key, value in values.items() if value is not None}


def _guest(plan: Plan, name: str, vnics: Mapping[str, int]) -> dict[str, Any]:
    guest = plan.world.guests[name]
    own = list(addresses(guest))
    routes = [(address.network, vnics[vnic_path(name, vnic)], None) for vnic, address in own] + [
        (network, vnics[vnic_path(name, route.vnic)], str(ip_address(route.via)))
        for route in plan.world.routes.get(name, ())
        if (network := ip_network(route.to, strict=False)).version == 4
    ]
    routes.sort(key=lambda route: -route[0].prefixlen)
    return {
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
    ends = role_ends(plan, role)
    assert ends is not None  # `refusals` has seen to it
    parameters = role.parameters | dict(overrides)
    return {
        "name": name,
        "workload": role.workload,
        "parameters": {
            key: value for key, value in parameters.items() if key not in WITHOUT_EFFECT and value is not None
        },
        "ends": [
            {
                "vnic": vnics[path],
                "address": None if address is None else str(address.ip),
                "seed": stream_seed(seed, name, side),
            }
            for side, (path, address) in zip(("client", "server"), ends, strict=True)
        ],
        "kept": name in plan.collect.packets,
    }


def _action(action: Action, roles: Mapping[str, int]) -> dict[str, Any]:
    trigger = action.after
    after = None
    if trigger is not None:
        events = (trigger.event,) if trigger.event is not None else trigger.any or trigger.all
        after = {"events": list(events), "any": bool(trigger.any), "plus_ns": trigger.plus_ns}
    return {
        "id": action.id, "do": action.do, "after": after, "args": action.args, "for_ns": action.for_ns or 0,
        "role": None if action.role is None else roles[action.role],
        "timeout_ns": action.timeout_ns, "on_timeout": action.on_timeout,
    }  # fmt: skip


def stream_seed(seed: int, *names: str) -> int:
    """A seed of one named random stream, the testbed's: equal seeds give both arms equal phases.

    >>> stream_seed(1, "load", "client") != stream_seed(1, "load", "server")
    True
    """
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
