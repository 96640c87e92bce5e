"""What is wrong with a Plan on any arm: names of nothing, ends that cannot meet, a timeline that cannot be played.

What an arm cannot hold, it refuses itself. An arm passes its name, by which declarations say what it plays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS, bounded, played
from virtlab.catalogue.actions import CALL, commands_guest, playable, tunes_role
from virtlab.catalogue.declaration import NOT_PLAYED, why_not
from virtlab.catalogue.kinds import SIZE, SLOWEST_BIT_PER_S, STATES
from virtlab.catalogue.sockets import PORT_MAX, ROUND_ROBIN
from virtlab.metrics.declared import DECLARED, PROGRESS
from virtlab.plan import Action, Guest, Plan, Refusal, Role, Service, Vnic
from virtlab.planner.guests.clusters import active, entered, towards, ways_of_requests
from virtlab.planner.guests.disks import disk_mistakes
from virtlab.planner.guests.stored_disks import stored_disk_mistakes
from virtlab.planner.guests.swap import swap_mistakes
from virtlab.planner.mobility.copying import host_mistakes
from virtlab.planner.mobility.moves import come_into, writers
from virtlab.planner.queues.ports import is_port, queues
from virtlab.planner.topology.ends import bridging_mistakes, interfaces, role_ends, via_mistakes
from virtlab.planner.topology.layer_two import LayerTwo

MTU_MIN_BYTES = 68
MTU_MIN_IPV6_BYTES = 1280
MTU_MAX_BYTES = 65_535
QUOTA_PERIOD_NS = 100_000_000  # the kernel's default, in which a guest's share of a processor is counted
LIMITS = ("cpu_quota_ratio", "memory_bytes")  # of a guest, and of each process of a service
QUOTA_MIN_NS = 1_000_000  # Linux takes no shorter one (kernel/sched/core.c: min_cfs_quota_period)


def mistakes(plan: Plan, arm: str, layer_two: LayerTwo) -> Iterator[Refusal]:
    """Every mistake of a Plan, with its path and its cure."""
    checks = (
        _guests,
        stored_disk_mistakes,
        _addresses,
        host_mistakes,
        _pools,
        swap_mistakes,
        _vswitches,
        _routes,
    )
    for check in checks:
        yield from check(plan)
    yield from _roles(plan, arm)
    yield from _services(plan, arm)
    yield from _timeline(plan, arm)
    for name in plan.collect.packets:
        if name not in plan.roles:
            yield Refusal(f"collect.packets.{name}", "is not a role", "name a role of the file")
    yield from layer_two.mistakes(plan)


def discipline_mistakes(plan: Plan, arm: str) -> Iterator[Refusal]:
    """Queues of a discipline that nothing declares, or that the arm does not play."""
    for path, queue in queues(plan):
        declared = QDISCS.get(queue.kind)
        why = None if declared is None else declared.arms.get(arm, NOT_PLAYED)
        if declared is None or why is not None:
            reason = f"there is no queue discipline '{queue.kind}'"
            if why is not None:
                reason = f"the {arm} does not play {queue.kind}: {why}"
            yield Refusal(f"{path}.kind", reason, f"write one of {', '.join(played(QDISCS, arm))}")


def _refusal(path: str, reason: str, cure: str) -> Refusal:
    """A reason that brings a cure of its own, behind a semicolon, needs no other."""
    what, _, own = reason.partition("; ")
    return Refusal(path, what, own or cure)


def _at(guest: str, vnic: str) -> str:
    return f"guests.{guest}.vnics.{vnic}"


def _share(path: str, ratio: float | None) -> Iterator[Refusal]:
    if ratio is not None and round(ratio * QUOTA_PERIOD_NS) < QUOTA_MIN_NS:
        share = f"{100 * QUOTA_MIN_NS / QUOTA_PERIOD_NS:g} %"
        reason = f"the kernel holds no group to less than {share} of a CPU"
        yield Refusal(f"{path}.{LIMITS[0]}", reason, f"write at least '{share}'")


def _guests(plan: Plan) -> Iterator[Refusal]:
    macs: dict[str, str] = {}
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        if guest.host not in plan.world.hosts:
            yield Refusal(f"{path}.host", f"there is no host '{guest.host}'", "name a host of the file")
        yield from _share(path, guest.cpu_quota_ratio)
        yield from _balloon(path, guest)
        platform = PLATFORMS.get(guest.platform)
        if guest.disk is not None and platform is not None:
            yield from disk_mistakes(f"{path}.disk", name, guest.disk, platform, plan)
        yield from bridging_mistakes(path, guest)
        yield from _written(path, name, guest, plan)
        for own, vnic in guest.vnics.items():
            if vnic.network == "own":
                continue  # virtlab sets nothing of it
            at = _at(name, own)
            yield from _vnic(at, guest, vnic)
            mac = vnic.mac.lower()
            if mac in macs:
                yield Refusal(f"{at}.mac", f"{vnic.mac} is {macs[mac]}'s too", "give each vNIC its own MAC")
            macs[mac] = at


def _written(path: str, name: str, guest: Guest, plan: Plan) -> Iterator[Refusal]:
    """More memory is written to, over and over, than the guest has."""
    written = sum(int(role.parameters.get("working_set_bytes", 0)) for role in writers(plan, name))
    if guest.memory_bytes is not None and written > guest.memory_bytes:
        reason = f"its roles write to {written} B of memory, and it has {guest.memory_bytes} B"
        yield Refusal(f"{path}.memory_bytes", reason, "lower 'working_set', or give the guest more 'memory'")


def _balloon(path: str, guest: Guest) -> Iterator[Refusal]:
    if guest.balloon_bytes is None:
        return
    where, platform = f"{path}.balloon_bytes", PLATFORMS.get(guest.platform)
    if platform is not None and "balloon" not in platform.limits:
        reason = f"a {guest.platform} guest has no balloon to give memory back by"
        yield Refusal(where, reason, f"remove it, or {bounded('balloon')}")
    elif guest.memory_bytes is None:
        yield Refusal(where, "how much memory it gives that back of is not said", "write its 'memory', too")
    elif guest.balloon_bytes >= guest.memory_bytes:
        reason = f"a balloon of {guest.balloon_bytes} B leaves nothing of its {guest.memory_bytes} B"
        yield Refusal(where, reason, "make the balloon smaller, or give it more memory")


def _vnic(at: str, guest: Guest, vnic: Vnic) -> Iterator[Refusal]:
    least = MTU_MIN_IPV6_BYTES if any(":" in address for address in vnic.ip) else MTU_MIN_BYTES
    if not least <= vnic.mtu_bytes <= MTU_MAX_BYTES:
        reason = f"an MTU of {vnic.mtu_bytes} B cannot carry its addresses"
        yield Refusal(f"{at}.mtu_bytes", reason, f"write {least} B to {MTU_MAX_BYTES} B")
    platform = PLATFORMS.get(guest.platform)
    if vnic.vswitch is not None and platform is not None and platform.is_host:
        reason = f"a {guest.platform} guest stands on no virtual switch"
        yield Refusal(at, reason, "give it an uplink, or another platform")


def _addresses(plan: Plan) -> Iterator[Refusal]:
    owners: dict[object, str] = {}
    for name, guest in plan.world.guests.items():
        for own, _, address in interfaces(guest):
            path = _at(name, own)
            if address.ip in owners:
                reason = f"{address.ip} is {owners[address.ip]}'s too"
                yield Refusal(f"{path}.ip", reason, "give each vNIC its own address")
            owners[address.ip] = path


def _pools(plan: Plan) -> Iterator[Refusal]:
    """Pools of hosts that there are, and fit into what those have; guests in pools of their own hosts."""
    world = plan.world
    given: dict[str, int] = {}
    for name, pool in world.pools.items():
        given[pool.host] = given.get(pool.host, 0) + pool.cpus
        if pool.host not in world.hosts:
            yield Refusal(f"pools.{name}.host", f"there is no host '{pool.host}'", "name a host of the file")
        if all(guest.pool != name for guest in world.guests.values()) and not come_into(plan, name):
            yield Refusal(f"pools.{name}", "no guest is in it", "name it at a guest, or remove it")
    for host, cpus in given.items():
        own = world.hosts[host].cpus if host in world.hosts else None
        if own is not None and cpus > own:
            reason = f"pools of {cpus} processors on a host that has {own}"
            yield Refusal(f"hosts.{host}.cpus", reason, f"write 'cpus: {cpus}', or make the pools smaller")
    for name, guest in world.guests.items():
        path = f"guests.{name}.pool"
        if guest.pool is None:
            if guest.weight is not None:
                reason = "a weight is of guests that share a pool"
                yield Refusal(f"guests.{name}.weight", reason, "put the guest into a pool, or remove it")
            continue
        if guest.pool not in world.pools:
            yield Refusal(path, f"there is no pool '{guest.pool}'", "name a pool of its host")
        elif world.pools[guest.pool].host != guest.host:
            yield Refusal(path, f"'{guest.pool}' is of another host", "name a pool of its host")
        elif guest.cpu_quota_ratio is not None and guest.cpu_quota_ratio > world.pools[guest.pool].cpus:
            share, cpus = guest.cpu_quota_ratio, world.pools[guest.pool].cpus
            reason = f"a share of {share:g} processors in a pool that has {cpus}"
            yield Refusal(f"guests.{name}.cpu_quota_ratio", reason, "lower it, or make the pool larger")
        elif (guest.memory_bytes or 0) > (world.pools[guest.pool].memory_bytes or guest.memory_bytes or 0):
            reason = f"{guest.memory_bytes} B of memory in a pool that has {world.pools[guest.pool].memory_bytes} B"
            yield Refusal(f"guests.{name}.memory_bytes", reason, "lower it, or make the pool larger")


def _vswitches(plan: Plan) -> Iterator[Refusal]:
    for name, vswitch in plan.world.vswitches.items():
        path = f"vswitches.{name}"
        if vswitch.host not in plan.world.hosts:
            yield Refusal(f"{path}.host", f"there is no host '{vswitch.host}'", "name a host of the file")
        kind = VSWITCHES.get(vswitch.kind)
        if kind is not None and (unknown := kind.unknown(vswitch.parameters)):
            reason = f"{vswitch.kind} has no {', '.join(unknown)}"
            yield Refusal(f"{path}.parameters", reason, "remove them, or take an Open vSwitch")


def _routes(plan: Plan) -> Iterator[Refusal]:
    guests = plan.world.guests
    owned = {address.ip for guest in guests.values() for _, _, address in interfaces(guest)}
    for name, routes in plan.world.routes.items():
        for route in routes:
            path = f"routes.{name}"
            if name not in guests or route.vnic not in guests[name].vnics:
                yield Refusal(path, f"there is no vNIC '{route.vnic}' of '{name}'", "name one of the file")
            elif ip_address(route.via) not in owned:
                reason = f"no vNIC has the address of the next hop {route.via}"
                yield Refusal(path, reason, "name a router's address")


def _roles(plan: Plan, arm: str) -> Iterator[Refusal]:
    guests = plan.world.guests
    for name, role in plan.roles.items():
        path = f"roles.{name}"
        declared = WORKLOADS.get(role.workload)
        why = "there is no such workload" if declared is None else why_not(declared, arm, role.parameters)
        if declared is None or why is not None:
            reason = f"the {arm} does not play {role.workload}: {why}"
            yield _refusal(f"{path}.workload", reason, f"write one of {', '.join(played(WORKLOADS, arm))}")
            continue
        if (
            declared.command
            and not role.parameters.get("argv")
            and not _has_image(guests.get(str(role.from_)))
        ):
            yield Refusal(f"{path}.argv", f"{role.workload} without argv cannot be started", "add it")
        outside = declared.at_service is not None and role.to is None and "address" in role.parameters
        ends = (
            [("from", role.from_)] if declared.alone or outside else [("from", role.from_), ("to", role.to)]
        )
        missing = [(key, guest) for key, guest in ends if guest not in guests]
        for key, guest in missing:
            reason = "no guest is named" if guest is None else f"there is no guest '{guest}'"
            yield Refusal(f"{path}.{key}", reason, "name a guest of the file")
        if not missing and len(ends) > 1:
            for guest in entered(plan, role):
                if guest in guests:
                    yield from _pair(path, plan, towards(role, guest))
        if outside and not missing:
            yield from _outside(path, plan, role)
        if declared.at_service is not None and (service := role.parameters.get("service")) is not None:
            yield from _at_service(path, plan, role, service)


def _pair(path: str, plan: Plan, role: Role) -> Iterator[Refusal]:
    """What keeps two guests of the Plan from being the ends of one role."""
    if role.from_ == role.to:
        reason = "both ends are the same guest, so no link is crossed"
        yield Refusal(f"{path}.to", reason, "name another guest")
        return
    both = [plan.world.guests[str(end)] for end in (role.from_, role.to)]
    if all(vnic.network == "own" for guest in both for vnic in guest.vnics.values()):
        return  # existing hosts on their own network, whose addresses are read from them
    ends = role_ends(plan, role)
    if ends is None:
        reason = "its two ends have no address of one IP version"
        yield Refusal(path, reason, "give both IPv4, or both IPv6")
        return
    here, there = (plan.world.guests[end.guest].vnics[end.vnic] for end in ends)
    if not role.parameters.get("via") and here.isolated and there.isolated and here.vswitch == there.vswitch:
        reason = f"its two ends are isolated from each other on {here.vswitch}"
        yield Refusal(path, reason, "write 'isolate: false' at one of them")
    yield from via_mistakes(path, plan, role)


def _outside(path: str, plan: Plan, role: Role) -> Iterator[Refusal]:
    """What keeps a role from ending at an address outside."""
    platform = PLATFORMS.get(plan.world.guests[str(role.from_)].platform)
    if platform is None or not platform.existing:
        reason = f"{role.from_} is in a private world, which has no way out"
        yield Refusal(f"{path}.address", reason, "let 'from' be a host that exists already, or name a guest")
    try:
        ip_address(str(role.parameters["address"]))
    except ValueError as error:
        yield Refusal(f"{path}.address", str(error), "write an IP address")
    yield from _port(path, role)


def _port(path: str, role: Role) -> Iterator[Refusal]:
    port = role.parameters.get("port")
    if not isinstance(port, int) or not 1 <= port <= PORT_MAX:
        yield Refusal(f"{path}.port", f"{port!r} is not a port of a service", f"write 1 to {PORT_MAX}")


def _at_service(path: str, plan: Plan, role: Role, service: object) -> Iterator[Refusal]:
    """What keeps a role from ending at a service."""
    known = plan.world.services.get(str(service))
    if known is None:
        yield Refusal(f"{path}.service", f"there is no service '{service}'", "name a service of the Plan")
    elif role.to not in known.on:
        reason = f"'{service}' is not on {role.to}"
        yield Refusal(f"{path}.to", reason, f"write {' or '.join(known.on)}")
    elif active(known) is not None and role.to != active(known):
        reason = f"the active server of '{service}' is on {active(known)}"
        yield Refusal(
            f"{path}.to", reason, "name that guest; 'passive_share_ratio' says what enters at the others"
        )
    elif role.parameters.get(ROUND_ROBIN) and (active(known) is not None or len(known.on) < 2):
        reason = f"'{service}' does not have several servers that serve alike"
        yield Refusal(f"{path}.{ROUND_ROBIN}", reason, "remove it")
    elif active(known) is None and role.parameters.get("passive_share_ratio") is not None:
        reason = f"none of the servers of '{service}' is passive"
        yield Refusal(f"{path}.passive_share_ratio", reason, "name its 'active' guest, or remove it")
    yield from _port(path, role)


def _services(plan: Plan, arm: str) -> Iterator[Refusal]:
    services = plan.world.services
    begun: set[str] = set()
    while ready := {
        name for name, each in services.items() if name not in begun and begun.issuperset(each.needs)
    }:
        begun |= ready
    for name, service in services.items():
        path = f"services.{name}"
        declared = SERVICES.get(service.kind)
        why = "there is no such kind" if declared is None else why_not(declared, arm, service.parameters)
        if why is not None:
            cure = f"write one of {', '.join(played(SERVICES, arm))}"
            yield _refusal(f"{path}.kind", f"the {arm} does not play {service.kind}: {why}", cure)
        elif declared is not None:
            in_images = all(_has_image(plan.world.guests.get(guest)) for guest in service.on)
            known = {
                each.plan: each.required and not (each.in_image and in_images) for each in declared.parameters
            }
            for key in service.parameters.keys() - known.keys():
                yield Refusal(f"{path}.{key}", f"{service.kind} has no {key}", f"it has {', '.join(known)}")
            for key in [
                key for key, required in known.items() if required and not service.parameters.get(key)
            ]:
                yield Refusal(f"{path}.{key}", f"{service.kind} without {key} cannot be started", "add it")
            for key in LIMITS if arm in declared.stands_in else ():
                if service.parameters.get(key) is not None:
                    reason = f"the {arm} plays a {service.kind} by its cost, and bounds guests alone"
                    yield Refusal(f"{path}.{key}", reason, "give the bound to its guest, or remove it")
            if declared.port is not None:
                yield from _listening(path, plan, name, service)
            for key, text in declared.placed(service.parameters, service.on):
                yield _refusal(f"{path}.{key}", text, "name one of its guests")
        yield from _share(path, service.parameters.get(LIMITS[0]))
        beside = (
            service.parameters.get(declared.more_guests, ())
            if declared is not None and declared.more_guests
            else ()
        )
        for guest in (*service.on, *beside):
            if guest not in plan.world.guests:
                yield Refusal(f"{path}.on", f"there is no guest '{guest}'", "name guests of the Plan")
                continue
            for key in LIMITS:
                own, whole = service.parameters.get(key), getattr(plan.world.guests[guest], key)
                if own is not None and whole is not None and own > whole:
                    reason = f"it is more than its guest {guest} has"
                    yield Refusal(f"{path}.{key}", reason, "give it less, or the guest more")
        missing = [other for other in service.needs if other not in services]
        for other in missing:
            yield Refusal(f"{path}.needs", f"there is no service '{other}'", "name services of the Plan")
        yield from _forwarding(path, plan, name)
        if name not in begun and not missing:
            reason = f"it waits for {', '.join(other for other in service.needs if other not in begun)}, which never begins"
            yield Refusal(f"{path}.needs", reason, "break the cycle")


def _has_image(guest: Guest | None) -> bool:
    """Whether it is a container with an image, which can name a program of its own."""
    platform = PLATFORMS.get(guest.platform) if guest is not None else None
    return platform is not None and bool(platform.runtimes) and guest is not None and guest.image is not None


def _listening(path: str, plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    """What keeps a service from listening at the port that its `ready` names."""
    port = service.ready.port if service.ready is not None else None
    if port is None:
        yield Refusal(
            f"{path}.ready", f"{service.kind} listens at the port of its check, and has none", "add it"
        )
    for other, each in plan.world.services.items():
        shared = [guest for guest in service.on if guest in each.on]
        if other != name and shared and each.ready is not None and each.ready.port == port is not None:
            reason = f"port {port} of {shared[0]} is that of '{other}' already"
            yield Refusal(f"{path}.ready.port", reason, "name another port")


def _forwarding(path: str, plan: Plan, service: str) -> Iterator[Refusal]:
    """What keeps passive servers from reaching their active one."""
    for way in ways_of_requests(plan):
        if way.service == service and {way.passive, way.active} <= plan.world.guests.keys():
            yield from _pair(f"{path}.on", plan, way.role)


def _operated(path: str, plan: Plan, action: Action) -> Iterator[Refusal]:
    """Services that an action names and that are not there."""
    polled = action.until.call.partition(".")[0] if action.until is not None and action.until.call else None
    services = plan.world.services
    for key, name in (("service", action.service), ("until", polled)):
        if name is not None and name not in services:
            yield Refusal(f"{path}.{key}", f"there is no service '{name}'", "name a service of the Plan")
    if action.do == CALL.name and action.service is None:
        yield Refusal(f"{path}.service", "no service is named", "name a service of the Plan")
    service = services.get(str(action.service or polled))
    kind = SERVICES.get(service.kind) if service is not None else None
    if service is None or kind is None:
        return
    if action.do == CALL.name:
        if action.op not in kind.operations:
            cure = f"it has {', '.join(kind.operations)}" if kind.operations else "remove the action"
            yield Refusal(f"{path}.op", f"{kind.name} has no operation '{action.op}'", cure)
        elif kind.operations[str(action.op)].of_one and "guest" not in action.args:
            cure = f"write 'guest' with one of {', '.join(service.on)}"
            yield Refusal(f"{path}.args", f"'{action.op}' needs a guest", cure)
        for key, value in action.args.items():
            if key != "guest" or value not in service.on:
                cure = f"write 'guest' with one of {', '.join(service.on)}, or leave it out"
                yield Refusal(f"{path}.args", f"{key} cannot be {value!r}", cure)
    elif action.until is not None and action.until.call is not None:
        progress = action.until.call.partition(".")[2]
        if progress not in kind.progresses or action.until.op is not None:
            cure = (
                f"write {' or '.join(f'{polled}.{name}' for name in kind.progresses)}, without op and value"
            )
            yield Refusal(f"{path}.until", f"{kind.name} has no progress '{progress}' that is compared", cure)


def _timeline(plan: Plan, arm: str) -> Iterator[Refusal]:
    actions = {action.id: action.do for action in plan.timeline}
    started: dict[str, str] = {}
    for action in plan.timeline:
        path = f"timeline.{action.id}"
        yield from _action(path, plan, action, arm, started)
        yield from _operated(path, plan, action)
        for event in action.after.events() if action.after is not None else ():
            yield from _event(f"{path}.after", event, actions)
    for name, window in plan.windows.items():
        for event in (window.from_, window.to):
            yield from _event(f"windows.{name}", event, actions)


def _action(path: str, plan: Plan, action: Action, arm: str, started: dict[str, str]) -> Iterator[Refusal]:
    declared = ACTIONS.get(action.do)
    why = "there is no such action" if declared is None else declared.arms.get(arm, NOT_PLAYED)
    if declared is None or why is not None:
        able = playable() if declared is None else played(ACTIONS, arm)
        yield _refusal(path, f"cannot {action.do}: {why}", f"use {', '.join(able)}")
    elif tunes_role(action.do) and action.link is not None:
        yield from _slowed(path, plan, action)
    elif "role" in declared.keys and action.role not in plan.roles:
        yield Refusal(f"{path}.role", f"there is no role '{action.role}'", "name a role of the file")
    elif "guest" in declared.keys and action.guest not in plan.world.guests:
        yield Refusal(f"{path}.guest", f"there is no guest '{action.guest}'", "name a guest of the Plan")
    elif commands_guest(action.do) and not action.argv:
        yield Refusal(path, "names no command", "give it 'argv'")
    elif tunes_role(action.do):
        yield from _tuned(path, action, plan.roles[str(action.role)])
    elif declared.to_role == "begins":
        if (before := started.setdefault(str(action.role), action.id)) != action.id:
            reason = f"role '{action.role}' was started by '{before}' before"
            yield Refusal(path, reason, "give the second part a role of its own")
    elif action.until is not None and action.until.series is not None:
        reason = "a run waits for a time, an event, a metric or a service, not for a series"
        yield Refusal(f"{path}.until", reason, "write 'for', or wait for an event with 'after'")
    elif action.until is not None and action.until.metric is not None:
        yield from _polled(path, plan, action.until.metric, arm)


def _polled(path: str, plan: Plan, polled: str, arm: str) -> Iterator[Refusal]:
    """What keeps a wait from polling a metric."""
    name, _, key = polled.partition(".")
    role = plan.roles.get(name)
    declared = None if role is None else WORKLOADS.get(role.workload)
    if role is None or declared is None:
        yield Refusal(f"{path}.until", f"there is no role '{name}'", "name a role of the Plan")
        return
    if arm not in declared.told_by:
        reason = f"a run of the {arm} does not know while it plays what has come to a {role.workload}"
        cure = "write 'for', wait for an event with 'after', or run the file on the testbed"
        yield Refusal(f"{path}.until", reason, cure)
        return
    known = list(role.parameters.get(DECLARED) or {}) if declared.command else [PROGRESS]
    if key not in known:
        reason = f"'{key}' is not known of '{name}' while it runs"
        yield Refusal(
            f"{path}.until", reason, f"it has {', '.join(known) or 'none; declare one in its metrics'}"
        )


def _tuned(path: str, action: Action, role: Role) -> Iterator[Refusal]:
    declared = WORKLOADS.get(role.workload)
    tunable = {} if declared is None else declared.tunable
    least = {name: 0 if parameter.kind is SIZE else 1 for name, parameter in tunable.items()}
    for parameter, value in action.args.items():
        if parameter not in least or not isinstance(value, int) or value < least[parameter]:
            cure = f"set {' or '.join(least)} to a whole number" if least else "stop the role instead"
            yield Refusal(f"{path}.args", f"cannot set {parameter} to {value!r} while the role runs", cure)


def _slowed(path: str, plan: Plan, action: Action) -> Iterator[Refusal]:
    """What is wrong with the rate or the state that a link gets."""
    link = plan.world.links.get(str(action.link))
    if link is None or is_port(str(action.link), link):
        yield Refusal(f"{path}.link", f"there is no link '{action.link}'", "name a link of the Plan")
        return
    if set(action.args) == {"state"} and action.args["state"] in STATES:
        return
    rate = action.args.get("rate_bit_per_s")
    if set(action.args) != {"rate_bit_per_s"} or not isinstance(rate, int) or rate < SLOWEST_BIT_PER_S:
        cure = f"set rate_bit_per_s to a whole number, at least {SLOWEST_BIT_PER_S}, or state to up or down"
        yield Refusal(f"{path}.args", f"cannot set {action.args!r} of a link", cure)
    elif rate > link.rate_bit_per_s:
        reason = f"link '{action.link}' has {link.rate_bit_per_s} bit/s, and can be slowed only"
        yield Refusal(f"{path}.args", reason, f"set at most {link.rate_bit_per_s} bit/s")


def _event(path: str, event: str, actions: Mapping[str, str]) -> Iterator[Refusal]:
    name, _, word = event.rpartition(".")
    declared = ACTIONS.get(actions.get(name, ""))
    if name not in actions:
        reason = f"'{event}' is of no action of this timeline"
        yield Refusal(path, reason, "name an action's id and its event")
    elif declared is not None and declared.events and word not in declared.events:
        reason = f"'{declared.name}' has no event '{word}'"
        yield Refusal(path, reason, f"it has {', '.join(sorted(declared.events))}")
