"""A guest whose move is broken by a fault runs in one place at most, and moves leave nothing behind, however many.

Each request of the client has a number, which the guest's answer repeats: two guests that ran at once would answer one
number twice, and a guest that is lost answers none.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import (
    PATIENCE_NS,
    S,
    allow_faults,
    moving_plan,
    on_and_on,
    on_demand,
    three_hosts,
    waiting_machine,
)

from virtlab.errors import GuestError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
GROWN_BYTES = 16 << 20  # of this process: what Python keeps of twenty runs' samples


def qemus() -> set[int]:
    """Processes of QEMU below this one."""
    return set(processes.named(b"qemu-system-x86_64"))


def ends() -> tuple[int, int]:
    """The processes in which the guest runs, and will run."""
    there = waiting_machine()
    (here,) = qemus() - {there}
    return here, there


def answers(sink: worlds.MemorySink) -> tuple[Any, Any]:
    """Numbers that were answered, and when each answer was there, in ns."""
    kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
    numbers = np.concatenate([each["seq"] for each in kept])
    return numbers, np.sort(np.concatenate([each["sent_ns"] + each["rtt_ns"] for each in kept]))


def broken(
    plan: Plan, act: Callable[[int, int], object], *, at: str, later_s: float, move: str = "go"
) -> tuple[worlds.MemorySink, list[str], set[str]]:
    """A run in which a fault is injected so long after an event: what was recorded, why it failed, its marks."""
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.ActingSink(lambda: act(*ends()), at=at, later_s=later_s)
        try:
            outcome = session.run(Trial("t0", 1), sink)
        except GuestError as error:
            return sink, [str(error)], set()
        failed = list(outcome.reasons) if outcome.status == "failed" else []
        return sink, failed, {name for name in outcome.marks if name.startswith(f"{move}.")}


def check_no_number_came_twice(sink: worlds.MemorySink) -> None:
    """However the run ended, what the client had until then is told."""
    numbers, _ = answers(sink)
    assert len(numbers) > 50
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"


def slow(**more: Any) -> Plan:
    """The guest moves at 5 MB/s, for ten seconds at least."""
    return moving_plan(world=three_hosts(memory_bytes=128 << 20), rate_byte_per_s=5_000_000, **more)


@pytest.mark.parametrize(("when", "later_s"), [pytest.param("set-up", 0.0, marks=on_demand), ("rounds", 2.0)])
def test_a_destination_that_dies_before_the_switch_over_leaves_one_guest(when: str, later_s: float) -> None:
    del when
    sink, failed, marks = broken(
        slow(), lambda _, there: os.kill(there, signal.SIGKILL), at="go.started", later_s=later_s
    )
    assert failed == []
    assert marks == {"go.started", "go.failed"}
    (state,) = [event.details for event in sink.events if event.what == "go.state"]
    assert "it runs on at h1" in state["text"]
    numbers, _ = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert len(numbers) > 0.9 * (numbers.max() + 1), "it never stood still"


@on_demand
@pytest.mark.parametrize(("when", "later_s"), [("set-up", 0.0), ("rounds", 2.0)])
def test_a_source_that_dies_before_the_switch_over_takes_the_only_guest_along(
    when: str, later_s: float
) -> None:
    del when
    died: list[int] = []

    def kill(here: int, there: int) -> None:
        os.kill(here, signal.SIGKILL)
        died.append(there)

    sink, failed, _ = broken(slow(), kill, at="go.started", later_s=later_s)
    assert died
    assert any("guests.v: its virtual machine ended" in reason for reason in failed), failed
    check_no_number_came_twice(sink)
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"


@pytest.mark.parametrize("which", ["destination", pytest.param("source", marks=on_demand)])
def test_a_guest_whose_memory_is_in_two_places_is_lost_with_either(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_faults(monkeypatch)
    plan = slow(mode="post_copy", downtime_limit_ns=None, on_timeout="fail")
    sink, failed, marks = broken(
        plan,
        lambda here, there: os.kill(there if which == "destination" else here, signal.SIGKILL),
        at="go.started",
        later_s=2.5,
    )
    assert failed, marks
    assert any("guests.v" in reason for reason in failed), failed
    assert not any("runs on" in reason for reason in failed), "a lost guest is not said to run"
    check_no_number_came_twice(sink)


def back_again(*, to: str = "h1", fails: str = "go1.failed", **more: Any) -> Plan:
    """The guest moves to h2 quickly, and on or back slowly, which something may break."""
    values = on_and_on(to, rate_byte_per_s=80_000_000, **more).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    go1 = next(action for action in values["timeline"] if action["id"] == "go1")
    go1["bandwidth_byte_per_s"] = 5_000_000
    settle = next(action for action in values["timeline"] if action["id"] == "settle")
    settle["after"] = {"any": ["go1.finished", fails]}
    return Plan.model_validate(values)


@on_demand
@pytest.mark.parametrize("to", ["h1", "h3"])
def test_a_destination_that_dies_in_the_second_move_leaves_the_guest_where_the_first_brought_it(
    to: str,
) -> None:
    sink, failed, marks = broken(
        back_again(to=to), lambda _, there: os.kill(there, signal.SIGKILL),
        at="go1.started", later_s=2.0, move="go1",
    )  # fmt: skip
    assert failed == []
    assert marks == {"go1.started", "go1.failed"}
    (state,) = [event.details for event in sink.events if event.what == "go1.state"]
    assert "it runs on at h2" in state["text"]
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    (ended,) = [event.t_ns for event in sink.events if event.what == "go1.state"]
    assert (at_ns > ended).sum() > 50, "clients find it there"


@on_demand
def test_a_source_that_dies_in_the_second_move_takes_the_only_guest_along() -> None:
    sink, failed, _ = broken(
        back_again(), lambda here, _: os.kill(here, signal.SIGKILL), at="go1.started", later_s=2.0, move="go1"
    )
    assert any("guests.v: its virtual machine ended" in reason for reason in failed), failed
    check_no_number_came_twice(sink)
    assert not [event for event in sink.events if event.what == "go1.resumed"], "it runs at no other host"


def trying_again(*, first: str, timeout_ns: int = PATIENCE_NS, onwards: bool = False) -> Plan:
    """A slow move to h2 that something ends, and another try, and from there on to h3."""
    values = moving_plan(rate_byte_per_s=5_000_000, timeout_ns=timeout_ns).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    go, settle = values["timeline"][1:3]
    quick = {**go, "bandwidth_byte_per_s": 80_000_000, "timeout_ns": PATIENCE_NS}
    again = {**quick, "id": "again", "after": {"event": f"go.{first}", "plus_ns": S}}
    on = {**quick, "id": "on", "to": "h3", "after": {"event": "again.finished", "plus_ns": 2 * S}}
    values["timeline"][2:2] = [again, on] if onwards else [again]
    settle["after"] = {"event": "on.finished" if onwards else "again.finished"}
    return Plan.model_validate(values)


@pytest.mark.parametrize("first", [pytest.param("failed", marks=on_demand), "cancelled"])
def test_a_move_is_tried_again_after_it_has_failed(first: str) -> None:
    plan = trying_again(
        first=first, timeout_ns=PATIENCE_NS if first == "failed" else 3 * S, onwards=first == "failed"
    )
    assert Testbed().check(plan) == []

    def act(_: int, there: int) -> None:
        if first == "failed":
            os.kill(there, signal.SIGKILL)

    sink, failed, marks = broken(plan, act, at="go.started", later_s=1.0, move="again")
    assert failed == []
    assert marks == {"again.started", "again.finished", "again.done"}
    happened = [event.what for event in sink.events]
    assert "go.resumed" not in happened
    assert "again.resumed" in happened
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    last = next(event.t_ns for event in reversed(sink.events) if event.what.endswith(".resumed"))
    assert (at_ns > last).sum() > 50, "clients find it at the other host"
    assert qemus() == set()


@on_demand
def test_who_arrives_at_once_is_not_moved_again() -> None:
    values = trying_again(first="failed").model_dump(mode="json", by_alias=True, exclude_defaults=True)
    go, _, settle = values["timeline"][1:4]
    go["bandwidth_byte_per_s"] = 80_000_000
    on = {**go, "id": "on", "to": "h1", "after": {"any": ["go.finished", "again.finished"]}}
    on["after"] = {**on["after"], "plus_ns": S}
    values["timeline"].insert(3, on)
    settle["after"] = {"event": "on.finished"}
    plan = Plan.model_validate(values)
    assert Testbed().check(plan) == []
    sink, failed, marks = broken(plan, lambda _, __: None, at="go.started", later_s=0.0, move="on")
    assert failed == []
    assert marks == {"on.started", "on.finished", "on.done"}
    numbers, _ = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"


@pytest.mark.slow
@pytest.mark.parametrize("moves", [4, pytest.param(20, marks=on_demand)])
def test_moves_one_after_the_other_leave_no_descriptor_no_process_and_no_memory(moves: int) -> None:
    plan = moving_plan(rate_byte_per_s=80_000_000)
    seen: list[tuple[int, int, int]] = []
    for number in range(moves):
        with Testbed().open(plan, worlds.Patient()) as session:
            leader = session.leader.process.pid  # type: ignore[attr-defined]
            before = descriptors(leader)
            outcome = session.run(Trial("t0", 1 + number), worlds.MemorySink())
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert "go.finished" in outcome.marks
            assert descriptors(leader) <= before, "its leader holds no more than before the move"
        assert qemus() == set()
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        seen.append((descriptors(os.getpid()), len(taps()), largest))
    # The first two load what Python loads once.
    assert {kept for kept, _, _ in seen[2:]} == {seen[2][0]}
    assert {found for _, found, _ in seen} == {seen[0][1]}
    assert seen[-1][2] - seen[2][2] <= GROWN_BYTES * moves // 20


def descriptors(pid: int) -> int:
    """How many a process holds."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def taps() -> set[str]:
    """Interfaces of this machine's own network: those of a world are in none of it."""
    return {path.name for path in Path("/sys/class/net").iterdir()}
