"""Containers and bounded guests inside the laboratory machine, on its kernel's one hierarchy of control groups."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(600),
]
COUNT = 20
MEMORY_BYTES = 64 << 20


def plan_of(world: dict[str, Any], **more: Any) -> Plan:
    plan = worlds.echo_plan(world, source="g1", target="g2", count=COUNT, **more)
    return plan.model_copy(
        update={"collect": plan.collect.model_copy(update={"counters": ("guests", "vnics")})}
    )


def bounded(platform: str = "namespace", **more: Any) -> dict[str, Any]:
    """Two guests on one bridge, the first bounded."""
    world = worlds.one_host(2)
    world["guests"]["g1"] |= {
        "platform": platform, "cpu_quota_ratio": 0.5, "memory_bytes": MEMORY_BYTES, **more,
    }  # fmt: skip
    return world


def test_a_namespace_inside_has_the_share_that_the_file_gives_it(lab: LabVm) -> None:
    plan = plan_of(bounded())
    assert lab.check(plan) == []
    for trial in range(2):  # the second world finds what the first one left
        with lab.open(plan, worlds.Patient()) as session:
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{trial}", trial), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
            has = session.realised.objects["guests.g1"].read_back
            assert (has["cpu.max"], has["memory.max"]) == ("50000 100000", str(MEMORY_BYTES))
            held = ("guests.g1", "throttled_ns")
            assert held in sink.counters("begin")
            assert held in sink.counters("end")
            # A process inside reads it, for which the role that runs would pay.
            assert sink.counters("measure.started")
            assert held not in sink.counters("measure.started")


@pytest.mark.skipif(runtime.missing() is not None, reason=str(runtime.missing()))
def test_a_container_whose_first_process_dies_fails_the_run_and_the_next_measures_within_its_bounds(
    lab: LabVm,
) -> None:
    plan = plan_of(bounded("container"))
    assert lab.check(plan) == []
    kill = {
        "id": "kill",
        "do": "exec",
        "guest": "g1",
        "argv": ["kill", "-9", "-1"],
        "after": {"event": "measure.started"},
    }
    roles = {"probe": plan.roles["probe"].model_copy(update={"count": 2000})}
    deadly = Plan.model_validate(
        {**plan.model_dump(mode="json", by_alias=True), "timeline": [*_actions(plan), kill]}
    ).model_copy(update={"roles": roles})
    with lab.open(deadly, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.status == "failed"
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t1", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        realised = session.realised.objects["guests.g1"]
        assert realised.by == "container"
        has = realised.read_back
        assert (has["cpu.max"], has["memory.max"]) == ("50000 100000", str(MEMORY_BYTES))
        begin, end = sink.counters("begin"), sink.counters("end")
        used = ("guests.g1", "cpu_ns")
        assert end[used] > begin[used] > 0
        assert 0 < end["guests.g1", "memory_bytes"] <= MEMORY_BYTES


def _actions(plan: Plan) -> list[dict[str, Any]]:
    return [action.model_dump(mode="json", by_alias=True) for action in plan.timeline]


def test_a_machine_inside_the_machine_is_refused_with_the_reason(lab: LabVm) -> None:
    world = bounded("qemu")
    world["guests"]["g2"] |= {"platform": "container", "image": "somewhere"}
    found = {refusal.path: refusal for refusal in lab.check(plan_of(world))}
    assert "no QEMU is inside" in found["guests.g1.platform"].reason
    assert found["guests.g2.image"].cure.startswith("remove it")
