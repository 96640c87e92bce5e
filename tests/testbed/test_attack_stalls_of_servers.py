"""What answers beside the probes, stopped or starved in mid-run, is named by the run: services, folders, programs.

A process that is starved is runnable all the time: its threads are bound to one processor, on which another process
computes above all others for a while.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import process_world as processes
import pytest
import stop_world as stops
import testbed_world as worlds
from killing import descendants

from virtlab.plan import Outcome, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build import stored_disks
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
AWAY_S = 0.15
HOG = f"""
import os, time
os.sched_setaffinity(0, {{int(os.environ["CPU"])}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))
until = time.monotonic() + {AWAY_S}
while time.monotonic() < until: pass
"""
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root starves others for sure")
FUSE = pytest.mark.skipif(not os.access(stored_disks.DEVICE, os.R_OK | os.W_OK), reason="no FUSE here")
UNITS_S = {"ms": 1e-3, "ns": 1e-9}
ROUNDS = 3  # of what the machine may hold up by itself, or let pass
Does = Callable[[int], None]


def stop(pid: int) -> None:
    """Stops a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(AWAY_S)
    os.kill(pid, signal.SIGCONT)


def starve(pid: int) -> None:
    """Takes its processor away for a while."""
    processor = min(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {processor})
    subprocess.run([sys.executable, "-c", HOG], env={**os.environ, "CPU": str(processor)}, check=True)


def played(plan: Plan, words: bytes, does: Does, at: str) -> tuple[Outcome, worlds.MemorySink]:
    """How a run went in which something was done to the first process with these words on its command line."""
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)

        def act() -> None:
            does(processes.process_of(session, words))

        sink = worlds.ActingSink(act, at=at)
        return session.run(Trial("t0", 1), sink), sink


def store(role: str, disk: str = "") -> Plan:
    """A world with three nodes and one client."""
    from test_stores import HASH, MEMORY, planned

    return planned(3, f"copies: 3, {HASH}, {MEMORY}", f"  load: {{{role}}}", timeline=stops.LOAD, beside=disk)


def found(reasons: Sequence[str], begins: str) -> list[str]:
    """Those that begin so and name a standstill as long as it was."""
    lasted = [(each, each.rpartition("at most ")[2].split()) for each in reasons if each.startswith(begins)]
    return [each for each, (number, unit) in lasted if float(number) * UNITS_S[unit] >= 0.8 * AWAY_S]


@pytest.mark.parametrize("does", [stop, pytest.param(starve, marks=ROOT)])
def test_a_node_of_a_store_that_was_kept_from_running_taints_the_run(does: Does) -> None:
    """Repeated where the hog came too late or was throttled itself."""
    for _ in range(ROUNDS):
        outcome, _ = played(store(stops.OBJECTS), b"exe\0store\0", does, "load.started")
        if told := found(outcome.reasons, "services.depot/h1.n0: starved: it stood still"):
            break
    assert outcome.status == "tainted", outcome
    assert len(told) == 1, outcome.reasons


@ROOT
def test_a_demand_server_that_was_starved_says_so_and_its_waits_count() -> None:
    """They are what such a service is there to measure: the other guests of the experiment may be what it waits for."""
    from test_demand_servers import APP, planned

    for _ in range(ROUNDS):
        outcome, sink = played(planned({"app": APP}), b"exe\0serve\0", starve, "ask.started")
        events = [event.details["text"] for event in sink.events if event.what == "guest.starved"]
        if told := found(events, "services.app/b: starved: it stood still"):
            break
    assert len(told) == 1, (outcome, events)
    assert not any(reason.startswith("services.app") for reason in outcome.reasons), outcome


@FUSE
def test_a_leader_that_was_stopped_taints_the_run_of_a_folder_on_a_store() -> None:
    disk = "app: {disk: {size: 4 MiB, medium: service, service: depot}}"
    role = "workload: files, from: h1.app, operations: create, count: 400, rate: 400 request/s, sync: fsync, size: 1 kB"
    outcome, _ = played(store(role, disk), b"virtlab-agent\0leader", _stop_its_world, "load.started")
    assert outcome.status == "tainted", outcome
    told = found(outcome.reasons, "guests.h1.app.disk: starved: what serves it stood still")
    assert len(told) == 1, outcome.reasons


def _stop_its_world(leader: int) -> None:
    """Stops the leader outside the world, and the one that is its first process."""
    leaders = [pid for pid in {leader, *descendants(leader)} if b"\0leader" in _words(pid)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in leaders:
            os.kill(pid, number)
        time.sleep(AWAY_S)


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_program_that_was_stopped_taints_the_run() -> None:
    plan = worlds.plan(
        worlds.bridged(),
        roles={
            "own": {"workload": "program", "from": "a", "argv": ["sleep", "1.2345"], "timeout_ns": 10**10}
        },
        timeline=[{"id": "load", "do": "run", "role": "own"}],
    )
    outcome, _ = played(plan, b"sleep\x001.2345", stop, "load.started")
    assert outcome.status == "tainted", outcome
    told = [
        reason
        for reason in outcome.reasons
        if reason.startswith("roles.own: starved: its process was stopped")
    ]
    assert len(told) == 1, outcome.reasons


@pytest.mark.parametrize("does", [stop, pytest.param(starve, marks=ROOT)])
@pytest.mark.parametrize("workload", ["objects", "files"])
def test_a_client_of_a_store_or_of_files_that_was_kept_from_running_taints_the_run(
    workload: str, does: Does
) -> None:
    role = stops.OBJECTS if workload == "objects" else stops.FILES
    for _ in range(ROUNDS):
        outcome, _ = played(store(role), b"virtlab-agent\0probe", does, "load.started")
        if told := found(outcome.reasons, "roles.load: guest h1.client: starved: the probe stood still"):
            break
    assert outcome.status == "tainted", outcome
    assert len(told) == 1, outcome.reasons
