"""A guest whose move is broken by a fault runs in one place at most, and twenty moves leave nothing behind.

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
from migration_world import moving_plan, three_hosts

from virtlab.errors import GuestError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.moves import userfaults_missing

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
MOVES = 20
GROWN_BYTES = 16 << 20  # of this process: what Python keeps of twenty runs' samples


def qemus() -> set[int]:
    """Processes of QEMU below this one."""
    return set(processes.named(b"qemu-system-x86_64"))


def ends() -> tuple[int, int]:
    """The processes in which the guest runs, and will run."""
    (there,) = processes.named(b"-incoming")
    (here,) = qemus() - {there}
    return here, there


def answers(sink: worlds.MemorySink) -> tuple[Any, Any]:
    """Numbers that were answered, and when each answer was there, in ns."""
    kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
    numbers = np.concatenate([each["seq"] for each in kept])
    return numbers, np.sort(np.concatenate([each["sent_ns"] + each["rtt_ns"] for each in kept]))


def broken(
    plan: Plan, act: Callable[[int, int], object], *, at: str, later_s: float
) -> tuple[worlds.MemorySink, list[str], set[str]]:
    """A run in which a fault is injected so long after an event: what was recorded, why it failed, its marks."""
    with Testbed().open(plan, worlds.Patient()) as session:
        here, there = ends()
        sink = worlds.ActingSink(lambda: act(here, there), at=at, later_s=later_s)
        try:
            outcome = session.run(Trial("t0", 1), sink)
        except GuestError as error:
            return sink, [str(error)], set()
        failed = list(outcome.reasons) if outcome.status == "failed" else []
        return sink, failed, {name for name in outcome.marks if name.startswith("go.")}


def slow(**more: Any) -> Plan:
    """The guest moves at 5 MB/s, for ten seconds at least."""
    return moving_plan(world=three_hosts(memory_bytes=128 << 20), rate_byte_per_s=5_000_000, **more)


@pytest.mark.parametrize(("when", "later_s"), [("set-up", 0.0), ("rounds", 2.0)])
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


def test_a_source_that_dies_in_the_rounds_takes_the_only_guest_along() -> None:
    died: list[int] = []

    def kill(here: int, there: int) -> None:
        os.kill(here, signal.SIGKILL)
        died.append(there)

    sink, failed, _ = broken(slow(), kill, at="go.started", later_s=2.0)
    assert died
    assert any("guests.v: its virtual machine ended" in reason for reason in failed), failed
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"


@pytest.mark.parametrize("which", ["destination", "source"])
def test_a_guest_whose_memory_is_in_two_places_is_lost_with_either(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's own processes may ask for pages here")
    if userfaults_missing() is not None:
        # Its QEMU keeps root's rights, and so may do what the machine forbids to others.
        monkeypatch.setattr("virtlab.testbed.build.moves.userfaults_missing", lambda: None)
        monkeypatch.setattr("virtlab.testbed.platforms.qemu.confinement.account", lambda _: None)
    plan = slow(mode="post_copy", downtime_limit_ns=None, on_timeout="fail")
    _, failed, marks = broken(
        plan,
        lambda here, there: os.kill(there if which == "destination" else here, signal.SIGKILL),
        at="go.started",
        later_s=2.5,
    )
    assert failed, marks
    assert any("guests.v" in reason for reason in failed), failed
    assert not any("runs on" in reason for reason in failed), "a lost guest is not said to run"


@pytest.mark.slow
def test_twenty_moves_leave_no_descriptor_no_process_and_no_memory() -> None:
    plan = moving_plan(rate_byte_per_s=80_000_000)
    seen: list[tuple[int, int, int]] = []
    for number in range(MOVES):
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
    assert seen[-1][2] - seen[2][2] <= GROWN_BYTES


def descriptors(pid: int) -> int:
    """How many a process holds."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def taps() -> set[str]:
    """Interfaces of this machine's own network: those of a world are in none of it."""
    return {path.name for path in Path("/sys/class/net").iterdir()}
