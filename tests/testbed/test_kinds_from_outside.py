"""Kinds from outside run on the testbed like any other."""

from __future__ import annotations

import pytest
import testbed_world as worlds
from tests import outside

from virtlab.plan import Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
COUNT = 20


def test_guests_of_a_platform_from_outside_measure_through_a_switch_from_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside.declare(monkeypatch)
    world = worlds.one_host(3)
    for guest in world["guests"].values():
        guest["platform"] = "pause"
    world["vswitches"]["h.br"]["kind"] = "hub"
    plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")
    plan = plan.model_copy(
        update={"collect": plan.collect.model_copy(update={"counters": ("vnics", "guests")})}
    )
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        realised = session.realised.objects
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
    assert sink.rows("probe", "rtt/1") == COUNT
    begin, end = sink.counters("begin"), sink.counters("end")
    vnic = "guests.g3.vnics.eth0", "received_packets"
    assert end[vnic] - begin[vnic] >= 2 * COUNT, "a hub gives every frame to every port"
    assert begin["guests.g1", "start_ns"] == outside.PAUSE_NS
    assert realised["guests.g1"].by == "pause"
    assert realised["guests.g1"].applied["pause_ns"] == outside.PAUSE_NS
    assert realised["vswitches.h.br"].by == "hub"


def test_a_discipline_from_outside_queues_and_an_action_from_outside_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside.declare(monkeypatch)
    queue = {"kind": "short", "by": "kernel"}
    nodding = {"id": "yes", "do": "nod", "after": {"event": "measure.started"}}
    plan = worlds.echo_plan(
        worlds.bridged(switches=1, realise="shaping", queue={"ab": queue, "ba": queue}),
        count=COUNT,
        timeline=[{"id": "measure", "do": "run", "role": "probe"}, nodding],
    )
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        for end in session.realised.objects["links.l0"].read_back.values():
            inner = next(qdisc for qdisc in end["qdiscs"] if qdisc["handle"] == "10:")
            assert (inner["kind"], inner["limit_packets"]) == ("pfifo", outside.ROOM_PACKETS)
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.rows("probe", "rtt/1") == COUNT
    assert outcome.marks["yes.done"].t_ns - outcome.marks["yes.started"].t_ns == outside.NOD_NS


def test_a_service_from_outside_is_started_told_ready_and_called(monkeypatch: pytest.MonkeyPatch) -> None:
    outside.declare(monkeypatch)
    bell = {"kind": "bell", "on": ["b"], "ready": {"line": "ding"}}
    again = {"id": "again", "do": "call", "service": "door", "op": "restart"}
    plan = worlds.plan({**worlds.bridged(), "services": {"door": bell}}, timeline=[again])
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["service-door-b.log"].count(b"ding") == 2
