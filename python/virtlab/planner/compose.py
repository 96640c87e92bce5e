"""One design point and repetition as a Plan: pure, the same on every machine.

Every object says in `because` which place of the file requires it. Seeds and MAC addresses come from names
by hash, so one more guest or level changes those of no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.disks import BLOCK_BYTES
from virtlab.catalogue.platforms import AT_EXISTING
from virtlab.catalogue.platforms.libvirt import DEFAULT
from virtlab.experiment import DesignPoint, Experiment, Study
from virtlab.experiment.read.model import DiskSpec, HostSpec, PlacedGuestSpec
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.services import ServiceSpec
from virtlab.experiment.work.timeline import ActionSpec
from virtlab.experiment.world.pools import pool_name, pool_of
from virtlab.experiment.world.queues import QueueSpec
from virtlab.experiment.world.topology import Attachment, Station, image_of
from virtlab.plan import (
    Action,
    Collect,
    Disk,
    Guest,
    Host,
    Limits,
    Link,
    LinkQueues,
    Match,
    Plan,
    Pool,
    Port,
    Queue,
    QueueClass,
    Ready,
    Role,
    SeriesRequest,
    Service,
    Switch,
    Trigger,
    Vnic,
    Vswitch,
    Wait,
    Window,
    World,
)
from virtlab.plan.seeds import run_seed
from virtlab.planner.mobility.copying import addressed
from virtlab.planner.mobility.moves import destinations, moves
from virtlab.planner.queues.default_pushback import default_pushback, pushback_of
from virtlab.planner.timeline import Actions, length_ns, timeline_of, windows_of
from virtlab.planner.topology.routes import routes_of

RUN_SLACK_NS = 60 * 10**9  # of a run's limit beyond twice its timeline: building, and a slow machine


def plan_run(experiment: Experiment, point: DesignPoint, repetition: int) -> Plan:
    """The Plan of one run. `repetition` counts from 0."""
    study = experiment.study(point)
    actions = timeline_of(study)
    world = _world(study, default_pushback(experiment))
    roles = {name: _role(study, role) for name, role in study.roles.items() if role.active}
    planned = Plan(
        point=dict(point.levels),
        repetition=repetition,
        seed=run_seed(experiment.seed, point.levels, repetition),
        world=world,
        roles=roles,
        timeline=tuple(_action(action) for action in actions),
        windows={
            name: Window(from_=begin, to=end) for name, (begin, end) in windows_of(study, actions).items()
        },
        collect=_collect(study),
        limits=_limits(study, actions),
        because=_because(study, actions, world),
    )
    return addressed(_ports_there(study, planned))


def _ports_there(study: Study, plan: Plan) -> Plan:
    """The Plan with ports as they are at the hosts that guests move to, where a host says another queue or rate."""
    guests = dict(plan.world.guests)
    for name in moves(plan):
        if name not in guests:
            continue  # which is refused elsewhere
        ports = {host: _port(study, host) for host in destinations(plan, name)}
        vnics = {own: _elsewhere(vnic, ports) for own, vnic in guests[name].vnics.items()}
        guests[name] = guests[name].model_copy(update={"vnics": vnics})
    if guests == plan.world.guests:
        return plan
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})


def _elsewhere(vnic: Vnic, ports: Mapping[str, Port]) -> Vnic:
    if vnic.vswitch is None:
        return vnic
    own = Port(queue=vnic.queue, port_rate_bit_per_s=vnic.port_rate_bit_per_s)
    return vnic.model_copy(update={"there": {host: port for host, port in ports.items() if port != own}})


def _port(study: Study, host: str) -> Port:
    """The ports of a host towards its guests."""
    spec, queue = study.wiring.hosts.get(host), study.port_queues.get(host)
    if spec is None or queue is None:
        return Port()
    return Port(queue=_queue(queue), port_rate_bit_per_s=spec.port_rate)


def _world(study: Study, pushback: str) -> World:
    wiring, network = study.wiring, study.network
    hosts = {name: _host(study, name, pushback) for name in [*wiring.hosts, *wiring.routers]}
    return World(
        hosts=hosts,
        guests={
            name: _guest(study, station, hosts[station.host]) for name, station in wiring.stations.items()
        },
        vswitches={
            name: Vswitch(
                kind=bridge.kind,
                host=bridge.host,
                uplinks=bridge.uplinks,
                learning=bridge.learning,
                flooding=bridge.flooding,
                parameters=bridge.parameters,
            )
            for name, bridge in wiring.bridges.items()
        },
        switches={name: Switch(processing_ns=spec.processing) for name, spec in wiring.switches.items()},
        links={
            name: Link(
                ends=cable.ports,
                rate_bit_per_s=cable.spec.rate,
                propagation_ns=cable.spec.propagation,
                realise=cable.spec.realise,
                queue=LinkQueues(ab=_queue(study.queues[name][0]), ba=_queue(study.queues[name][1])),
            )
            for name, cable in wiring.cables.items()
        },
        routes={
            name: routes
            for name, routes in routes_of(wiring, study.addresses).items()
            if name not in wiring.routers or wiring.routers[name].routing == "static"
        },
        arp=network.arp,
        ipv6_noise=network.ipv6_noise,
        spin=network.spin,
        pools={
            pool_name(name, pool): Pool(
                host=name, cpus=spec.cpus, by=spec.by, memory_bytes=spec.memory, swap_bytes=spec.swap
            )
            for name, host in wiring.hosts.items()
            for pool, spec in (host.pools or {}).items()
        },
        services={name: _service(service) for name, service in study.services.items()},
    )


def _service(spec: ServiceSpec) -> Service:
    return Service(
        kind=spec.kind,
        on=spec.on,
        needs=spec.needs,
        ready=Ready(**spec.ready) if spec.ready is not None else None,
        **spec.parameters,
    )


def _host(study: Study, name: str, default: str) -> Host:
    spec = study.wiring.hosts.get(name)
    if spec is None:
        return Host()
    if not PLATFORMS[spec.platform].existing:
        return Host.model_validate({"pushback": pushback_of(study, name, default), "cpus": spec.cpus})
    uri = (spec.hypervisor or DEFAULT) if spec.domain is not None else None
    return Host(
        at=AT_EXISTING, address=spec.address, interface=spec.interface, domain=spec.domain, hypervisor=uri
    )


def _guest(study: Study, station: Station, on: Host) -> Guest:
    spec = station.spec
    host = study.wiring.hosts.get(station.host)
    platform = PLATFORMS[station.platform]
    vnics = {}
    ports = study.port_queues.get(station.host) if station.name not in study.wiring.routers else None
    for name, attachment in station.vnics.items():
        member = (station.name, name)
        if attachment.network == "own":
            vnics[name] = Vnic(network="own", mac="", offloads="default")
            continue
        vnics[name] = Vnic(
            network=attachment.network,
            vswitch=attachment.vswitch,
            uplink=attachment.uplink,
            mac=study.addresses.macs[member],
            ip=tuple(study.addresses.of.get(member, ())),
            mtu_bytes=_said(spec.mtu, host and host.mtu, study.network.mtu),
            offloads=_said(spec.offloads, host and host.offloads, study.network.offloads),
            model=_said(spec.vnic_model, host and host.vnic_model, None) if platform.vnic_models else None,
            isolated=attachment.isolated,
            pushback_bit_per_s=_held_at(station, attachment, on),
            queue=_queue(ports) if ports is not None else None,
            port_rate_bit_per_s=host.port_rate if host is not None and ports is not None else None,
        )
    return Guest(
        platform=station.platform,
        host=station.host,
        vnics=vnics,
        forwards=station.forwards,
        bridges=station.bridges,
        licence_bit_per_s=_licence(study, station),
        routing=study.wiring.routers[station.name].routing
        if station.name in study.wiring.routers
        else "static",
        cpu_quota_ratio=_said(spec.cpu, host and host.cpu, None),
        memory_bytes=_said(spec.memory, host and host.memory, None),
        swap_bytes=_said(spec.swap, host and host.swap, None) if "swap" in platform.limits else None,
        balloon_bytes=_said(spec.balloon, host and host.balloon, None)
        if "balloon" in platform.limits
        else None,
        image=image_of(study.wiring, station),
        runtime=_said(spec.runtime, host and host.runtime, None) if platform.runtimes else None,
        seccomp=_said(spec.seccomp, host and host.seccomp, None) if platform.runtimes else None,
        user_namespace=_said(spec.user_namespace, host and host.user_namespace, None)
        if platform.runtimes
        else None,
        firmware=_said(spec.firmware, host and host.firmware, None) if platform.disks else None,
        vcpus=_said(spec.vcpus, host and host.vcpus, None) if "vcpus" in platform.limits else None,
        disk=_disk(_said(spec.disk, host and host.disk, None)),
        idle=_said(spec.idle, host and host.idle, "sleep"),
        pin=study.wiring.routers[station.name].pin if station.name in study.wiring.routers else "none",
        pool=_pool(station, host),
        weight=station.spec.weight if isinstance(station.spec, PlacedGuestSpec) else None,
    )


def _disk(spec: DiskSpec | None) -> Disk | None:
    if spec is None:
        return None
    on_store = spec.medium == "service"
    return Disk(
        size_bytes=spec.size,
        medium="service" if on_store else "file" if spec.medium == "file" else "memory",
        service=spec.service,
        block_bytes=(spec.block or BLOCK_BYTES) if on_store else None,
        write_cache_bytes=spec.write_cache,
        rate_byte_per_s=spec.rate,
        latency_ns=spec.latency,
    )


def _pool(station: Station, host: HostSpec | None) -> str | None:
    """The pool that a guest is in; a router is in none."""
    if host is None or not isinstance(station.spec, PlacedGuestSpec):
        return None
    own = pool_of(host, station.spec)
    return pool_name(station.host, own) if own is not None else None


def _held_at(station: Station, attachment: Attachment, on: Host) -> int | None:
    """The rate at which a vNIC itself holds back its sender."""
    if station.forwards or station.bridges or on.pushback == "none":
        return None
    if on.pushback == "uplink" and attachment.vswitch is not None:
        return None
    return attachment.rate_bit_per_s


def _licence(study: Study, station: Station) -> int | None:
    router = study.wiring.routers.get(station.name)
    return router.licence if router is not None else None


def _said(own: Any, hosts: Any, default: Any) -> Any:
    """What the guest says, else its host, else the default."""
    if own is not None:
        return own
    return hosts if hosts is not None else default


def _queue(spec: QueueSpec) -> Queue:
    return Queue(
        kind=spec.kind,
        by=spec.by,
        limit_packets=spec.limit_packets,
        limit_bytes=spec.limit_bytes,
        parameters=spec.parameters,
        classes={name: QueueClass.model_validate(entry) for name, entry in spec.classes.items()},
        match=tuple(Match.model_validate(rule) for rule in spec.match),
        default=spec.default,
    )


def _action(action: ActionSpec) -> Action:
    after = action.after
    fields = dict(action.fields)
    if fields.get("until") is not None:
        fields["until"] = Wait(**fields["until"])
    trigger = (
        Trigger(event=after.event, plus_ns=after.plus_ns, any=after.any, all=after.all)
        if after is not None
        else None
    )
    return Action.model_validate({"id": action.id, "do": action.do, "after": trigger, **fields})


def _role(study: Study, role: RoleSpec) -> Role:
    parameters = dict(role.parameters)
    if role.part == "load" and "duration_ns" in parameters:
        parameters["duration_ns"] = (
            length_ns(study, timeline_of(study)) * 2 + RUN_SLACK_NS
        )  # until it is stopped
    if role.meter != "virtlab":
        parameters["meter"] = role.meter
    if role.family is not None:
        parameters["family"] = role.family
    if role.service is not None:
        parameters["service"] = role.service
    own = study.search is not None and study.search.role == role.name
    trial = {"duration_ns", study.search.parameter} if own and study.search is not None else set()
    tunable = role.declaration.tunable.keys() | trial
    return Role.model_validate(
        {
            "workload": role.workload,
            "from": role.source,
            "to": role.target or None,
            "tunable": tuple(
                name for name in _ordered(role, trial) if name in tunable and name in parameters
            ),
            **parameters,
        }
    )


def _ordered(role: RoleSpec, more: Iterable[str]) -> list[str]:
    """Names of a role's parameters in the Plan, as they are declared; then those of which the Plan's name says more."""
    return list(dict.fromkeys([*(one.plan for one in role.declaration.parameters), *sorted(more)]))


def _collect(study: Study) -> Collect:
    active = [name for name, role in study.roles.items() if role.active]
    wanted = study.collect.packets
    return Collect(
        packets=tuple(name for name in active if wanted is None or name in wanted),
        series=tuple(
            SeriesRequest(source=source, every_ns=every) for source, every in study.collect.series.items()
        ),
        telemetry_ns=study.collect.telemetry,
        counters=tuple(study.collect.counters),
    )


def _limits(study: Study, actions: Actions) -> Limits:
    limits = study.limits
    run_ns = limits.run if limits.run is not None else 2 * length_ns(study, actions) + RUN_SLACK_NS
    return Limits(run_ns=run_ns, disk_bytes=limits.disk)


def _because(study: Study, actions: Actions, world: World) -> dict[str, str]:
    wiring = study.wiring
    because = {f"hosts.{name}": f"hosts.{name}" for name in wiring.hosts}
    because |= {f"hosts.{name}": f"routers.{name}" for name in wiring.routers}
    for name, station in wiring.stations.items():
        because[f"guests.{name}"] = station.because
        because |= {f"guests.{name}.vnics.{vnic}": station.because for vnic in station.vnics}
    because |= {f"pools.{name}": f"hosts.{name.replace('.', '.pools.')}" for name in world.pools}
    because |= {f"vswitches.{name}": bridge.because for name, bridge in wiring.bridges.items()}
    because |= {f"switches.{name}": _switch_because(study, name) for name in wiring.switches}
    because |= {f"links.{name}": cable.because for name, cable in wiring.cables.items()}
    because |= {f"routes.{name}": "routers" for name in world.routes}
    because |= {f"services.{name}": f"services.{name}" for name in study.services}
    because |= {f"roles.{name}": f"roles.{name}" for name, role in study.roles.items() if role.active}
    derived = study.timeline is None
    for position, action in enumerate(actions):
        role = action.fields.get("role")
        source = (
            f"roles.{role}"
            if role is not None
            else f"timing.{'warmup' if action.id == 'settle' else 'drain'}"
        )
        because[f"timeline.{action.id}"] = source if derived else f"timeline[{position}]"
    return because


def _switch_because(study: Study, name: str) -> str:
    shaped = any(
        cable.because.startswith("topology") for cable in study.wiring.cables.values() if name in cable.boxes
    )
    return "topology.switches" if shaped else f"switches.{name}"
