"""A Plan as Steps: the typed kernel operations that build it, in ordered batches, each with its reason.

Hosts are namespaces that hold their virtual switch. A guest is a namespace with a veth into its host's bridge; a native
guest is the host's own namespace and its vNIC the uplink. The other end of every uplink lies in the namespace `fabric`,
where links and physical switches are: played by the soft switch, or built from bridges with netem or HTB at the ports.

Pure: no kernel is asked here; what depends on the machine comes in as `Machine`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from virtlab.catalogue import PLATFORMS
from virtlab.plan import Action, Plan, Vnic
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.mobility.moves import COLD, mode_of, moved, moves, source_of, vswitch_there
from virtlab.planner.queues.ports import port_at
from virtlab.planner.queues.pushback import shared_queues, sharing
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.planner.topology.port_names import port_of, port_there
from virtlab.testbed.build import fabric, hosts
from virtlab.testbed.build.ports import at_guest_port
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.kinds.findings import USUAL, Machine
from virtlab.testbed.kinds.lowered import Inside, Leg, Lowered, Place
from virtlab.testbed.kinds.registry import vswitches
from virtlab.testbed.kinds.user_namespaces import users_of
from virtlab.testbed.queues.pacing import in_front_of_wire, licence, pushback
from virtlab.testbed.steps.names import FABRIC, guest_namespace, host_namespace, interface
from virtlab.testbed.steps.neighbours import neighbours
from virtlab.testbed.steps.operations import (
    OFFLOADS_OFF,
    AddressAdd,
    BridgeAdd,
    BridgePortSet,
    Claim,
    End,
    ForwardingAdd,
    HomeAdd,
    LinkSet,
    NamespaceAdd,
    NeighbourAdd,
    OffloadSet,
    Operation,
    RouteAdd,
    Step,
    SysctlSet,
    TapAdd,
    VethAdd,
)
from virtlab.units.ethernet import MTU_BYTES

QUIET_IPV6 = {
    "accept_ra": "0",
    "autoconf": "0",
    "router_solicitations": "0",
    "accept_dad": "0",
    "addr_gen_mode": "1",
    # Groups joined are reported again soon (RFC 3810), not at any moment of a run's first second. In ms that are
    # whole ticks of every usual kernel.
    "mldv1_unsolicited_report_interval": "20",
    "mldv2_unsolicited_report_interval": "20",
}
# What a guest keeps of datagrams whose last fragments were lost: at the kernel's own 4 MiB and 30 s, one overloaded
# design point leaves it deaf to fragments for half a minute. A gigabit link carries less than this in the time that
# they are kept.
FRAGMENTS = {"high_thresh": str(512 << 20), "time": "2"}
# A kernel with br_netfilter calls the machine's packet filter for each IP packet across any bridge, rules or none:
# a fifth of what a small packet costs there.
UNFILTERED_BRIDGES = {
    f"net/bridge/bridge-nf-call-{name}": "0" for name in ("arptables", "ip6tables", "iptables")
}


def lower(plan: Plan, machine: Machine = USUAL) -> Lowered:
    """The Plan's Steps. The Plan was checked before: dangling names are a programming error here."""
    layer_two = LayerTwo(plan)
    out = Lowered()
    realised = fabric.realisations(plan, machine.link)
    out.links = realised
    mtus = _segment_mtus(plan, layer_two)
    _namespaces(plan, machine, out)
    taken: dict[str, set[str]] = {}
    _bridges(plan, mtus, machine, taken, out)
    _guest_ports(plan, taken, out)
    _ports_of_destinations(plan, taken, out)
    hosts.ports(plan, taken, out)
    _uplinks(plan, layer_two, mtus, taken, out)
    _in_front_of_wires(plan, out)
    if realised:
        kernel = {name for name, by in realised.items() if by in {"netem", "shaping"}}
        if kernel:
            out.add(f"links.{min(kernel)}", *_unfiltered(FABRIC, machine))
            fabric.build(plan, realised, mtus, out)
        else:
            out.soft_switch = fabric.soft_switch_request(plan, layer_two, out.fabric_ports)
        for port in sorted(out.fabric_ports.values()):
            out.add(f"links.{_link_of(plan, port, out)}", LinkSet(FABRIC, port, up=True))
    _guests(plan, machine, out)
    hosts.configured(plan, out)
    if plan.world.arp == "static":
        _forwarding(plan, layer_two, out)
        _moved(plan, layer_two, out)
    return out


def _link_of(plan: Plan, port: str, out: Lowered) -> str:
    end = next(end for end, name in out.fabric_ports.items() if name == port)
    return next(name for name, link in plan.world.links.items() if end in link.ends)


def _segment_mtus(plan: Plan, layer_two: LayerTwo) -> dict[Box, int]:
    """Largest vNIC MTU that each switching box has to carry; 1500 where no vNIC is near."""
    largest: dict[Box, int] = {}
    for _, vnic, ports in layer_two.stations(plan):
        for box in ports:
            largest[box] = max(largest.get(box, 0), vnic.mtu_bytes)
    return {box: largest.get(box, 1500) for box in layer_two.edges}


def _has_ipv6(plan: Plan, guests: list[str]) -> bool:
    return any(
        ":" in text for name in guests for vnic in plan.world.guests[name].vnics.values() for text in vnic.ip
    )


def _ipv6(namespace: str, wanted: bool, plan: Plan, machine: Machine) -> Iterator[Operation]:
    """What a namespace does with IPv6, said before it has interfaces, so that every one of them inherits it."""
    if not machine.has_ipv6 or plan.world.ipv6_noise:
        return
    if wanted:
        for key, value in QUIET_IPV6.items():
            yield SysctlSet(namespace, f"net/ipv6/conf/default/{key}", value)
    else:
        yield SysctlSet(namespace, "net/ipv6/conf/default/disable_ipv6", "1")


def _fragments(namespace: str, ipv6: bool, machine: Machine) -> Iterator[Operation]:
    """Reassembly that an overload does not spoil for what follows it."""
    for key, value in FRAGMENTS.items():
        yield SysctlSet(namespace, f"net/ipv4/ipfrag_{key}", value)
        if ipv6 and machine.has_ipv6:
            yield SysctlSet(namespace, f"net/ipv6/ip6frag_{key}", value)


def _namespaces(plan: Plan, machine: Machine, out: Lowered) -> None:
    natives: dict[str, list[str]] = {}
    users = users_of(plan)
    for name, guest in plan.world.guests.items():
        if PLATFORMS[guest.platform].is_host:
            natives.setdefault(guest.host, []).append(name)
            out.guests[name] = host_namespace(guest.host)
    for host in plan.world.hosts:
        namespace = host_namespace(host)
        wanted = _has_ipv6(plan, natives.get(host, [])) or hosts.has_ipv6(plan, host)
        out.add(f"hosts.{host}", NamespaceAdd(namespace), *_ipv6(namespace, wanted, plan, machine))
        for native in natives.get(host, []):
            out.add(f"guests.{native}", *_fragments(namespace, wanted, machine))
    for name, guest in plan.world.guests.items():
        if PLATFORMS[guest.platform].existing:
            out.guests[name] = guest_namespace(name)
            # Its name in our books; it is elsewhere.
            out.add(f"guests.{name}", NamespaceAdd(guest_namespace(name)))
            interface_there = plan.world.hosts[guest.host].interface or "(its own)"
            for vnic_name, vnic in guest.vnics.items():
                link = "vxlan0" if vnic.network == "vxlan" else interface_there
                out.vnics[name, vnic_name] = Place(out.guests[name], link)
        elif not PLATFORMS[guest.platform].shares_kernel:
            out.guests[name] = guest_namespace(name)
            out.machines[name] = Inside()
            out.add(
                f"guests.{name}", NamespaceAdd(guest_namespace(name))
            )  # where its process runs: without a network
            _kernel_of_its_own(name, plan, out)
        elif not PLATFORMS[guest.platform].is_host:
            namespace = guest_namespace(name)
            out.guests[name] = namespace
            wanted = _has_ipv6(plan, [name])
            # A container's runtime makes its disk; one on a store is mounted once the store can be reached.
            in_memory = PLATFORMS[guest.platform].shares_files and is_folder(guest)
            disk = guest.disk if in_memory else None
            disk_bytes = disk.size_bytes if disk is not None else None
            out.add(f"guests.{name}", NamespaceAdd(namespace, users.get(name), disk_bytes))
            out.add(f"guests.{name}", *_ipv6(namespace, wanted, plan, machine))
            out.add(f"guests.{name}", *_fragments(namespace, wanted, machine))
    if plan.world.links:
        first = f"links.{next(iter(plan.world.links))}"
        out.add(first, NamespaceAdd(FABRIC), *_ipv6(FABRIC, wanted=False, plan=plan, machine=machine))


def _kernel_of_its_own(guest: str, plan: Plan, out: Lowered) -> None:
    """Names the network of a virtual machine. Its interfaces were there first, so IPv6 is set on each by itself."""
    namespace, path = out.guests[guest], f"guests.{guest}"
    machine = Machine(has_ipv6=True)
    wanted = _has_ipv6(plan, [guest])
    out.add_inside(guest, path, HomeAdd(namespace), *_ipv6(namespace, wanted, plan, machine))
    out.add_inside(guest, path, *_fragments(namespace, wanted, machine))
    for name, vnic in plan.world.guests[guest].vnics.items():
        own = f"{path}.vnics.{name}"
        link = interface(name, {place.link for place in _places(guest, out)})
        out.vnics[guest, name] = Place(namespace, link)
        out.add_inside(guest, own, Claim(namespace, link, vnic.mac))
        for said in _ipv6(namespace, wanted, plan, machine):
            if isinstance(said, SysctlSet):
                path_there = said.path.replace("/default/", f"/{link}/")
                out.add_inside(guest, own, SysctlSet(namespace, path_there, said.value))
        if vnic.mtu_bytes != MTU_BYTES:
            out.add_inside(guest, own, LinkSet(namespace, link, mtu_bytes=vnic.mtu_bytes))


def _places(guest: str, out: Lowered) -> list[Place]:
    return [place for (owner, _), place in out.vnics.items() if owner == guest]


def _bridges(
    plan: Plan, mtus: Mapping[Box, int], machine: Machine, taken: dict[str, set[str]], out: Lowered
) -> None:
    for name, vswitch in plan.world.vswitches.items():
        namespace = host_namespace(vswitch.host)
        if namespace not in taken:
            out.add(f"vswitches.{name}", *_unfiltered(namespace, machine))
        names = taken.setdefault(namespace, set())
        link = interface(name.removeprefix(f"{vswitch.host}."), names)
        built = vswitches.of(vswitch.kind).built(vswitch, namespace, link, plan.world.arp == "static")
        out.vswitches[name] = built
        out.add(f"vswitches.{name}", *built.made(mtus[Box("vswitch", name)]))


def _unfiltered(namespace: str, machine: Machine) -> Iterator[Operation]:
    if machine.filters_bridges:
        for path, value in UNFILTERED_BRIDGES.items():
            yield SysctlSet(namespace, path, value)


def _guest_ports(plan: Plan, taken: dict[str, set[str]], out: Lowered) -> None:
    """A veth per vNIC, born as a port of its bridge: by host, so that one socket takes many in one call."""
    by_host: dict[str, list[tuple[str, str, Vnic]]] = {}
    for guest, entry in plan.world.guests.items():
        for name, vnic in entry.vnics.items():
            if vnic.vswitch is not None:
                by_host.setdefault(entry.host, []).append((guest, name, vnic))
    for host, vnics in by_host.items():
        namespace = host_namespace(host)
        ups: list[tuple[str, Operation]] = []
        for guest, name, vnic in vnics:
            switch = out.vswitches[str(vnic.vswitch)]
            inside = out.guests[guest]
            port = interface(f"{guest}.{name}", taken.setdefault(namespace, set()))
            path = f"guests.{guest}.vnics.{name}"
            out.join_guest(switch, port_of(guest, name), vnic, port)
            if PLATFORMS[plan.world.guests[guest].platform].late_ports:
                place = Place(namespace, port)
                out.machines[guest].taps[name] = out.ports[f"{guest}/{name}"] = place
                queued = at_guest_port(port_of(guest, name), vnic, namespace, port, out)
                claim = Claim(namespace, port, back_end_mac(vnic.mac))
                member = LinkSet(namespace, port, mtu_bytes=vnic.mtu_bytes, master=switch.master)
                rest = (up for _, up in _port_ups(switch, path, vnic, port))
                out.late += [Step(op, path) for op in (claim, member, *queued, *rest)]
                continue
            if guest in out.machines:
                offloads = vnic.offloads == "default"
                out.add(path, TapAdd(namespace, port, vnic.mtu_bytes, switch.master, offloads=offloads))
                out.machines[guest].taps[name] = out.ports[f"{guest}/{name}"] = Place(namespace, port)
                out.add(path, *at_guest_port(port_of(guest, name), vnic, namespace, port, out))
                ups += _port_ups(switch, path, vnic, port)
                continue
            link = interface(name, taken.setdefault(inside, set()))
            near = End(namespace, port, mtu_bytes=vnic.mtu_bytes, master=switch.master)
            out.add(path, VethAdd((near, End(inside, link, mac=vnic.mac, mtu_bytes=vnic.mtu_bytes))))
            out.vnics[guest, name] = Place(inside, link)
            out.ports[f"{guest}/{name}"] = Place(namespace, port)
            out.add(path, *at_guest_port(port_of(guest, name), vnic, namespace, port, out))
            ups += _port_ups(switch, path, vnic, port)
        for path, up in ups:
            out.add(path, up)


def _ports_of_destinations(plan: Plan, taken: dict[str, set[str]], out: Lowered) -> None:
    """Taps of guests that will move, on the virtual switches of the hosts that they move to."""
    for guest, actions in moves(plan).items():
        inside, looped = out.machines[guest], False
        taps = {plan.world.guests[guest].host: dict(inside.taps)}
        for action in actions:
            host, path = str(action.to), f"timeline.{action.id}"
            inside.legs[action.id] = leg = Leg(copied=hosts.copied(plan, guest, action, out))
            if not looped and (leg.copied is None or leg.copied.address == hosts.LOOPBACK):
                looped = True  # which the copy crosses
                out.add(path, LinkSet(out.guests[guest], "lo", up=True))
            if host not in taps:
                taps[host] = _taps_at(host, guest, path, plan, taken, out)
            leg.there = taps[host]
        _networks_of_machines(inside)


def _taps_at(
    host: str, guest: str, path: str, plan: Plan, taken: dict[str, set[str]], out: Lowered
) -> dict[str, Place]:
    """One for each vNIC of a guest, on the virtual switches of a host to which it moves."""
    entry, namespace, found = plan.world.guests[guest], host_namespace(host), {}
    for name, here in entry.vnics.items():
        vnic, switch = port_at(here, host), out.vswitches[vswitch_there(plan, guest, name, host)]
        port = interface(f"{guest}.{name}", taken.setdefault(namespace, set()))
        offloads = vnic.offloads == "default"
        queued = port_there(guest, name, host)
        out.join_guest(switch, queued, vnic, port)
        out.add(path, TapAdd(namespace, port, vnic.mtu_bytes, switch.master, offloads=offloads))
        out.add(path, *at_guest_port(queued, vnic, namespace, port, out))
        found[name] = Place(namespace, port)
        for _, up in _port_ups(switch, path, vnic, port):
            out.add(path, up)
    return found


def _networks_of_machines(inside: Inside) -> None:
    """Each machine listens where the copy to it arrives, and connects from there for the next."""
    legs = list(inside.legs.values())
    sources = [leg.copied.source if leg.copied is not None else None for leg in legs]
    inside.network = sources[0]
    for leg, onwards in zip(legs, [*sources[1:], None], strict=True):
        leg.network = leg.copied.destination if leg.copied is not None else onwards


def back_end_mac(mac: str) -> str:
    """The address by which domain 0's end of a guest's port is known: its guest's with a first octet of its own.

    >>> back_end_mac("02:00:00:00:00:07")
    'fe:00:00:00:00:07'
    """
    return f"fe:{mac.partition(':')[2]}"


def _port_ups(switch: BuiltSwitch, path: str, vnic: Vnic, port: str) -> Iterator[tuple[str, Operation]]:
    rules = switch.rules(isolated=vnic.isolated)
    if rules is not None:
        yield path, BridgePortSet(switch.namespace, port, rules)
    yield path, LinkSet(switch.namespace, port, up=True)


def _uplinks(
    plan: Plan, layer_two: LayerTwo, mtus: Mapping[Box, int], taken: dict[str, set[str]], out: Lowered
) -> None:
    """A veth per physical port of a host: this side in the host, that side in the fabric."""
    natives = {
        vnic.uplink: (guest, name, vnic)
        for guest, entry in plan.world.guests.items()
        for name, vnic in entry.vnics.items()
        if vnic.uplink is not None
    }
    ends = [(end, name) for name, link in plan.world.links.items() for end in link.ends]
    sharers = sharing(plan)
    number = 0
    for end, link_name in ends:
        box = layer_two.owner.get(end)
        if box is None:
            continue  # a port of a physical switch
        far = interface(f"p{number}", taken.setdefault(FABRIC, set()))
        number += 1
        out.fabric_ports[end] = far
        if box.kind == "vswitch":
            switch = out.vswitches[box.name]
            namespace, mtu = switch.namespace, mtus[box]
            link = interface(end.rpartition(".")[2], taken.setdefault(namespace, set()))
            near = End(namespace, link, mtu_bytes=mtu, master=switch.master)
            switch.join_uplink(link, shared=box.name in sharers, mtu_bytes=mtu, names=taken[namespace])
            path = f"links.{link_name}"
        else:
            guest, name, vnic = natives[end]
            namespace, mtu = out.guests[guest], vnic.mtu_bytes
            link = interface(name, taken.setdefault(namespace, set()))
            near = End(namespace, link, mac=vnic.mac, mtu_bytes=mtu)
            path = f"guests.{guest}.vnics.{name}"
            out.vnics[guest, name] = Place(namespace, link)
        out.uplinks[end] = Place(namespace, link)
        out.add(path, VethAdd((near, End(FABRIC, far, mtu_bytes=mtu))))
    for end, place in out.uplinks.items():
        box = layer_two.owner[end]
        if box.kind == "vswitch":
            rules = out.vswitches[box.name].rules()
            if rules is not None:
                out.add(box.path, BridgePortSet(place.namespace, place.link, rules))
            out.add(box.path, LinkSet(place.namespace, place.link, up=True))
    for name, switch in out.vswitches.items():
        out.add(f"vswitches.{name}", *switch.raised())


def _in_front_of_wires(plan: Plan, out: Lowered) -> None:
    """The queues that guests share, where no queue of the kernel's is in front of the wire already."""
    for shared in shared_queues(plan):
        place = out.uplinks[shared.port]
        if out.links[shared.link] != "shaping":
            out.add(f"hosts.{shared.host}", *in_front_of_wire(place.namespace, place.link, shared))


def _guests(plan: Plan, machine: Machine, out: Lowered) -> None:
    shared = sharing(plan)
    known = neighbours(plan) if plan.world.arp == "static" else {}
    # A native guest sends from its host's uplink: the queue of a link that the kernel realises holds it back itself.
    shaped = {(queue.namespace, queue.link) for queue in out.queues.values()}
    for guest, entry in plan.world.guests.items():
        if PLATFORMS[entry.platform].existing:
            continue
        namespace = out.guests[guest]
        asking = _speaks_ecn(plan, guest)
        if asking is not None:
            out.add_inside(guest, f"roles.{asking}", SysctlSet(namespace, "net/ipv4/tcp_ecn", "1"))
        if entry.forwards:
            out.add_inside(guest, f"guests.{guest}", *_forwards(namespace, _has_ipv6(plan, [guest]), machine))
        out.add_inside(guest, f"guests.{guest}", LinkSet(namespace, "lo", up=True))
        for name, vnic in entry.vnics.items():
            place = out.vnics[guest, name]
            path = f"guests.{guest}.vnics.{name}"
            if vnic.offloads == "off":
                locked = PLATFORMS[entry.platform].locked_offloads
                off = {feature: value for feature, value in OFFLOADS_OFF.items() if feature not in locked}
                out.add_inside(guest, path, OffloadSet(namespace, place.link, off))
            up = LinkSet(namespace, place.link, up=True)
            addresses = [AddressAdd(namespace, place.link, address) for address in vnic.ip]
            announced = list(_announced(plan, guest, namespace, place.link))
            out.add_inside(guest, path, *([*announced, *addresses, up] if announced else [up, *addresses]))
            by_link = (namespace, place.link) in shaped
            behind = vnic.vswitch in shared and not (entry.forwards or entry.bridges)
            held = pushback(namespace, place.link, vnic, by_link=by_link, shared=behind)
            out.add_inside(guest, path, *held)
            if entry.licence_bit_per_s is not None:
                out.add_inside(guest, path, *licence(namespace, place.link, vnic, entry.licence_bit_per_s))
            for address, mac in known.get((guest, name), {}).items():
                out.add_inside(guest, path, NeighbourAdd(namespace, place.link, address, mac))
        if entry.bridges:
            _bridge_inside(guest, [out.vnics[guest, name] for name in entry.vnics], plan, machine, out)
        for route in plan.world.routes.get(guest, ()):
            link = out.vnics[guest, route.vnic].link
            out.add_inside(guest, f"routes.{guest}", RouteAdd(namespace, link, route.to, route.via))


def _announced(plan: Plan, guest: str, namespace: str, link: str) -> Iterator[Operation]:
    """Has the kernel of a guest that boots at another host say where it is, as its link comes up: it may serve alone,
    and switches that learn would still send to where it was.
    """
    boots = any(mode_of(action) == COLD for action in moves(plan).get(guest, ()))
    if boots and plan.world.arp == "live":
        yield SysctlSet(namespace, f"net/ipv4/conf/{link}/arp_notify", "1")
        if _has_ipv6(plan, [guest]):
            yield SysctlSet(namespace, f"net/ipv6/conf/{link}/ndisc_notify", "1")


def _speaks_ecn(plan: Plan, guest: str) -> str | None:
    """A role whose connections of the guest ask for congestion marks."""
    roles = plan.roles.items()
    return next(
        (name for name, role in roles if guest in (role.from_, role.to) and role.parameters.get("ecn")), None
    )


def _bridge_inside(guest: str, ports: list[Place], plan: Plan, machine: Machine, out: Lowered) -> None:
    """A guest's own bridge over its vNICs, with an address of its own: theirs are those of flows through it."""
    namespace = out.guests[guest]
    digest = hashlib.sha256(f"bridge/{guest}".encode()).digest()
    mac = ":".join(f"{byte:02x}" for byte in (6, *digest[:5]))
    link = interface("bridge", {place.link for place in ports})
    mtu = max(vnic.mtu_bytes for vnic in plan.world.guests[guest].vnics.values())
    path = f"guests.{guest}"
    if guest not in out.machines:
        out.add_inside(guest, path, *_unfiltered(namespace, machine))
    out.add_inside(guest, path, BridgeAdd(namespace, link, mac=mac, mtu_bytes=mtu))
    out.add_inside(guest, path, *(LinkSet(namespace, place.link, master=link) for place in ports))
    out.add_inside(guest, path, LinkSet(namespace, link, up=True))


def _forwards(namespace: str, ipv6: bool, machine: Machine) -> Iterator[Operation]:
    yield SysctlSet(namespace, "net/ipv4/ip_forward", "1")
    for scope in ("all", "default"):
        # A router between two of its own networks would otherwise send redirects, and distrust sources.
        yield SysctlSet(namespace, f"net/ipv4/conf/{scope}/send_redirects", "0")
        yield SysctlSet(namespace, f"net/ipv4/conf/{scope}/rp_filter", "0")
    if machine.has_ipv6 and ipv6:
        yield SysctlSet(namespace, "net/ipv6/conf/all/forwarding", "1")


def _moved(plan: Plan, layer_two: LayerTwo, out: Lowered) -> None:
    """Entries that change when a guest moves: those of a world in which it is at its destination from the start."""
    for guest, actions in moves(plan).items():
        worlds = {plan.world.guests[guest].host: layer_two}
        for action in actions:
            to = str(action.to)
            worlds.setdefault(to, LayerTwo(moved(plan, guest, to)))
            _entries_of_leg(guest, action, (worlds[source_of(plan, action)], worlds[to]), plan, out)


def _entries_of_leg(
    guest: str, action: Action, worlds: tuple[LayerTwo, LayerTwo], plan: Plan, out: Lowered
) -> None:
    """`worlds`: before and after."""
    entry, leg = plan.world.guests[guest], out.machines[guest].legs[action.id]
    before, after = worlds
    for name, vnic in entry.vnics.items():
        known = before.ports_towards_vnic(guest, name)
        for box, port in after.ports_towards_vnic(guest, name).items():
            if known.get(box) == port:
                continue
            if box.kind == "switch":
                leg.relocated.setdefault(box.name, {})[vnic.mac] = port
            elif box.kind == "vswitch":
                own = box.name == vswitch_there(plan, guest, name, str(action.to))
                place = leg.there[name] if own else out.uplinks[port]
                relocated = out.vswitches[box.name].relocated(vnic.mac, place.link)
                if relocated is None:
                    leg.interfaces.setdefault(box.name, {})[vnic.mac] = place.link
                else:
                    leg.moved.append(Step(relocated, f"timeline.{action.id}"))


def _forwarding(plan: Plan, layer_two: LayerTwo, out: Lowered) -> None:
    """Every bridge knows from the start behind which of its ports each vNIC is."""
    entries: dict[Box, list[Step]] = {Box("vswitch", name): [] for name in plan.world.vswitches}
    claimed = [step.op for step in out.late if isinstance(step.op, Claim)]
    late = {Place(claim.namespace, claim.name) for claim in claimed}
    for path, vnic, ports in layer_two.stations(plan):
        for box, port in ports.items():
            if box.kind == "vswitch":
                place = out.ports.get(port) or out.uplinks[port]
                known = out.vswitches[box.name].known(vnic.mac, place.link)
            elif box.kind == "bridge":
                inside, _, inner = port.rpartition("/")
                place = out.vnics[inside, inner]
                known = ForwardingAdd(place.namespace, place.link, vnic.mac)
            else:
                continue
            if known is None:
                continue
            step = Step(known, path)
            if place in late:
                out.late.append(step)
            elif box.kind == "bridge" and inside in out.machines:
                out.machines[inside].steps.append(step)
            else:
                entries.setdefault(box, []).append(step)
    for steps in entries.values():
        out.steps.extend(steps)
