"""A process that measures, answers or switches and that was stopped in mid-run taints the run, whatever it plays."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import process_world as processes
import pytest
import stop_world as stops
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def stop_for(pid: int, seconds: float) -> None:
    """Stops a process, and lets it go on."""
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()


def played(role: dict[str, Any], victim: str) -> tuple[str, tuple[str, ...]]:
    """Status and reasons of a run in which the victim was stopped for 100 ms."""
    plan = worlds.echo_plan(
        worlds.bridged(),
        roles={"load": {"from": "a", "to": "b", **role}},
        timeline=[{"id": "measure", "do": "run", "role": "load"}],
        collect={"packets": ["load"], "counters": []},
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)

        def act() -> None:
            agents = processes.agents_of(session, "switch" if victim == "switch" else "probe")
            stop_for(agents[victim == "a"], 0.1)

        outcome = session.run(Trial("t0", 1), worlds.ActingSink(act))
    return outcome.status, outcome.reasons


@pytest.mark.parametrize("workload", stops.ROLES)
@pytest.mark.parametrize("end", ["b", "a"])
def test_an_end_that_was_stopped_for_a_tenth_of_a_second_taints_the_run(workload: str, end: str) -> None:
    status, reasons = played(stops.ROLES[workload], end)
    assert status == "tainted"
    assert any(f"guest {end}: starved: the probe stood still" in reason for reason in reasons), reasons


def test_a_soft_switch_that_was_stopped_taints_the_run() -> None:
    status, reasons = played(stops.ROLES["rtt over UDP"], "switch")
    assert status == "tainted"
    assert any("soft switch: starved: it stood still" in reason for reason in reasons), reasons
