"""Services with limits of their own: read back, held, and told where the memory was not enough."""

from __future__ import annotations

import os
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Outcome, Trial
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: control groups"),
]

MEMORY_BYTES = 32 << 20
PYTHON = "/usr/bin/python3"
EATS = "x = bytearray(100 << 20); print(len(x), flush=True); import time; time.sleep(1000)"
SPINS = ["sh", "-c", "while :; do :; done"]


def service(argv: list[str], **more: Any) -> dict[str, Any]:
    return {"kind": "program", "on": ["b"], "argv": argv, **more}


def played(
    services: dict[str, Any], *, limits: dict[str, Any] | None = None, ask: list[str] | None = None
) -> tuple[Outcome, worlds.MemorySink, dict[str, Any]]:
    world: dict[str, Any] = {**worlds.bridged(), "services": services}
    world["guests"]["b"] |= limits or {}
    actions: list[dict[str, Any]] = [{"id": "pass", "do": "wait", "for_ns": 2_000_000_000}]
    if ask is not None:
        actions.append({"id": "ask", "do": "exec", "guest": "b", "argv": ask})
    plan = worlds.plan(
        world, timeline=actions, limits={"run_ns": 30_000_000_000}, collect={"counters": ["guests"]}
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink, dict(session.realised.objects)


def test_limits_are_read_back_and_processor_time_is_held_to_them() -> None:
    spins = service(SPINS, cpu_quota_ratio=0.05, memory_bytes=MEMORY_BYTES)
    outcome, sink, realised = played({"spins": spins}, limits={"cpu_quota_ratio": 0.5})
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    seen = realised["services.spins/b"]
    assert seen.intended == {"cpu_quota_ratio": 0.05, "memory_bytes": MEMORY_BYTES}
    assert {"5000", "5000 100000"} & set(seen.read_back.values())
    assert str(MEMORY_BYTES) in seen.read_back.values()
    begin, end = (sink.counters(mark)["services.spins/b", "throttled_ns"] for mark in ("begin", "end"))
    assert end - begin > 500_000_000, "it wanted much more than it was given"
    assert sink.counters("end")["guests.b", "throttled_ns"] < 100_000_000, "its guest has as much again"


def test_a_service_without_room_is_one_line_with_the_cause() -> None:
    plan = worlds.plan(
        {
            **worlds.bridged(),
            "services": {
                "eats": service([PYTHON, "-c", EATS], memory_bytes=MEMORY_BYTES, ready={"line": "104857600"})
            },
        }
    )
    with pytest.raises(GuestError) as caught, Testbed().open(plan, worlds.Patient()):
        pass
    assert "\n" not in str(caught.value)
    assert "services.eats: in b it ended with signal 9, since the memory that it may use was used up" in str(
        caught.value
    )
    assert "more 'memory'" in str(caught.value)


def test_a_process_beneath_a_service_that_ends_for_want_of_memory_ends_the_run() -> None:
    script = f"echo up; sleep 0.5; {PYTHON} -c '{EATS}'; sleep 1000"
    eats = service(["sh", "-c", script], memory_bytes=MEMORY_BYTES, ready={"line": "up"})
    outcome, _, _ = played({"eats": eats})
    assert outcome.status == "failed"
    assert len(outcome.reasons) == 1
    assert "services.eats: in b it ended" in outcome.reasons[0]
    assert "the memory that it may use was used up" in outcome.reasons[0]


def test_what_one_service_uses_is_not_taken_from_another_or_from_its_guest() -> None:
    keeps = f"x = bytearray(48 << 20); x[::4096] = b'x' * len(x[::4096]); {EATS.partition(';')[2]}"
    small = service(["sh", "-c", "echo up; sleep 1000"], memory_bytes=MEMORY_BYTES, ready={"line": "up"})
    large = service([PYTHON, "-c", keeps], ready={"line": str(48 << 20)})
    outcome, sink, _ = played(
        {"small": small, "large": large}, ask=["cat", "/proc/self/cgroup"], limits={"memory_bytes": 256 << 20}
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"service-small" not in sink.artefacts["ask.out"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"cpu_quota_ratio": 0.8}, "services.big.cpu_quota_ratio: it is more than its guest b has"),
        (
            {"cpu_quota_ratio": 0.001},
            "services.big.cpu_quota_ratio: the kernel holds no group to less than 1 %",
        ),
    ],
)
def test_a_limit_that_cannot_be_held_is_refused(limits: dict[str, Any], said: str) -> None:
    world: dict[str, Any] = {**worlds.bridged(), "services": {"big": service(["sleep", "1000"], **limits)}}
    world["guests"]["b"] |= {"cpu_quota_ratio": 0.5}
    found = [f"{each.path}: {each.reason}" for each in Testbed().check(worlds.plan(world))]
    assert any(line.startswith(said) for line in found), found
