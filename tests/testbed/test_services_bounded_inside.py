"""Services with limits of their own in containers, below the container's group, and in machines, by their own
kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import container_world as containers
import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import ledger

INSIDE = [
    pytest.param(
        worlds_of.beside_a_namespace,
        id=name,
        marks=pytest.mark.skipif(why is not None, reason=str(why)),
    )
    for name, worlds_of, why in (
        (
            "container",
            containers,
            containers.missing() or (None if os.geteuid() == 0 else "needs root: control groups"),
        ),
        ("qemu", machines, machines.missing()),
    )
]
pytestmark = pytest.mark.timeout(400)

MEMORY_BYTES = 16 << 20
SHARE = 0.05
PATIENCE_NS = 60_000_000_000
SPINS = ["sh", "-c", "echo up; while :; do :; done"]
EATS = "dd if=/dev/zero of=/dev/null bs=48M count=1000"


def plan_of(beside: Callable[[], dict[str, Any]], argv: list[str], **more: Any) -> Plan:
    world = beside()
    guest = next(name for name, each in world["guests"].items() if each["platform"] in {"container", "qemu"})
    ready = {"line": "up", "timeout_ns": PATIENCE_NS}
    web = {"kind": "program", "on": [guest], "argv": argv, "ready": ready, **more}
    pause = {"id": "pass", "do": "wait", "for_ns": 2_000_000_000}
    return worlds.plan(
        {**world, "services": {"web": web}},
        timeline=[pause],
        limits={"run_ns": PATIENCE_NS},
        collect={"counters": ["guests"]},
    )


@pytest.mark.parametrize("beside", INSIDE)
def test_limits_are_read_back_and_processor_time_is_held_to_them(
    beside: Callable[[], dict[str, Any]],
) -> None:
    plan = plan_of(beside, SPINS, cpu_quota_ratio=SHARE, memory_bytes=MEMORY_BYTES)
    (guest,) = plan.world.services["web"].on
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        seen = session.realised.objects[f"services.web/{guest}"]
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert seen.intended == {"cpu_quota_ratio": SHARE, "memory_bytes": MEMORY_BYTES}
    assert {"5000", "5000 100000"} & set(seen.read_back.values())
    assert str(MEMORY_BYTES) in seen.read_back.values()
    key = f"services.web/{guest}", "throttled_ns"
    begin, end = (sink.counters(mark)[key] for mark in ("begin", "end"))
    assert end - begin > 500_000_000, "it wanted much more than it was given"
    left = [Path(each) for each in ledger.ROOT_LEDGER.glob("*.json")]
    assert not any("service-web" in each.read_text() for each in left)


@pytest.mark.parametrize("beside", INSIDE)
def test_a_service_without_room_is_one_line_with_the_cause(beside: Callable[[], dict[str, Any]]) -> None:
    plan = plan_of(beside, ["sh", "-c", f"exec {EATS}"], memory_bytes=MEMORY_BYTES)
    with pytest.raises(GuestError) as caught, Testbed().open(plan, worlds.Patient()):
        pass
    assert "\n" not in str(caught.value)
    assert "services.web: in " in str(caught.value)
    assert "since the memory that it may use was used up" in str(caught.value)
    assert "more 'memory'" in str(caught.value)


@pytest.mark.parametrize("beside", INSIDE)
def test_a_process_beneath_a_service_that_ends_for_want_of_memory_ends_the_run(
    beside: Callable[[], dict[str, Any]],
) -> None:
    script = f"echo up; sleep 1; {EATS}; sleep 1000"
    plan = plan_of(beside, ["sh", "-c", script], memory_bytes=MEMORY_BYTES)
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    assert outcome.status == "failed"
    (reason,) = outcome.reasons
    assert "services.web: in " in reason
    assert "the memory that it may use was used up" in reason


@pytest.mark.parametrize("beside", INSIDE)
def test_a_bounded_service_begins_where_it_would_and_finds_its_input_at_an_end(
    beside: Callable[[], dict[str, Any]],
) -> None:
    """Also one that brings files, which it finds where it begins; and one that is started again joins its group
    again.
    """
    script = "pwd; cat page; cat; echo up; exec sleep 1000"
    plan = plan_of(beside, ["sh", "-c", script], files={"page": "brought\n"}, memory_bytes=MEMORY_BYTES)
    again = {"id": "again", "do": "call", "service": "web", "op": "restart"}
    values = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    plan = Plan.model_validate({**values, "timeline": [again]})
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (said,) = (content for name, content in sink.artefacts.items() if name.startswith("service-web"))
    assert said.decode().split("\n")[:-1] == 2 * ["/tmp/virtlab-web", "brought", "up"]
