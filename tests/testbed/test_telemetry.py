"""What processors, memory and disks do beside a load, sampled over the seconds of the load."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import container_world
import machine_world
import pytest
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed

sys.path.insert(0, str(Path(__file__).parent))
from test_testbed_privileges import has_control_groups

WHY_NOT = worlds.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000
GROUPS = os.geteuid() == 0 and has_control_groups()


def loaded(world: dict[str, Any], **collect: Any) -> Plan:
    """g1 asks g2 for 4 ms of work a hundred times a second, for a second and a half."""
    return worlds.plan(
        world,
        roles={
            "clients": {
                "workload": "request_response", "from": "g1", "to": "g2", "rate_per_s": 100,
                "demand_ns": 4 * MS, "duration_ns": 1500 * MS, "connections": 8,
            }
        },
        timeline=[{"id": "measure", "do": "run", "role": "clients"}],
        windows={"measured": {"from": "measure.started", "to": "measure.finished"}},
        collect={"packets": ["clients"], **collect},
        limits={"run_ns": 30_000 * MS},
    )  # fmt: skip


def told(plan: Plan) -> dict[tuple[str, str], list[float]]:
    """(entity, metric) -> the values inside the window."""
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = outcome.windows["measured"]
    found: dict[tuple[str, str], list[float]] = {}
    for _, schema, columns in sink.blocks:
        if schema == "series/1":
            for t_ns, entity, metric, value in zip(
                columns["t_ns"], columns["entity"], columns["metric"], columns["value"], strict=True
            ):
                if begin <= t_ns <= end:
                    found.setdefault((str(entity), str(metric)), []).append(float(value))
    return found


def test_what_a_guest_used_is_a_share_of_the_host_and_of_what_it_may_use() -> None:
    found = told(loaded(worlds.one_host(2), telemetry_ns=100 * MS))
    used, of_host, of_own = (found["guests.g2", metric] for metric in ("cpu", "host_cpu_share", "cpu_share"))
    assert len(used) > 5
    assert max(used) > 0.05, "it worked"
    processors = len(os.sched_getaffinity(0))
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    for cpu, host, own in zip(used, of_host, of_own, strict=True):
        assert host == pytest.approx(cpu / online)
        assert own == pytest.approx(cpu / processors)
    assert max(found["guests.g2", "context_switches"]) > 0
    assert max(found["guests.g2", "memory_used"]) > 1 << 20
    assert min(found["guests.g2", "run_queue_delay"]) >= 0
    assert max(found["host.cpu", "context_switches"]) > max(found["guests.g2", "context_switches"])
    assert max(found["host.cpu", "cpu"]) > 0
    assert min(found["host.memory", "memory_available"]) > 0
    assert ("guests.g2", "throttled") not in found, "nothing holds it back"
    assert not any(entity.endswith(".vcpu0") for entity, _ in found)


@pytest.mark.skipif(not GROUPS, reason="only root bounds processors here, where control groups are mounted")
def test_a_quota_is_what_a_guest_may_use_and_holds_it_back() -> None:
    world = worlds.one_host(2)
    world["guests"]["g2"]["cpu_quota_ratio"] = 0.2
    found = told(loaded(world, telemetry_ns=100 * MS))
    for cpu, own in zip(found["guests.g2", "cpu"], found["guests.g2", "cpu_share"], strict=True):
        assert own == pytest.approx(cpu / 0.2)
    assert max(found["guests.g2", "throttled"]) > 0, "it wanted twice as much"


@pytest.mark.skipif(container_world.missing() is not None, reason=str(container_world.missing()))
@pytest.mark.timeout(300)
def test_a_container_is_what_its_runtime_started() -> None:
    world = container_world.containers(
        worlds.one_host(2), "g2", **({"cpu_quota_ratio": 0.2} if GROUPS else {})
    )
    found = told(loaded(world, telemetry_ns=100 * MS))
    assert max(found["guests.g2", "cpu"]) > 0.05, "it worked"
    assert max(found["guests.g2", "memory_used"]) > 1 << 20
    if GROUPS:
        for cpu, own in zip(found["guests.g2", "cpu"], found["guests.g2", "cpu_share"], strict=True):
            assert own == pytest.approx(cpu / 0.2)
        assert max(found["guests.g2", "throttled"]) > 0, "it wanted twice as much"


@pytest.mark.skipif(machine_world.missing() is not None, reason=str(machine_world.missing()))
@pytest.mark.timeout(600)
def test_a_machine_is_seen_from_outside_by_its_threads_and_from_inside_by_its_kernel() -> None:
    world = machine_world.machines(worlds.one_host(2), "g2", vcpus=2)
    found = told(loaded(world, telemetry_ns=100 * MS))
    outside = [found[f"guests.g2.vcpu{number}", "cpu"] for number in (0, 1)]
    assert max(max(values) for values in outside) > 0.05, "it worked"
    share = found["guests.g2", "cpu_share"]
    assert max(share) <= 1.1, "of two virtual processors"
    assert share[1] == pytest.approx((outside[0][1] + outside[1][1]) / 2, abs=0.02)
    assert max(found["guests.g2", "host_cpu_share"]) > 0
    for processor in ("cpu", "cpu0", "cpu1"):
        for metric in ("cpu", "steal"):
            assert all(0 <= value <= 1 for value in found[f"guests.g2.{processor}", metric])
    assert max(found["guests.g2.cpu", "cpu"]) > 0.05
    assert max(found["guests.g2.cpu", "context_switches"]) > 0
    assert min(found["guests.g2.memory", "memory_available"]) > 0


def test_telemetry_is_off_where_the_plan_says_so_and_series_are_as_it_says() -> None:
    found = told(loaded(worlds.one_host(2), telemetry_ns=0))
    assert found == {}
    found = told(
        loaded(
            worlds.one_host(2),
            telemetry_ns=0,
            series=[{"source": "memory", "every_ns": 100 * MS}],
        )
    )
    assert {entity for entity, _ in found} == {"host.memory"}


def test_a_period_that_is_too_short_is_refused() -> None:
    (refusal,) = Testbed().check(loaded(worlds.one_host(2), telemetry_ns=1000))
    assert (refusal.path, refusal.reason) == ("collect.telemetry", "cannot be sampled so often")
