"""Stopped at any moment, a process that measures, answers or switches never stands still for 20 ms unseen."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import container_world as containers
import killing
import machine_world as machines
import process_world as processes
import pytest
import stop_world as stops
import testbed_world as worlds

from virtlab.plan import Event, Outcome, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(killing.TIMEOUT_S),
]
STALL_NS = 20_000_000
LONGEST_S = 0.5
BUDGET_S = 8.0
MACHINE_BYTES = 256 << 20  # the ring of a receiver of raw frames is most of what a small machine has
ROUNDS_MIN = 4


class Stopping(worlds.MemorySink):
    """Stops a process at some moment of the run, for some time, and notes when it certainly stood still."""

    def __init__(self, pid: int, after_s: float, for_s: float) -> None:
        super().__init__()
        self.pid, self.after_s, self.for_s = pid, after_s, for_s
        self.stood: tuple[int, int] | None = None
        self.thread: threading.Thread | None = None

    def event(self, event: Event) -> None:
        super().event(event)
        if event.what == "measure.started" and self.thread is None:
            self.thread = threading.Thread(target=self._stop)
            self.thread.start()

    def _stop(self) -> None:
        time.sleep(self.after_s)
        os.kill(self.pid, signal.SIGSTOP)
        try:
            while any(state != "T" for state in _states(self.pid)):
                time.sleep(0.0005)
            since = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            time.sleep(self.for_s)
            self.stood = since, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def inside_ns(self, outcome: Outcome) -> int:
        """How long it stood still in the measured window."""
        assert self.thread is not None
        self.thread.join()
        assert self.stood is not None
        begin, end = outcome.windows["measured"]
        return min(end, self.stood[1]) - max(begin, self.stood[0])


def _states(pid: int) -> list[str]:
    """Of every thread."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found.append((task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0])
    return found


def plan_of(world: dict[str, object], role: str, source: str, target: str) -> Plan:
    """The world with one role of the name."""
    return worlds.echo_plan(
        world,
        roles={"load": {"from": source, "to": target, **stops.ROLES[role]}},
        timeline=[{"id": "measure", "do": "run", "role": "load"}],
        collect={"packets": [], "counters": []},
    )


def unseen(platform: str, session: TestbedSession, draws: random.Random) -> str | None:
    """Plays a run in which one process is stopped at some moment; what was not seen of it."""
    victims = {"the far probe": 0, "the near probe": 1, "the soft switch": -1}
    victim = draws.choice([name for name, place in victims.items() if place >= 0 or platform == "namespace"])
    if platform == "qemu":
        victim, pid = "the machine", machines.process_of(session, "g1")
    elif victims[victim] < 0:
        (pid,) = processes.agents_of(session, "switch")
    else:
        pid = processes.agents_of(session, "probe")[victims[victim]]
    after_s, for_s = draws.uniform(0.0, 0.75), draws.uniform(0.02, LONGEST_S)
    sink = Stopping(pid, after_s, for_s)
    outcome = session.run(Trial("t0", 1), sink)
    if sink.inside_ns(outcome) < STALL_NS or outcome.status == "tainted":
        return None
    return f"{victim}, stopped after {after_s:.3f} s for {for_s:.3f} s: {outcome.status} {outcome.reasons}"


def play(platform: str, world: dict[str, object], source: str, target: str, seed: int) -> None:
    """Rounds, each in a session with another role."""
    draws = random.Random(seed)
    missed: list[str] = []
    roles = sorted(stops.ROLES)
    counted = killing.rounds(BUDGET_S, ROUNDS_MIN)
    number = next(counted, None)
    while number is not None:
        role = roles[draws.randrange(len(roles))]
        with Testbed().open(plan_of(world, role, source, target), worlds.Patient()) as session:
            assert isinstance(session, TestbedSession)
            session.run(Trial("t0", 1), worlds.MemorySink())  # the probes are there once a role was armed
            for _ in range(5):
                if number is None:
                    break
                if (what := unseen(platform, session, draws)) is not None:
                    missed.append(f"round {number}, {role}: {what}")
                number = next(counted, None)
    assert missed == []


def test_no_stall_of_namespaces_or_of_the_soft_switch_is_unseen() -> None:
    play("namespace", worlds.bridged(switches=1), "a", "b", 31)


@pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
def test_no_stall_of_containers_is_unseen() -> None:
    play("container", containers.containers(worlds.one_host(2)), "g1", "g2", 32)


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_no_stall_of_a_machine_is_unseen() -> None:
    world = machines.machines(worlds.one_host(2), "g1", memory_bytes=MACHINE_BYTES)
    play("qemu", world, "g2", "g1", 33)
