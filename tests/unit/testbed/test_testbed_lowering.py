"""A Plan as Steps: pure, printed, compared with golden files; no root, no kernel."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.world import BATCH_BYTES, batches
from virtlab.testbed.kinds.findings import Machine
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.steps.names import interface
from virtlab.testbed.steps.operations import ForwardingAdd, NeighbourAdd, QdiscAdd, SysctlSet, VethAdd

GOLDEN = Path(__file__).parents[2] / "golden"
SWITCHED = Plan.parse((GOLDEN / "plans" / "switched_network.json").read_text(encoding="utf-8"))


def printed(lowered: Lowered) -> str:
    return "".join(f"{step}\n" for step in lowered.steps)


def with_links(plan: Plan, **fields: Any) -> Plan:
    links = {name: link.model_copy(update=fields) for name, link in plan.world.links.items()}
    return plan.model_copy(update={"world": plan.world.model_copy(update={"links": links})})


@pytest.mark.parametrize("realise", ["soft_switch", "netem", "shaping"])
def test_the_switched_network_lowers_to_the_golden_steps(realise: str) -> None:
    lowered = lower(with_links(SWITCHED, realise=realise))
    expected = (GOLDEN / "steps" / f"switched_network.{realise}.txt").read_text(encoding="utf-8")
    assert printed(lowered) == expected


def test_the_soft_switch_is_given_ports_links_and_where_everybody_is() -> None:
    request = lower(SWITCHED).soft_switch
    assert request is not None
    assert request.ports == {"h1.up": {"ifname": "p0"}, "h2.up": {"ifname": "p1"}}
    assert request.links["s1-s2"]["ends"] == ["s1.p2", "s2.p1"]
    assert (request.forwarding or {})["s1"] == {"02:00:00:00:00:01": "s1.p1", "02:00:00:00:00:02": "s1.p2"}


def test_no_packet_filter_sits_on_a_bridge_where_the_kernel_has_one() -> None:
    def unfiltered(machine: Machine) -> list[str]:
        return [
            step.op.namespace
            for step in lower(SWITCHED, machine).steps
            if isinstance(step.op, SysctlSet) and step.op.path == "net/bridge/bridge-nf-call-iptables"
        ]

    hosts = sorted({f"host:{vswitch.host}" for vswitch in SWITCHED.world.vswitches.values()})
    assert sorted(unfiltered(Machine())) == hosts
    assert sorted(unfiltered(Machine(link="netem"))) == ["fabric", *hosts]
    assert unfiltered(Machine(filters_bridges=False)) == []


@pytest.mark.parametrize("realise", ["netem", "shaping"])
def test_no_port_has_two_root_disciplines_where_a_native_guest_sends_from_its_uplink(realise: str) -> None:
    experiment = load_text(f"""
version: 1
name: native
hosts: {{a: {{platform: native}}, b: {{platform: native}}}}
links: {{wire: {{ends: [a, b], rate: 100 Mbit/s, realise: {realise}}}}}
roles: {{load: {{workload: udp_stream, from: a.g1, to: b.g1, rate: 1 Mbit/s, size: 100 B payload, duration: 1 s}}}}
""")
    steps = lower(plan_run(experiment, experiment.points()[0], 0)).steps
    roots = [
        (step.op.namespace, step.op.link)
        for step in steps
        if isinstance(step.op, QdiscAdd) and step.op.parent == "root"
    ]
    assert len(roots) == len(set(roots)) >= 2
    alone = {
        (step.op.namespace, step.op.link) for step in steps if getattr(step.op, "segments_at_once", None) == 1
    }
    assert alone <= set(roots)
    assert len(alone) == 2  # TCP hands over single segments there all the same


def test_every_step_says_which_object_of_the_plan_it_is_for() -> None:
    world = SWITCHED.world.model_dump(by_alias=True)
    for step in lower(SWITCHED).steps:
        kind, _, rest = step.because.partition(".")
        assert rest.split(".vnics.")[0] in world[kind], step


def test_namespaces_and_interfaces_exist_before_they_are_used() -> None:
    for realise in ("soft_switch", "netem", "shaping"):
        made: set[tuple[str, str]] = set()
        namespaces: set[str] = set()
        for step in lower(with_links(SWITCHED, realise=realise)).steps:
            values = step.op.json()
            if values["op"] == "namespace":
                namespaces.add(values["name"])
                continue
            if isinstance(step.op, VethAdd):
                for end in step.op.ends:
                    assert end.namespace in namespaces
                    assert (end.namespace, end.name) not in made
                    made.add((end.namespace, end.name))
                    assert end.master is None or (end.namespace, end.master) in made
                continue
            assert values["namespace"] in namespaces
            if values["op"] == "bridge":
                made.add((values["namespace"], values["name"]))
            elif "link" in values and values["link"] != "lo":
                assert (values["namespace"], values["link"]) in made, step


def ipv6_values(lowered: Lowered) -> list[str]:
    ops = [step.op for step in lowered.steps]
    return [op.path for op in ops if isinstance(op, SysctlSet) and "ipv6" in op.path]


def test_every_guest_can_hold_the_fragments_that_an_overload_leaves() -> None:
    ops = [step.op for step in lower(SWITCHED).steps]
    held = {(op.namespace, op.path): op.value for op in ops if isinstance(op, SysctlSet)}
    for guest in SWITCHED.world.guests:
        assert int(held[f"guest:{guest}", "net/ipv4/ipfrag_high_thresh"]) > 4 << 20
        assert int(held[f"guest:{guest}", "net/ipv4/ipfrag_time"]) < 30


def test_ipv6_is_silenced_before_interfaces_unless_asked_for() -> None:
    quiet = [step.op for step in lower(SWITCHED).steps if isinstance(step.op, SysctlSet)]
    assert {op.path for op in quiet if "ipv6" in op.path} == {"net/ipv6/conf/default/disable_ipv6"}
    assert ipv6_values(lower(SWITCHED, Machine(has_ipv6=False))) == []
    noisy = SWITCHED.model_copy(update={"world": SWITCHED.world.model_copy(update={"ipv6_noise": True})})
    assert ipv6_values(lower(noisy)) == []


def test_live_arp_leaves_neighbours_and_forwarding_to_the_network() -> None:
    live = SWITCHED.model_copy(update={"world": SWITCHED.world.model_copy(update={"arp": "live"})})
    lowered = lower(live)
    assert not any(isinstance(step.op, NeighbourAdd | ForwardingAdd) for step in lowered.steps)
    assert lowered.soft_switch is not None
    assert lowered.soft_switch.forwarding is None


def test_processing_and_propagation_are_netems_delay() -> None:
    world = SWITCHED.world.model_copy(
        update={
            "switches": {
                name: switch.model_copy(update={"processing_ns": 5000})
                for name, switch in SWITCHED.world.switches.items()
            }
        }
    )
    plan = with_links(SWITCHED.model_copy(update={"world": world}), realise="netem", propagation_ns=1000)
    delays = [
        (step.because, step.op.discipline.options["delay_ns"])
        for step in lower(plan).steps
        if isinstance(step.op, QdiscAdd) and step.op.discipline.kind == "netem"
    ]
    # A host's port adds the cable's time; a switch's port its processing as well.
    assert sorted(delays) == [("links.h1-s1", 1000), ("links.h1-s1", 6000)] + [("links.s1-s2", 6000)] * 2 + [
        ("links.s2-h2", 1000), ("links.s2-h2", 6000)
    ]  # fmt: skip


def big(guests: int) -> Plan:
    entries = {
        f"g{number}": {
            "platform": "namespace",
            "host": "h",
            "vnics": {
                "eth0": {
                    "vswitch": "h.br",
                    "mac": f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}",
                    "ip": [f"{ip_address(0x0A000001 + number)}/16"],
                }
            },
        }
        for number in range(guests)
    }
    return Plan.model_validate(
        {
            "world": {
                "hosts": {"h": {}},
                "guests": entries,
                "vswitches": {"h.br": {"kind": "linux_bridge", "host": "h"}},
            }
        }
    )


@pytest.mark.slow
def test_steps_grow_with_the_guests_and_not_with_their_pairs() -> None:
    counts = {guests: len(lower(big(guests)).steps) for guests in (100, 200, 400)}
    assert counts[400] - counts[200] == 2 * (counts[200] - counts[100])


def test_small_networks_know_everybody() -> None:
    known = [step.op for step in lower(big(10)).steps if isinstance(step.op, NeighbourAdd)]
    assert len(known) == 10 * 9


@pytest.mark.slow
def test_batches_keep_the_order_and_fit_a_frame() -> None:
    steps = lower(big(1000)).steps
    cut = batches(steps)
    assert [step for batch in cut for step in batch.steps] == steps
    assert [operation for batch in cut for operation in batch.operations] == [
        step.op.json() for step in steps
    ]
    assert len(cut) > 1
    for batch in cut:
        assert sum(len(str(operation)) for operation in batch.operations) < BATCH_BYTES * 1.2


def test_long_names_become_interface_names_once_each() -> None:
    taken: set[str] = set()
    names = [interface(name, taken) for name in ("eth0", "eth0", "a" * 40, "a" * 41, "lo", "x/y")]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 15 and "/" not in name and name != "lo" for name in names)
    assert names[0] == "eth0"
