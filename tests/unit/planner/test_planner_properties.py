"""Whatever a valid file holds: it plans, the same way every time, and one more guest changes no other's identity."""

from __future__ import annotations

import copy
import ipaddress
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run

FEW = settings(max_examples=settings.default.max_examples * 2 // 5)  # 40 of 100, 8 in `make quick`


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """A valid experiment file as plain values (JSON is YAML)."""
    count = draw(st.integers(2, 5))
    hosts: dict[str, Any] = {}
    for number in range(1, count + 1):
        platform = draw(st.sampled_from(["namespace", "namespace", "native"]))
        guests = draw(st.integers(1, 4)) if platform == "namespace" else 1
        hosts[f"h{number}"] = {
            "guests": guests,
            "platform": platform,
            "idle": draw(st.sampled_from(["sleep", "poll"])),
        }
    topology = {
        "shape": draw(st.sampled_from(["line", "star", "tree"])),
        "switches": draw(st.integers(1, 5)),
        "device": draw(st.sampled_from(["switch", "switch", "router"])),
        "branching": draw(st.integers(1, 3)),
    }
    network = {"ipv4": "10.0.0.0/16", "mtu": draw(st.sampled_from(["1500 B", "9000 B"]))}
    if draw(st.booleans()):
        network["ipv6"] = "fd00::/48"
    ends = [f"{host}.g1" for host in hosts]
    source, target = draw(st.permutations(ends))[:2]
    return {
        "version": 1, "name": "generated", "seed": draw(st.integers(0, 2**40)), "hosts": hosts, "topology": topology,
        "network": network, "link": {"rate": draw(st.sampled_from(["10 Mbit/s", "100 Mbit/s", "400 Gbit/s"]))},
        "factors": {"size": ["100 B ip_packet", "1500 B ip_packet"], "load": ["0 B", "30 kB"]},
        "roles": {
            "probe": {"workload": "rtt", "from": source, "to": target, "size": "${size}", "count": draw(st.integers(1, 99))},
            "load": {"workload": "burst_load", "from": target, "to": source, "burst": "${load}"},
        },
    }  # fmt: skip


def plans(values: dict[str, Any], repetition: int = 0) -> list[Plan]:
    experiment = load_text(json.dumps(values))
    return [plan_run(experiment, point, repetition) for point in experiment.points()]


@pytest.mark.slow
@FEW
@given(files())
def test_a_valid_file_plans_canonically_and_the_same_way_every_time(values: dict[str, Any]) -> None:
    for plan, again in zip(plans(values), plans(copy.deepcopy(values)), strict=True):
        assert Plan.parse(plan.canonical()) == plan
        assert plan.canonical() == again.canonical()
        assert plan.identity() == again.identity()


@pytest.mark.slow
@FEW
@given(files())
def test_points_and_repetitions_have_seeds_of_their_own(values: dict[str, Any]) -> None:
    seeds = [plan.seed for repetition in range(3) for plan in plans(values, repetition)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.slow
@FEW
@given(files(), st.integers(1, 5))
def test_one_more_guest_changes_no_other_guests_mac_and_no_seed(values: dict[str, Any], host: int) -> None:
    name = f"h{min(host, len(values['hosts']))}"
    if values["hosts"][name]["platform"] == "native":
        return
    more = copy.deepcopy(values)
    more["hosts"][name]["guests"] += 1
    for plan, grown in zip(plans(values), plans(more), strict=True):
        assert plan.seed == grown.seed
        for guest, entry in plan.world.guests.items():
            assert {vnic: part.mac for vnic, part in entry.vnics.items()} == {
                vnic: part.mac for vnic, part in grown.world.guests[guest].vnics.items()
            }


@pytest.mark.slow
@FEW
@given(files())
def test_addresses_are_unique_and_ports_are_used_once(values: dict[str, Any]) -> None:
    for plan in plans(values):
        vnics = [vnic for guest in plan.world.guests.values() for vnic in guest.vnics.values()]
        macs = [vnic.mac for vnic in vnics]
        addresses = [address.partition("/")[0] for vnic in vnics for address in vnic.ip]
        ports = [end for link in plan.world.links.values() for end in link.ends]
        assert len(set(macs)) == len(macs)
        assert len(set(addresses)) == len(addresses)
        assert len(set(ports)) == len(ports)
        uplinks = [port for vswitch in plan.world.vswitches.values() for port in vswitch.uplinks]
        uplinks += [vnic.uplink for vnic in vnics if vnic.uplink is not None]
        switched = [port for port in ports if port.partition(".")[0] in plan.world.switches]
        assert sorted(uplinks + switched) == sorted(ports)


@pytest.mark.slow
@FEW
@given(files())
def test_static_routes_lead_from_every_guest_to_every_other(values: dict[str, Any]) -> None:
    world = plans(values)[0].world
    owners = {
        address.partition("/")[0]: guest
        for guest, entry in world.guests.items()
        for vnic in entry.vnics.values()
        for address in vnic.ip
    }
    for guest, entry in world.guests.items():
        for target, owner in owners.items():
            here, hops = guest, 0
            while owner != here and not _attached(world, here, target):
                (via,) = [route.via for route in world.routes[here] if _holds(route.to, target)]
                here, hops = owners[via], hops + 1
                assert world.guests[here].forwards
                assert hops <= len(world.guests)
        assert entry.vnics


def _holds(network: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


def _attached(world: Any, guest: str, address: str) -> bool:
    interfaces = [text for vnic in world.guests[guest].vnics.values() for text in vnic.ip]
    return any(_holds(str(ipaddress.ip_interface(text).network), address) for text in interfaces)


@pytest.mark.slow
@FEW
@given(files())
def test_an_inactive_load_is_nowhere_in_the_plan(values: dict[str, Any]) -> None:
    for plan in plans(values):
        active = plan.point["load"] != "0 B"
        assert ("load" in plan.roles) is active
        assert any(action.role == "load" for action in plan.timeline) is active
        assert ("load" in plan.collect.packets) is active
