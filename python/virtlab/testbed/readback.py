"""What was built, compared with what was asked: the session's `realised`, read back from the kernel.

A difference between asked and built is an error before anything is measured. What the kernel chose by itself (offloads
left at their default, a bridge's own address) is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from virtlab.catalogue import PLATFORMS, QDISCS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Realised, RealisedObject, Vnic
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.mobility.moves import moves, vswitch_there
from virtlab.planner.queues.ports import port_at
from virtlab.planner.queues.pushback import shared_queues, sharing
from virtlab.planner.topology.port_names import port_of, port_there
from virtlab.testbed.build import disks
from virtlab.testbed.build.hosts import alone
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.kinds.lowered import Lowered, Place
from virtlab.testbed.leader.groups import of_services
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.queues.applied import NOT_TAKEN, NOT_THERE, QUEUEING, check_operations
from virtlab.testbed.queues.ovs import LEFT_ALONE
from virtlab.testbed.queues.pacing import WAITING
from virtlab.testbed.steps.operations import OFFLOADS_OFF, Operation, Rules
from virtlab.testbed.vswitches.ovs_ports import check_qos

CURE_VNIC = {
    "mtu_bytes": "write an 'mtu' that this kind of vNIC can have, or take another 'vnic_model'",
    "mac": "see that nothing in the guest or on this machine gives interfaces addresses of its own, and run it again",
    "addresses": "see that nothing in the guest or on this machine (DHCP, IPv6 autoconfiguration) gives it others, and "
    "run it again",
}
CURE_OFFLOADS = "write 'offloads: default' for what cannot be turned off there, or take another 'vnic_model'"
CURE_SEGMENTS = "write 'offloads: default', or use a kernel that can bound it: 'virtlab run FILE --in lab-vm'"
QDISC_COUNTERS = frozenset({"bytes", "packets", "drops", "overlimits", "backlog_packets", "backlog_bytes"})


def realise(
    plan: Plan,
    lowered: Lowered,
    seen: Mapping[str, Any],
    switch: Mapping[str, Any],
    versions: Mapping[str, str],
    groups: Mapping[str, Mapping[str, str]],
    pins: Mapping[str, Mapping[str, Any]],
    mounted: Mapping[str, Mapping[str, Any]],
    guests: Guests,
) -> Realised:
    """Per object: intended, applied, read back, by whom. MachineError where the kernel has it otherwise."""
    objects: dict[str, RealisedObject] = {}
    done = queueing(lowered)
    for path, entry in (*_vnics(plan, lowered, done, seen), *_of_hosts(plan, lowered, done, seen)):
        objects[path] = entry
    for name, guest in plan.world.guests.items():
        intended = guest.model_dump(mode="json", exclude={"vnics"})
        applied_there, there = guests.realised(name)
        placed = {"namespace": lowered.guests[name], **applied_there}
        read_back: dict[str, Any] = {
            **groups.get(name, {}),
            "sysctls": seen[lowered.guests[name]]["sysctls"],
            **_own_disk(name, guest, seen[lowered.guests[name]], mounted.get(name)),
            **there,
        }
        if name in pins:
            read_back["pin"] = dict(pins[name])
        objects[f"guests.{name}"] = RealisedObject(intended, placed, read_back, guest.platform)
    for bounded, bound in of_services(plan).items():
        placed = {"namespace": lowered.guests[str(bound.above)]}
        objects[bounded] = RealisedObject(bound.limits, placed, groups.get(bounded, {}), "kernel")
    for name, vswitch in plan.world.vswitches.items():
        built = lowered.vswitches[name]
        interface = {"interface": built.link}
        program = guests.switches.get(name)
        facts = program.facts(name) if program is not None else _bridge_facts(name, built, seen)
        objects[f"vswitches.{name}"] = RealisedObject(
            vswitch.model_dump(mode="json"), interface, facts, vswitch.kind
        )
    objects |= _shared(plan, lowered, done, seen)
    for name, link in plan.world.links.items():
        by = lowered.links[name]
        applied: dict[str, Any]
        if by == "soft_switch":
            applied = dict(lowered.soft_switch.links.get(name, {})) if lowered.soft_switch is not None else {}
            read_back = dict(switch)
        else:
            applied = {"ports": list(link.ends)}
            check_queues(name, lowered, done, seen)
            read_back = {
                end: _port_facts(end, lowered, seen) for end in link.ends if _port_place(end, lowered)
            }
        objects[f"links.{name}"] = RealisedObject(link.model_dump(mode="json"), applied, read_back, by)
    for name, entry_switch in plan.world.switches.items():
        used = sorted(set(lowered.links.values()))
        by = used[0] if used else "none"
        objects[f"switches.{name}"] = RealisedObject(entry_switch.model_dump(mode="json"), {}, {}, by)
    for name, routes in plan.world.routes.items():
        if PLATFORMS[plan.world.guests[name].platform].agentless:
            told = {"routes": [route.model_dump(mode="json") for route in routes]}
            objects[f"routes.{name}"] = RealisedObject(told, told, {}, "console")
            continue
        found = seen[lowered.guests[name]]["routes"]
        for route in routes:
            if not any(_same_route(route.to, route.via, each) for each in found):
                what = f"the kernel has no route to {route.to} via {route.via}"
                raise MachineError(f"routes.{name}", what, NOT_THERE)
        objects[f"routes.{name}"] = RealisedObject(
            {"routes": [route.model_dump(mode="json") for route in routes]}, {}, {"routes": found}, "kernel"
        )
    return Realised(objects, {**versions, **guests.conditions()})


def _own_disk(
    name: str, guest: Guest, seen: Mapping[str, Any], mounted: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The disk of a guest that shares this machine's files, as the kernel has it. MachineError where it is another.

    `mounted`: of one on a store, as it is served.
    """
    if mounted is None and not (is_folder(guest) and PLATFORMS[guest.platform].shares_files):
        return {}
    return {"disk": disks.read_back(f"guests.{name}", guest, seen, mounted)}


def _shared(
    plan: Plan,
    lowered: Lowered,
    done: Mapping[tuple[str, str], list[Operation]],
    seen: Mapping[str, Any],
) -> dict[str, RealisedObject]:
    """The queues that guests share in front of a wire. MachineError where one is not as planned."""
    found = {}
    for shared in shared_queues(plan):
        place = lowered.uplinks[shared.port]
        link = _link(seen, place, shared.path)
        operations = done.get((place.namespace, place.link), [])
        check_operations(f"hosts.{shared.host}.pushback", operations, place.link, link)
        intended = {"pushback": "uplink", "host": shared.host, "link": shared.link}
        applied = {"namespace": place.namespace, "interface": place.link, "waits_in": WAITING}
        found[shared.path] = RealisedObject(intended, applied, _facts(link), "kernel")
    return found


def _bridge_facts(name: str, built: BuiltSwitch, seen: Mapping[str, Any]) -> dict[str, Any]:
    """A bridge as the kernel has it. MachineError where it has none that is up."""
    bridge = _link(seen, Place(built.namespace, built.link), f"vswitches.{name}")
    if bridge["kind"] != "bridge" or not bridge["up"]:
        raise MachineError(f"vswitches.{name}", "the kernel shows no bridge that is up", NOT_THERE)
    links = seen[built.namespace]["links"]
    ports = sorted(link for link, state in links.items() if state["master"] == built.link)
    rules = {port: links[port].get("bridge_port") for port in ports}
    return {**_facts(bridge), "ports": ports, "port_rules": rules}


def _same_route(to: str, via: str, route: Mapping[str, Any]) -> bool:
    return bool(ip_interface(route["to"]).network == ip_interface(to).network and route["via"] == via)


def _link(seen: Mapping[str, Any], place: Place, path: str) -> Mapping[str, Any]:
    links: Mapping[str, Any] = seen[place.namespace]["links"]
    if place.link not in links:
        what = f"the kernel has no interface {place.link} in {place.namespace}"
        raise MachineError(path, what, NOT_THERE)
    found: Mapping[str, Any] = links[place.link]
    return found


def _facts(link: Mapping[str, Any]) -> dict[str, Any]:
    facts = {key: link[key] for key in ("kind", "mac", "mtu_bytes", "up", "offloads")}
    facts["coalescing"] = link["coalescing"] or "not offered"
    facts["qdiscs"] = [
        {key: value for key, value in qdisc.items() if key not in QDISC_COUNTERS} for qdisc in link["qdiscs"]
    ]
    if link.get("filters"):
        facts["filters"] = link["filters"]
    kinds = (qdisc["kind"] for qdisc in link["qdiscs"])
    if any(kind in QDISCS and QDISCS[kind].kernel.length_of_interface for kind in kinds):
        facts["queue_length_packets"] = link["queue_length_packets"]
    if link["addresses"]:
        facts["addresses"] = link["addresses"]
    return facts


def _vnics(
    plan: Plan,
    lowered: Lowered,
    done: Mapping[tuple[str, str], list[Operation]],
    seen: Mapping[str, Any],
) -> Iterator[tuple[str, RealisedObject]]:
    shared = sharing(plan)
    for guest, entry in plan.world.guests.items():
        for name, vnic in entry.vnics.items():
            path = f"guests.{guest}.vnics.{name}"
            if PLATFORMS[entry.platform].agentless:
                tap = lowered.machines[guest].taps[name]
                facts = _facts(_link(seen, tap, path))
                yield path, RealisedObject(vnic.model_dump(mode="json"), {"tap": tap.link}, facts, "tap")
                continue
            place = lowered.vnics[guest, name]
            link = _link(seen, place, path)
            _check_vnic(path, vnic, link)
            _check_offloads(path, vnic, link, PLATFORMS[entry.platform].locked_offloads)
            rates = [qdisc.get("rate_bit_per_s") for qdisc in link["qdiscs"] if qdisc.get("rate_bit_per_s")]
            if vnic.pushback_bit_per_s is not None and rates != [vnic.pushback_bit_per_s // 8 * 8]:
                what = f"pushback is {rates} bit/s in the kernel, not {vnic.pushback_bit_per_s}"
                raise MachineError(path, what, NOT_TAKEN)
            held = vnic.pushback_bit_per_s is not None or (
                vnic.vswitch in shared and not (entry.forwards or entry.bridges)
            )
            single = held and vnic.offloads == "off"
            if single and link["segments_at_once"] != 1:
                what = "TCP hands over more than one segment at once in spite of pushback"
                raise MachineError(path, what, CURE_SEGMENTS)
            if entry.licence_bit_per_s is not None and rates != [entry.licence_bit_per_s // 8 * 8]:
                what = f"the licence is {rates} bit/s in the kernel, not {entry.licence_bit_per_s}"
                raise MachineError(path, what, NOT_TAKEN)
            check_operations(path, done.get((place.namespace, place.link), []), place.link, link)
            applied = {"namespace": place.namespace, "interface": place.link}
            facts = _facts(link)
            switch = lowered.vswitches.get(str(vnic.vswitch))
            if switch is not None and switch.master is not None:
                port = lowered.ports[f"{guest}/{name}"]
                facts["port_rules"] = _port_rules(switch, vnic, port, seen, path)
            if vnic.queue is not None:
                check_queues(port_of(guest, name), lowered, done, seen, path)
                facts["port"] = _queued_port(path, lowered.ports[f"{guest}/{name}"], switch, seen)
            for host, there in _ports_there(plan, lowered, guest, name).items():
                if port_at(vnic, host).queue is None:
                    continue
                check_queues(port_there(guest, name, host), lowered, done, seen, path)
                switch = lowered.vswitches[vswitch_there(plan, guest, name, host)]
                facts[f"port at {host}"] = _queued_port(path, there, switch, seen)
            by = "tap" if guest in lowered.machines else vnic.network or "veth"
            yield path, RealisedObject(vnic.model_dump(mode="json"), applied, facts, by)


def _ports_there(plan: Plan, lowered: Lowered, guest: str, name: str) -> dict[str, Place]:
    """By host that a guest moves to: the port that waits there for one of its vNICs."""
    inside = lowered.machines.get(guest)
    if inside is None:
        return {}
    return {
        str(action.to): inside.legs[action.id].there[name]
        for action in moves(plan).get(guest, ())
        if action.to != plan.world.guests[guest].host
    }


def _queued_port(
    path: str, port: Place, switch: BuiltSwitch | None, seen: Mapping[str, Any]
) -> dict[str, Any]:
    """A port that has a queue, as the kernel has it. MachineError where its record's queues differ."""
    at_port = _link(seen, port, path)
    qos = switch.qos(port.link) if switch is not None else None
    if qos is not None and qos != LEFT_ALONE:
        check_qos(qos, at_port, path)
    return _facts(at_port)


def _check_vnic(path: str, vnic: Vnic, link: Mapping[str, Any]) -> None:
    """MachineError where the kernel has it otherwise than planned."""
    wanted = {
        "up": True,
        "mtu_bytes": vnic.mtu_bytes,
        "mac": vnic.mac.lower(),
        "addresses": sorted(str(ip_interface(text)) for text in vnic.ip),
    }
    has = {**{key: link[key] for key in ("up", "mtu_bytes", "mac")}, "addresses": _own_addresses(link)}
    for key, value in wanted.items():
        if has[key] != value:
            what = f"{key} is {has[key]} in the kernel, not {value} as planned"
            raise MachineError(path, what, CURE_VNIC.get(key, NOT_THERE))


def _check_offloads(path: str, vnic: Vnic, link: Mapping[str, Any], locked: Sequence[str] = ()) -> None:
    on = sorted(feature for feature in set(OFFLOADS_OFF) - set(locked) if link["offloads"].get(feature))
    if vnic.offloads == "off" and on:
        raise MachineError(path, f"offloads stayed on: {', '.join(on)}", CURE_OFFLOADS)


def _of_hosts(
    plan: Plan,
    lowered: Lowered,
    done: Mapping[tuple[str, str], list[Operation]],
    seen: Mapping[str, Any],
) -> Iterator[tuple[str, RealisedObject]]:
    """vNICs of hosts, by which guests are copied."""
    for host, place in lowered.hosts.items():
        vnic, path = plan.world.hosts[host].vnic, f"hosts.{host}.vnic"
        assert vnic is not None
        link = _link(seen, place, path)
        _check_vnic(path, vnic.model_copy(update={"ip": tuple(map(alone, vnic.ip))}), link)
        _check_offloads(path, vnic, link)
        check_operations(path, done.get((place.namespace, place.link), []), place.link, link)
        applied = {"namespace": place.namespace, "interface": place.link}
        yield path, RealisedObject(vnic.model_dump(mode="json"), applied, _facts(link), "veth")


def _port_rules(
    switch: BuiltSwitch, vnic: Vnic, port: Place, seen: Mapping[str, Any], path: str
) -> dict[str, bool]:
    """What the bridge does at the port, as read back. MachineError where it is not as planned."""
    has: dict[str, bool] = _link(seen, port, path)["bridge_port"] or {}
    rules = switch.rules(isolated=vnic.isolated) or Rules()
    floods = dict.fromkeys(
        ("unicast_flood", "multicast_flood", "broadcast_flood"), rules.flooding is not False
    )
    wants = {"isolated": bool(rules.isolated), "learning": rules.learning is not False, **floods}
    for key, wanted in wants.items():
        if has.get(key) is not wanted:
            what = f"{key} of its bridge port is {has.get(key)} in the kernel, not {wanted} as planned"
            raise MachineError(path, what, NOT_THERE)
    return has


def _own_addresses(link: Mapping[str, Any]) -> list[str]:
    """Without link-local ones, which the kernel makes."""
    return sorted(address for address in link["addresses"] if not ip_interface(address).is_link_local)


def _port_place(end: str, lowered: Lowered) -> Place | None:
    if end in lowered.uplinks:
        return lowered.uplinks[end]
    return lowered.ports.get(end)


def _port_facts(end: str, lowered: Lowered, seen: Mapping[str, Any]) -> dict[str, Any]:
    place = _port_place(end, lowered)
    assert place is not None
    return _facts(_link(seen, place, end))


def queueing(lowered: Lowered) -> dict[tuple[str, str], list[Operation]]:
    """What is done to the queues of each port: namespace and interface to operations, in order."""
    found: dict[tuple[str, str], list[Operation]] = {}
    inside = (step for guest in lowered.machines.values() for step in guest.steps)
    after = (op for bridge in lowered.vswitches.values() for op in bridge.afterwards)
    for op in (*(step.op for step in (*lowered.steps, *lowered.late, *inside)), *after):
        if isinstance(op, QUEUEING):
            found.setdefault((op.namespace, op.link), []).append(op)
    return found


def check_queues(
    link: str,
    lowered: Lowered,
    done: Mapping[tuple[str, str], list[Operation]],
    seen: Mapping[str, Any],
    where: str | None = None,
) -> None:
    """Compares disciplines, classes and filters of a link with what the kernel has. MachineError where they differ."""
    for (name, _), queue in lowered.queues.items():
        if name == link:
            has = seen[queue.namespace]["links"][queue.link]
            operations = done.get((queue.namespace, queue.link), [])
            check_operations(where or f"links.{link}", operations, queue.link, has)
