"""Hosts between which guests are copied over links have a vNIC of their own in the Plan, and no other host has one."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.mobility.copying import unaddressed
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator.moves import refused as refused_by_simulator
from virtlab.simulator.moves import way
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.moves import refused as refused_by_testbed
from virtlab.testbed.steps.operations import (
    AddressAdd,
    ForwardingAdd,
    LinkSet,
    NeighbourAdd,
    RouteAdd,
    VethAdd,
)
from virtlab.testbed.vswitches.ovs_rules import OvsBridge

FILE = """\
version: 1
name: move
title: A guest moves
hosts:
  h1: {platform: qemu, memory: 256 MB}
  h2: {}
  h3: {}
topology: star
link: {rate: 100 Mbit/s}
network: {arp: ARP}
roles:
  probe: {workload: rtt, from: h3.g1, to: h1.g1, size: 100 B ip_packet, interval: 5 ms, count: 1000}
timeline:
  - {id: load, do: start, role: probe}
  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, timeout: 30 s, on_timeout: cancel, after: load.started + 1 s}
  - {id: end, do: stop, role: probe, after: {any: [go.finished, go.cancelled]}}
windows: {measured: {from: load.started, to: end.done}}
"""
ROUTED = """\
version: 1
name: routed
title: A router between both hosts
hosts:
  h1: {platform: qemu, memory: 256 MB}
  h2: {}
routers: {r: {}}
links:
  first: {ends: [h1, r], rate: 100 Mbit/s}
  second: {ends: [h2, r], rate: 100 Mbit/s}
network: {arp: live}
roles:
  probe: {workload: rtt, from: h2.g1, to: h1.g1, interval: 5 ms, count: 1000}
timeline:
  - {id: load, do: start, role: probe}
  - {id: go, do: migrate, guest: h1.g1, to: h2, over: network, timeout: 30 s, on_timeout: cancel, after: load.started + 1 s}
  - {id: end, do: stop, role: probe, after: {any: [go.finished, go.cancelled]}}
windows: {measured: {from: load.started, to: end.done}}
"""


def planned(move: str = "over: network", text: str = FILE, arp: str = "live", **swap: str) -> Plan:
    text = text.replace("MOVE", move).replace("ARP", arp)
    for old, new in swap.items():
        text = text.replace(old, new)
    experiment = load_text(text)
    return plan_run(experiment, experiment.points()[0], 0)


def changed(plan: Plan, **world: Any) -> Plan:
    return plan.model_copy(update={"world": plan.world.model_copy(update=world)})


def test_both_hosts_of_a_copy_have_an_address_among_the_guests_and_no_other_host_has_one() -> None:
    plan = planned()
    own = {name: host.vnic for name, host in plan.world.hosts.items()}
    assert own["h3"] is None
    of_guests = [
        ip_interface(text) for guest in plan.world.guests.values() for text in guest.vnics["eth0"].ip
    ]
    of_hosts = [ip_interface(vnic.ip[0]) for vnic in own.values() if vnic is not None]
    standing = [(vnic.vswitch, vnic.pushback_bit_per_s) for vnic in own.values() if vnic is not None]
    assert standing == [("h1.br", None), ("h2.br", None)], (
        "guests share the queue of their host's wire, and so it does"
    )
    assert {each.network for each in of_hosts} == {each.network for each in of_guests}
    assert len({each.ip for each in (*of_hosts, *of_guests)}) == len(of_hosts) + len(of_guests)
    assert plan.because["hosts.h1.vnic"] == plan.because["hosts.h2.vnic"] == "timeline[1]"
    assert '"vnic"' in plan.canonical()
    assert list(mistakes(plan, "testbed", LayerTwo(plan))) == []


def test_a_host_is_held_back_at_its_wires_rate_where_its_guests_are() -> None:
    plan = planned(**{"h2: {}": "h2: {pushback: guest}"})
    rates = [host.vnic.pushback_bit_per_s for host in plan.world.hosts.values() if host.vnic is not None]
    assert rates == [None, 10**8]


@pytest.mark.slow
def test_a_hosts_offloads_are_those_of_the_guests_around() -> None:
    assert [host.vnic.offloads for host in planned().world.hosts.values() if host.vnic] == ["off", "off"]
    kept = planned(text=FILE.replace("network: {", "network: {offloads: default, "))
    assert [host.vnic.offloads for host in kept.world.hosts.values() if host.vnic] == ["default", "default"]


@pytest.mark.parametrize("move", ["over: machine", "bandwidth: 10 MB/s", "mode: cold, over: network"])
def test_what_crosses_no_link_gives_no_host_an_address(move: str) -> None:
    plan = planned(move)
    assert all(host.vnic is None for host in plan.world.hosts.values())
    assert not lower(plan).hosts
    assert list(refused_by_testbed(plan)) == []


def test_a_copy_over_ipv6_goes_where_guests_have_no_ipv4() -> None:
    plan = planned(**{"{arp: live}": "{arp: live, ipv4: none, ipv6: 'fd00::/48'}"})
    there = plan.world.hosts["h2"].vnic
    assert there is not None
    copied = lower(plan).machines["h1.g1"].legs["go"].copied
    assert copied is not None
    assert copied.uri == f"tcp:[{ip_interface(there.ip[0]).ip}]:4444"


def test_who_cannot_be_copied_over_links_is_refused_by_both_arms_in_the_same_words() -> None:
    plan = planned(text=ROUTED)
    assert all(host.vnic is None for host in plan.world.hosts.values())
    found = [[each for each in refused(plan) if each.path == "timeline.go.over"] for refused in ARMS]
    assert [len(each) for each in found] == [1, 1]
    assert found[0] == found[1]
    assert found[0][0].reason == "no links lead from h1 to h2 without a router"
    assert found[0][0].cure == "write 'over: machine', or give both hosts uplinks"


ARMS = (refused_by_testbed, refused_by_simulator)


def test_a_plan_whose_hosts_have_no_address_is_refused_by_both_arms() -> None:
    plan = planned()
    hosts = {name: host.model_copy(update={"vnic": None}) for name, host in plan.world.hosts.items()}
    bare = changed(plan, hosts=hosts)
    found = [[each for each in refused(bare) if each.path == "timeline.go.over"] for refused in ARMS]
    assert found[0] == found[1] != []
    assert "larger pool" in found[0][0].cure
    assert unaddressed("timeline.go", plan.timeline[1], plan) is None


def test_a_network_without_a_free_address_is_told() -> None:
    text = FILE.replace("{arp: ARP}", "{arp: live, ipv4: 10.0.0.0/29}").replace(
        "  h2: {}", "  h2: {guests: 4}"
    )
    plan = planned(text=text)
    assert plan.world.hosts["h1"].vnic is None
    (found,) = [each for each in refused_by_testbed(plan) if each.path == "timeline.go.over"]
    assert found.reason == "no address of the guests' network is left for h1 itself"


def test_a_vnic_of_a_host_that_is_anothers_is_a_mistake() -> None:
    plan = planned()
    hosts, own = dict(plan.world.hosts), plan.world.hosts["h1"].vnic
    assert own is not None
    taken = own.model_copy(update={"ip": plan.world.guests["h3.g1"].vnics["eth0"].ip, "vswitch": "h2.br"})
    hosts["h1"] = hosts["h1"].model_copy(update={"vnic": taken})
    wrong = changed(plan, hosts=hosts)
    found = [each for each in mistakes(wrong, "testbed", LayerTwo(wrong)) if each.path == "hosts.h1.vnic"]
    assert {each.reason for each in found} == {
        "its host has no virtual switch 'h2.br'",
        f"{ip_interface(taken.ip[0]).ip} is guests.h3.g1.vnics.eth0's too",
    }


def test_the_simulated_copy_goes_between_the_switches_on_which_the_addresses_are() -> None:
    assert way(planned(), "h1", "h2") == [["h1-s1", "ab"], ["s1-h2", "ab"]]


@pytest.mark.parametrize("arp", ["static", "live"])
def test_a_host_is_lowered_as_a_station_of_its_switch(arp: str) -> None:
    plan = planned(arp=arp)
    out = lower(plan)
    steps = [step.op for step in out.steps if step.because == "hosts.h1.vnic"]
    vnics = [plan.world.hosts[host].vnic for host in ("h1", "h2")]
    assert vnics[0] is not None
    assert vnics[1] is not None
    (veth,) = [op for op in steps if isinstance(op, VethAdd)]
    assert {end.namespace for end in veth.ends} == {"host:h1"}
    assert [end.master for end in veth.ends] == ["br", None]
    assert veth.ends[1].mac == vnics[0].mac
    near, far = (str(ip_interface(vnic.ip[0]).ip) for vnic in vnics if vnic is not None)
    assert [op.address for op in steps if isinstance(op, AddressAdd)] == [f"{near}/32"]
    assert [(op.to, op.via) for op in steps if isinstance(op, RouteAdd)] == [(f"{far}/32", None)]
    known = {op.address: op.mac for op in steps if isinstance(op, NeighbourAdd)}
    entries = {(op.namespace, op.mac) for op in steps if isinstance(op, ForwardingAdd)}
    assert known == {far: vnics[1].mac}
    if arp == "live":
        assert not entries
        return
    assert entries == {(f"host:h{number}", vnics[0].mac) for number in (1, 2, 3)}
    assert out.soft_switch is not None
    (table,) = (out.soft_switch.forwarding or {}).values()
    assert len({table[vnic.mac] for vnic in vnics if vnic is not None}) == 2


def test_open_vswitch_has_a_rule_for_the_host() -> None:
    plan = planned(arp="static", **{"h1: {platform": "h1: {vswitch: ovs-netdev, platform"})
    out = lower(plan)
    switch, own = out.vswitches["h1.br"], plan.world.hosts["h1"].vnic
    assert isinstance(switch, OvsBridge)
    assert own is not None
    assert switch.addresses[own.mac] == "_host.port"


@pytest.mark.slow
def test_the_machines_of_a_copy_run_in_their_hosts_networks_and_listen_beside_each_other() -> None:
    too = "guest: h1.g2, to: h2, over: network, timeout: 30 s, on_timeout: cancel"
    more = f"  - {{id: too, do: migrate, {too}, after: go.started}}\n"
    plan = planned(**{"{platform: qemu": "{guests: 2, platform: qemu", "windows:": f"{more}windows:"})
    out = lower(plan)
    copied = [out.machines[guest].legs[move].copied for guest, move in (("h1.g1", "go"), ("h1.g2", "too"))]
    assert [(each.source, each.destination, each.port) for each in copied if each is not None] == [
        ("host:h1", "host:h2", 4444),
        ("host:h1", "host:h2", 4445),
    ]
    assert not [
        step
        for step in out.steps
        if isinstance(step.op, LinkSet) and step.op.namespace.startswith("guest:h1")
    ]
    here = lower(planned("over: machine")).machines["h1.g1"].legs["go"].copied
    assert here is not None
    assert (here.source, here.destination, here.uri) == ("guest:h1.g1", "guest:h1.g1", "tcp:127.0.0.1:4444")
