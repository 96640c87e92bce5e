"""Where the queue that guests share is built: at the host's end of its wire, whoever holds the link behind it."""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.steps.operations import (
    BridgeAdd,
    Claim,
    LinkSet,
    NamespaceAdd,
    QdiscAdd,
    TapAdd,
    VethAdd,
)
from virtlab.testbed.vswitches.ovs_rules import OvsBridge, transaction

REALISED = ("soft_switch", "netem", "shaping")
SWITCHED = "topology: {shape: line, switches: 1}\n"
CABLE = "topology: none\n"


def plan_of(realise: str, wires: str = SWITCHED, host: str = "guests: 2, pushback: uplink") -> Plan:
    experiment = load_text(
        f"version: 1\nname: t\nhosts: 2\nhost: {{{host}}}\n{wires}"
        f"link: {{rate: 100 Mbit/s, realise: {realise}, queue: {{kind: fifo, limit: 100 packets}}}}\n"
        "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"
    )
    return plan_run(experiment, experiment.points()[0], 0)


def qdiscs(lowered: Lowered) -> dict[tuple[str, str], list[tuple[str, object]]]:
    """By port: kinds with their limits, in order."""
    found: dict[tuple[str, str], list[tuple[str, object]]] = {}
    for step in lowered.steps:
        if isinstance(step.op, QdiscAdd):
            told = (step.op.discipline.kind, step.op.discipline.options.get("limit_packets"))
            found.setdefault((step.op.namespace, step.op.link), []).append(told)
    return found


@pytest.mark.parametrize("wires", [SWITCHED, CABLE], ids=["switch", "cable"])
@pytest.mark.parametrize("realise", REALISED)
def test_a_thousand_packets_wait_at_the_hosts_end(realise: str, wires: str) -> None:
    lowered = lower(plan_of(realise, wires))
    found = qdiscs(lowered)
    for end in ("h1.up", "h2.up"):
        place = lowered.uplinks[end]
        assert found[place.namespace, place.link] == [("htb", None), ("pfifo", 1000)]
    roots = [
        (step.op.namespace, step.op.link)
        for step in lowered.steps
        if isinstance(step.op, QdiscAdd) and step.op.parent == "root"
    ]
    assert len(roots) == len(set(roots))


@pytest.mark.parametrize("wires", [SWITCHED, CABLE], ids=["switch", "cable"])
def test_netem_takes_frames_only_behind_that_queue(wires: str) -> None:
    """It takes a frame from its sender, who would not be held back any more."""
    plan = plan_of("netem", wires)
    lowered = lower(plan)
    links = sorted(lowered.queues)
    assert links == sorted((name, way) for name in plan.world.links for way in ("ab", "ba"))
    assert {queue.namespace for queue in lowered.queues.values()} == {"fabric"}
    assert len({queue.link for queue in lowered.queues.values()}) == len(links)
    netems = {
        (place, kind) for place, kinds in qdiscs(lowered).items() for kind, _ in kinds if kind == "netem"
    }
    assert {place for place, _ in netems} == {(each.namespace, each.link) for each in lowered.queues.values()}


@pytest.mark.parametrize("wires", [SWITCHED, CABLE], ids=["switch", "cable"])
@pytest.mark.parametrize("realise", REALISED)
def test_every_interface_is_there_before_it_is_used_and_comes_up(realise: str, wires: str) -> None:
    made: set[tuple[str, str]] = set()
    up: set[tuple[str, str]] = set()
    namespaces: set[str] = set()
    for step in lower(plan_of(realise, wires)).steps:
        op = step.op
        if isinstance(op, NamespaceAdd):
            namespaces.add(op.name)
        elif isinstance(op, VethAdd):
            made |= {(end.namespace, end.name) for end in op.ends}
            assert all(end.master is None or (end.namespace, end.master) in made for end in op.ends)
        elif isinstance(op, BridgeAdd | TapAdd):
            made.add((op.namespace, op.name))
        elif isinstance(op, QdiscAdd):
            assert (op.namespace, op.link) in made
        elif isinstance(op, LinkSet) and op.link != "lo":
            assert (op.namespace, op.link) in made
            assert op.master is None or (op.namespace, op.master) in made
            if op.up:
                up.add((op.namespace, op.link))
    assert up == made


def test_tcp_hands_over_single_frames_behind_a_shared_queue_too() -> None:
    alone = [
        step.op
        for step in lower(plan_of("soft_switch")).steps
        if getattr(step.op, "segments_at_once", None) == 1
    ]
    assert len(alone) == 4


def test_without_pushback_nothing_is_built_in_front_of_the_wire() -> None:
    lowered = lower(plan_of("soft_switch", host="guests: 2, pushback: none"))
    assert qdiscs(lowered) == {}


@pytest.mark.parametrize("realise", REALISED)
def test_an_open_vswitch_in_user_space_sends_to_such_a_queue_through_a_tap(realise: str) -> None:
    """Its packet socket would drop frames, uncounted, that the queue has room for."""
    lowered = lower(plan_of(realise, host="guests: 2, vswitch: ovs-netdev, pushback: uplink"))
    bridge, place = lowered.vswitches["h1.br"], lowered.uplinks["h1.up"]
    assert isinstance(bridge, OvsBridge)
    (joint,) = bridge.joints
    assert joint.link == place.link
    assert place.link not in [port.link for port in bridge.ports]
    words = " ".join(transaction([bridge]))
    assert f'set interface {joint.tap} type=internal mac="{joint.mac}"' in words
    assert qdiscs(lowered)[place.namespace, place.link] == [("htb", None), ("pfifo", 1000)]
    masters = {
        step.op.link: step.op.master
        for step in lowered.steps
        if isinstance(step.op, LinkSet) and step.op.namespace == place.namespace and step.op.master
    }
    assert masters[place.link] == joint.bridge
    claim, joined = bridge.afterwards
    assert claim == Claim(place.namespace, joint.tap, joint.mac)
    assert isinstance(joined, LinkSet)
    assert (joined.link, joined.master, joined.up) == (joint.tap, joint.bridge, True)
    assert joint.tap in bridge.addresses.values()
    assert place.link not in bridge.addresses.values()


@pytest.mark.parametrize("host", ["ovs-netdev, pushback: guest", "ovs-kernel, pushback: uplink"])
def test_where_nothing_is_lost_uncounted_the_links_end_is_the_port(host: str) -> None:
    lowered = lower(plan_of("soft_switch", host=f"guests: 2, vswitch: {host}"))
    bridge = lowered.vswitches["h1.br"]
    assert isinstance(bridge, OvsBridge)
    assert bridge.joints == []
    assert lowered.uplinks["h1.up"].link in [port.link for port in bridge.ports]
