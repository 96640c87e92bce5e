"""Shapes become the wires that a person would draw."""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run


def plan_of(text: str) -> Plan:
    experiment = load_text("version: 1\nname: t\n" + text)
    return plan_run(experiment, experiment.points()[0], 0)


ROLE = "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("hosts: 2\ntopology: none\n", ["h1-h2"]),
        ("hosts: 2\ntopology: {shape: line, switches: 0}\n", ["h1-h2"]),
        ("hosts: 2\ntopology: line\n", ["h1-s1", "s1-h2"]),
        ("hosts: 2\ntopology: {shape: line, switches: 3}\n", ["h1-s1", "s1-s2", "s2-s3", "s3-h2"]),
        ("hosts: 4\ntopology: {shape: line, switches: 2}\n", ["h1-s1", "s1-s2", "s1-h2", "s2-h3", "s2-h4"]),
        ("hosts: 4\ntopology: star\n", ["h1-s1", "s1-h2", "s1-h3", "s1-h4"]),
        ("hosts: 2\ntopology: {shape: star, switches: 3}\n", ["h1-s2", "s1-s2", "s1-s3", "s3-h2"]),
        ("hosts: 2\ntopology: {shape: tree, switches: 4}\n", ["h1-s3", "s1-s2", "s1-s3", "s2-s4", "s4-h2"]),
        ("hosts: 2\ntopology: {shape: line, switches: 1, device: router}\n", ["h1-r1", "r1-h2"]),
        (
            "hosts: {h1: {joins: s2}, h2: {joins: s1}}\ntopology: {shape: line, switches: 2}\n",
            ["h1-s2", "s1-s2", "s1-h2"],
        ),
    ],
)
def test_a_shape_has_its_links(text: str, links: list[str]) -> None:
    assert sorted(plan_of(text + ROLE).world.links) == sorted(links)


def test_two_switches_in_a_line_are_wired_as_in_the_golden_plan() -> None:
    world = plan_of("hosts: 2\ntopology: {shape: line, switches: 2}\n" + ROLE).world
    assert {name: link.ends for name, link in world.links.items()} == {
        "h1-s1": ("h1.up", "s1.p1"), "s1-s2": ("s1.p2", "s2.p1"), "s2-h2": ("s2.p2", "h2.up"),
    }  # fmt: skip
    assert {name: vswitch.uplinks for name, vswitch in world.vswitches.items()} == {
        "h1.br": ("h1.up",),
        "h2.br": ("h2.up",),
    }


@pytest.mark.slow
def test_a_native_host_stands_on_its_own_port_and_is_held_back_by_it() -> None:
    world = plan_of(
        "hosts: 2\nhost: {platform: native}\ntopology: line\nlink: {rate: 10 Mbit/s}\n" + ROLE
    ).world
    assert world.vswitches == {}
    vnic = world.guests["h1.g1"].vnics["eth0"]
    assert (vnic.uplink, vnic.vswitch, vnic.pushback_bit_per_s) == ("h1.up", None, 10_000_000)


def test_a_router_splits_the_subnet_and_stands_at_its_high_end() -> None:
    world = plan_of("hosts: 2\ntopology: {shape: line, switches: 1, device: router}\n" + ROLE).world
    router = world.guests["r1"]
    assert router.forwards
    assert [vnic.ip for vnic in router.vnics.values()] == [("10.0.0.254/24",), ("10.0.1.254/24",)]
    assert [vnic.pushback_bit_per_s for vnic in router.vnics.values()] == [None, None]
    assert world.guests["h2.g1"].vnics["eth0"].ip == ("10.0.1.1/24",)
    assert [(route.to, route.via) for route in world.routes["h1.g1"]] == [("10.0.1.0/24", "10.0.0.254")]


@pytest.mark.slow
def test_a_large_domain_gets_a_large_subnet() -> None:
    world = plan_of("hosts: 2\nhost: {guests: 500}\ntopology: line\n" + ROLE).world
    addresses = [vnic.ip[0] for guest in world.guests.values() for vnic in guest.vnics.values()]
    assert len(set(addresses)) == 1000
    assert {address.partition("/")[2] for address in addresses} == {"22"}


def test_a_link_of_a_topology_can_be_described_by_its_name() -> None:
    world = plan_of(
        "hosts: 2\ntopology: line\nlink: {rate: 1 Gbit/s, propagation: 1 us}\nlinks: {h1-s1: {rate: 10 Mbit/s}}\n"
        + ROLE
    ).world
    assert [(link.rate_bit_per_s, link.propagation_ns) for link in world.links.values()] == [
        (10_000_000, 1000),
        (10**9, 1000),
    ]


def test_what_a_guest_says_goes_before_its_host_and_the_network() -> None:
    text = (
        "hosts: {h1: {mtu: 1200 B, idle: poll, guests: {g1: {mtu: 900 B}, g2: {}}}, h2: {}}\ntopology: line\n"
    )
    guests = plan_of(text + ROLE).world.guests
    assert [guests[name].vnics["eth0"].mtu_bytes for name in ("h1.g1", "h1.g2", "h2.g1")] == [900, 1200, 1500]
    assert [guests[name].idle for name in ("h1.g1", "h1.g2", "h2.g1")] == ["poll", "poll", "sleep"]


def test_loads_start_settle_measure_one_after_another_stop_and_drain() -> None:
    roles = """roles:
  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: 1 kB}
  a: {workload: rtt, from: h1.g1, to: h2.g1}
  b: {workload: udp_stream, from: h1.g1, to: h2.g1}
"""
    plan = plan_of("hosts: 2\ntopology: line\n" + roles)
    assert [(action.id, action.do, action.after.event if action.after else None) for action in plan.timeline] == [
        ("load", "start", None), ("settle", "wait", "load.started"), ("a", "run", "settle.done"),
        ("b", "run", "a.finished"), ("stop-load", "stop", "b.finished"), ("drain", "wait", "stop-load.done"),
    ]  # fmt: skip
    assert (plan.windows["measured"].from_, plan.windows["measured"].to) == ("a.started", "b.finished")
    assert set(plan.windows) == {"measured", "a", "b"}
