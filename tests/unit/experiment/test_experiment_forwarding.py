"""Guests that forward, hosts with several virtual switches: what a file says becomes the Plan, mistakes are told."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.experiment import load
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.experiment.world.storms import storm
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.simulator import limits as of_simulator
from virtlab.testbed import refusals as of_testbed
from virtlab.testbed.build.lower import lower

FILE = """
version: 1
name: forwarding
hosts:
  sut:
    vswitches: {switches}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
      vm: {guests}
roles:
  probe: {{workload: rtt, from: sut.generator, to: sut.receiver}}
"""
ISOLATED = "{br0: {isolate: true}, br1: {isolate: true}}"


def plan_of(folder: Path, switches: str = ISOLATED, guests: str = "{}") -> Plan:
    file = folder / "forwarding.yaml"
    file.write_text(textwrap.dedent(FILE.format(switches=switches, guests=guests)))
    experiment = load(file)
    return plan_run(experiment, experiment.points()[0], 0)


def mistakes(folder: Path, switches: str = ISOLATED, guests: str = "{}") -> str:
    with pytest.raises(FileMistakesError) as caught:
        plan_of(folder, switches, guests)
    return "\n".join(map(str, caught.value.mistakes))


def forwarding(layer: int) -> str:
    return f"{{count: 3, vswitches: [br0, br1], forwarding: layer{layer}}}"


def test_a_layer_3_guest_is_a_router_between_two_subnets(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, guests=forwarding(3))
    guest = plan.world.guests["sut.vm2"]
    assert guest.forwards
    assert not guest.bridges
    assert [vnic.vswitch for vnic in guest.vnics.values()] == ["sut.br0", "sut.br1"]
    assert all(vnic.ip and vnic.isolated for vnic in guest.vnics.values())
    assert (
        plan.world.routes["sut.generator"][0].via
        == plan.world.guests["sut.vm1"].vnics["eth0"].ip[0].partition("/")[0]
    )


def test_machines_forward_between_namespaces_that_send_and_receive(tmp_path: Path) -> None:
    vm = "{platform: qemu, vnic_model: e1000, vcpus: 2, count: 3, vswitches: [br0, br1], forwarding: layer3}"
    plan = plan_of(tmp_path, guests=vm)
    guests = plan.world.guests
    assert {name: guest.platform for name, guest in guests.items()} == {
        "sut.generator": "namespace", "sut.receiver": "namespace",
        "sut.vm1": "qemu", "sut.vm2": "qemu", "sut.vm3": "qemu",
    }  # fmt: skip
    assert {vnic.model for vnic in guests["sut.vm2"].vnics.values()} == {"e1000"}
    assert guests["sut.vm2"].vcpus == 2
    assert {vnic.model for vnic in guests["sut.generator"].vnics.values()} == {None}
    inside = lower(plan).machines["sut.vm2"]
    assert len(inside.taps) == 2
    assert any("ip_forward" in str(step.op) for step in inside.steps)
    assert not any("ip_forward" in str(step.op) for step in lower(plan).steps)


def test_what_a_host_says_of_machines_is_of_its_machines(tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(
        "version: 1\nname: mixed\nhosts:\n  h:\n    vnic_model: e1000\n    vcpus: 2\n"
        "    guests: {a: {platform: qemu}, b: {}}\n"
        "roles: {probe: {workload: rtt, from: h.a, to: h.b}}\n"
    )
    experiment = load(file)
    guests = plan_run(experiment, experiment.points()[0], 0).world.guests
    assert (guests["h.a"].platform, guests["h.a"].vcpus) == ("qemu", 2)
    assert guests["h.a"].vnics["eth0"].model == "e1000"
    assert (guests["h.b"].platform, guests["h.b"].vcpus) == ("namespace", None)
    assert guests["h.b"].vnics["eth0"].model is None


def test_layer_2_guests_join_both_sides_into_one_subnet_and_have_no_address(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, guests=forwarding(2))
    guest = plan.world.guests["sut.vm2"]
    assert guest.bridges
    assert not guest.forwards
    assert all(not vnic.ip for vnic in guest.vnics.values())
    ends = [plan.world.guests[name].vnics["eth0"].ip[0] for name in ("sut.generator", "sut.receiver")]
    assert [address.rpartition(".")[0] for address in ends] == ["10.0.0", "10.0.0"]
    assert plan.world.routes == {}


def test_a_frame_to_a_layer_2_guest_has_its_way_in_every_bridge(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, guests=forwarding(2))
    assert LayerTwo(plan).ports_towards_vnic("sut.vm3", "eth0") == {
        Box("vswitch", "sut.br0"): "sut.vm3/eth0",
        Box("bridge", "sut.vm3"): "sut.vm3/eth1",
        Box("vswitch", "sut.br1"): "sut.receiver/eth0",
    }  # fmt: skip
    steps = [str(step) for step in lower(plan).steps]
    assert sum(step.startswith("bridge_port") for step in steps) == 6
    assert sum("link=eth1" in step and step.startswith("forwarding") for step in steps) >= 3


def test_rules_of_a_virtual_switch_reach_every_port_of_it(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path, switches="{br0: {learning: false, flooding: false}, br1: {}}", guests=forwarding(3)
    )
    rules = [step for step in lower(plan).steps if str(step).startswith("bridge_port")]
    assert len(rules) == 4  # the generator and three guests
    assert all("learning=off flooding=off" in str(step) for step in rules)


@pytest.mark.parametrize(
    ("switches", "guests", "said"),
    [
        ("[br0, br1]", forwarding(2), "a frame would circle for ever"),
        (ISOLATED, "{vswitches: [br0], forwarding: layer2}", "nothing to forward between"),
        (ISOLATED, "{vswitches: [br0, br2]}", "no virtual switch 'br2'; did you mean 'br"),
        (ISOLATED, "{vswitches: [br0, br0]}", "stands nowhere, or twice"),
        (ISOLATED, "{vswitches: [br0, br1], forwarding: layer4}", "did you mean 'layer3'"),
        (ISOLATED, "{count: 0}", "write 'count: 12'"),
        (ISOLATED, "{vswitches: [br0, br1], forwarding: layer2, ipv4: 10.0.0.9/24}", "has no IP address"),
        ("{br0: {kind: none}, br1: {}}", forwarding(3), "a virtual switch of no kind"),
        (
            "{br0: {flow_entries: own}, br1: {}}",
            forwarding(3),
            "vswitches.br0.flow_entries: linux_bridge forwards by address and knows no entries of flows; remove it, or",
        ),
        (ISOLATED, "{platform: native, vswitches: [br0]}", "platform native is a host without guests"),
        (ISOLATED, "{vnic_model: e1000, vswitches: [br0]}", "guests of platform namespace see no device"),
    ],
)
def test_what_cannot_be_is_told_with_its_cure(switches: str, guests: str, said: str, tmp_path: Path) -> None:
    assert said in mistakes(tmp_path, switches, guests)


def test_entries_of_flows_are_an_open_vswitchs_and_a_bridge_may_say_that_it_shares_them(
    tmp_path: Path,
) -> None:
    switches = "{br0: {flow_entries: shared}, br1: {kind: ovs-netdev, flow_entries: own}}"
    made = plan_of(tmp_path, switches=switches, guests=forwarding(3)).world.vswitches
    assert [each.parameters for each in made.values()] == [{}, {"flow_entries": "own"}]


def test_a_plan_with_entries_of_flows_on_a_bridge_is_refused_by_both_arms(tmp_path: Path) -> None:
    values = plan_of(tmp_path, guests=forwarding(3)).model_dump(by_alias=True)
    values["world"]["vswitches"]["sut.br0"]["parameters"] = {"flow_entries": "own"}
    plan = Plan.model_validate(values)
    for refusals in (of_simulator.refusals(plan), of_testbed.refusals(plan, HERE)):
        (one,) = (each for each in refusals if each.path == "vswitches.sut.br0.parameters")
        assert (one.reason, one.cure) == (
            "linux_bridge has no flow_entries",
            "remove them, or take an Open vSwitch",
        )


def test_a_link_to_a_host_with_several_virtual_switches_names_one(tmp_path: Path) -> None:
    file = tmp_path / "linked.yaml"
    text = """
        version: 1
        name: linked
        hosts:
          a: {platform: native}
          b: {vswitches: [br0, br1], guests: {vm: {vswitches: [br0, br1], forwarding: layer3}}}
        links: {one: {ends: [a, END]}}
        roles: {probe: {workload: rtt, from: a.g1, to: b.vm}}
    """
    file.write_text(textwrap.dedent(text.replace("END", "b")))
    with pytest.raises(FileMistakesError, match="several virtual switches"):
        load(file)
    file.write_text(textwrap.dedent(text.replace("END", "b.br1")))
    experiment = load(file)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert plan.world.vswitches["b.br1"].uplinks == ("b.up",)
    assert plan.world.vswitches["b.br0"].uplinks == ()


GRAPHS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda ends: ends[0] != ends[1]), max_size=6
)


@pytest.mark.slow
@given(GRAPHS)
def test_without_isolation_a_storm_is_a_loop_of_the_wires(ends: list[tuple[int, int]]) -> None:
    boxes: dict[str, dict[str, bool]] = {}
    cables = []
    above = list(range(5))

    def root(box: int) -> int:
        return box if above[box] == box else root(above[box])

    loop = False
    for number, (one, other) in enumerate(ends):
        for box in (one, other):
            boxes.setdefault(f"b{box}", {})[str(number)] = False
        cables.append(((f"b{one}", str(number)), (f"b{other}", str(number))))
        loop |= root(one) == root(other)
        above[root(one)] = root(other)
    assert bool(storm(boxes, cables)) is loop


@pytest.mark.slow
@given(st.integers(1, 8), st.booleans(), st.booleans())
def test_guests_side_by_side_storm_only_where_two_of_them_share_two_open_switches(
    guests: int, first: bool, second: bool
) -> None:
    boxes: dict[str, dict[str, bool]] = {"br0": {}, "br1": {}}
    cables = []
    for number in range(guests):
        boxes[f"vm{number}"] = {"0": False, "1": False}
        for side, isolated in enumerate((first, second)):
            boxes[f"br{side}"][f"vm{number}"] = isolated
            cables.append(((f"br{side}", f"vm{number}"), (f"vm{number}", str(side))))
    assert bool(storm(boxes, cables)) is (guests > 1 and not first and not second)
