"""Stopped at any moment, a process that measures, answers or switches never stands still for 20 ms unseen.

What is stopped are processes of this machine: probes at both ends, the soft switch, Open vSwitch, and whole virtual
machines by their QEMU: guests, routers, the laboratory. A process inside a virtual machine cannot be stopped from here.
The QEMU of a domain of libvirt is its daemon's child, of which nothing here hears: its probe tells, stopped where a
host plays it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import appliance_world as appliances
import container_world as containers
import far_world as far_worlds
import killing
import libvirt_world
import machine_world as machines
import process_world as processes
import pytest
import stop_world as stops
import testbed_world as worlds

from virtlab.plan import Event, Outcome, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(killing.TIMEOUT_S),
]
STALL_NS = 20_000_000
LONGEST_S = 0.5
BUDGET_S = 8.0
SHORT_S, SHORT_MIN = 2.0, 2  # of platforms whose probes are those of others
MACHINE_BYTES = 256 << 20  # the ring of a receiver of raw frames is most of what a small machine has
ROUNDS_MIN = 4
PER_SESSION = 5
ROUTED = sorted(stops.ROLES.keys() - {"raw_stream"})  # its frames go where one switch takes them
Victims = Callable[[TestbedSession], Mapping[str, int]]  # their processes, by what they are
ASKED = pytest.mark.skipif(
    not os.environ.get(killing.EVERY_ROUND),
    reason=f"machines boot for it: set {killing.EVERY_ROUND}, or `make kill`",
)


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

    def inside_ns(self, outcome: Outcome, clock_ns: int) -> int:
        """How long it stood still in the measured window, whose clock is so far ahead of this one."""
        assert self.thread is not None
        self.thread.join()
        assert self.stood is not None
        begin, end = outcome.windows["measured"]
        return min(end, self.stood[1] + clock_ns) - max(begin, self.stood[0] + clock_ns)


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


def probes(session: TestbedSession) -> dict[str, int]:
    """Of both ends, where they are processes of this machine's world."""
    far, near = processes.agents_of(session, "probe")[:2]
    return {"the far probe": far, "the near probe": near}


def with_the_soft_switch(session: TestbedSession) -> dict[str, int]:
    """Those and what plays links and physical switches."""
    (switch,) = processes.agents_of(session, "switch")
    return {**probes(session), "the soft switch": switch}


def beside(what: str, words: bytes) -> Victims:
    """A process with these words on its command line, and the probes."""
    return lambda session: {**probes(session), what: processes.process_of(session, words)}


def alone(what: str, words: bytes) -> Victims:
    """Only that."""
    return lambda session: {what: processes.process_of(session, words)}


def at_a_distance(far: far_worlds.FarHosts) -> Victims:
    """The probes on existing hosts."""

    def found(session: TestbedSession) -> dict[str, int]:
        del session
        lines = {
            name: {pid: killing.command(pid).split() for pid in far.processes(name)}
            for name in far_worlds.NAMES
        }
        return {
            f"the probe of {name}": pid
            for name, pids in lines.items()
            for pid, words in pids.items()
            if words[1:2] == ["probe"]
        }

    return found


def unseen(
    session: TestbedSession, victims: Mapping[str, int], draws: random.Random, clock_ns: int
) -> str | None:
    """Plays a run in which one process is stopped at some moment; what was not seen of it."""
    victim = draws.choice(sorted(victims))
    after_s, for_s = draws.uniform(0.0, 0.75), draws.uniform(0.02, LONGEST_S)
    sink = Stopping(victims[victim], after_s, for_s)
    outcome = session.run(Trial("t0", 1), sink)
    if sink.inside_ns(outcome, clock_ns) < STALL_NS or outcome.status == "tainted":
        return None
    return f"{victim}, stopped after {after_s:.3f} s for {for_s:.3f} s: {outcome.status} {outcome.reasons}"


def play(
    world: dict[str, Any],
    ends: tuple[str, str],
    victims: Victims,
    *,
    seed: int,
    roles: list[str] | None = None,
    counted: Iterator[int] | None = None,
    backend: Testbed | LabVm | None = None,
    clock_ns: Callable[[], int] = lambda: 0,
) -> None:
    """Rounds, some in a session each, with another role."""
    draws = random.Random(seed)
    missed: list[str] = []
    counted = counted or killing.rounds(BUDGET_S, ROUNDS_MIN)
    number = next(counted, None)
    while number is not None:
        role = draws.choice(roles or sorted(stops.ROLES))
        with (backend or Testbed()).open(plan_of(world, role, *ends), worlds.Patient()) as session:
            assert isinstance(session, TestbedSession)
            session.run(Trial("t0", 1), worlds.MemorySink())  # the probes are there once a role was armed
            for _ in range(PER_SESSION):
                if number is None:
                    break
                if (what := unseen(session, victims(session), draws, clock_ns())) is not None:
                    missed.append(f"round {number}, {role}: {what}")
                number = next(counted, None)
    assert missed == []


def a_few() -> Iterator[int]:
    """Rounds of what has little of its own."""
    return killing.rounds(SHORT_S, SHORT_MIN)


def test_no_stall_of_namespaces_or_of_the_soft_switch_is_unseen() -> None:
    play(worlds.bridged(switches=1), ("a", "b"), with_the_soft_switch, seed=31)


def test_no_stall_of_native_guests_is_unseen() -> None:
    play(worlds.native(), ("a", "b"), with_the_soft_switch, seed=34, counted=a_few())


@pytest.mark.parametrize("name", [name for name in runtime.RUNTIMES if shutil.which(name)])
@pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
def test_no_stall_of_containers_is_unseen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.FORCED, name)
    world = containers.containers(worlds.one_host(2))
    play(world, ("g1", "g2"), probes, seed=32, counted=None if name == "runc" else a_few())


@pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
def test_no_stall_of_open_vswitch_is_unseen() -> None:
    world = worlds.one_host(2)
    world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
    play(world, ("g1", "g2"), beside("Open vSwitch", b"ovs-vswitchd\0unix:"), seed=35, counted=a_few())


@pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
def test_open_vswitch_that_stands_still_beyond_the_end_of_a_run_is_seen() -> None:
    world = worlds.one_host(2)
    world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
    with Testbed().open(plan_of(world, "tcp_stream", "g1", "g2"), worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        sink = Stopping(processes.process_of(session, b"ovs-vswitchd\0unix:"), 0.5, 3.0)
        begun = time.monotonic()
        outcome = session.run(Trial("t0", 1), sink)
        assert time.monotonic() < begun + 3.0, "the run did not wait for it"
        assert sink.inside_ns(outcome, 0) >= STALL_NS
    assert [why for why in outcome.reasons if "of Open vSwitch: starved: its process was stopped" in why], (
        outcome
    )


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_no_stall_of_a_machine_is_unseen() -> None:
    world = machines.machines(worlds.one_host(2), "g1", memory_bytes=MACHINE_BYTES)
    play(world, ("g2", "g1"), alone("the machine", b"guest=g1,"), seed=33)


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.usefixtures("reached")
def test_no_stall_of_existing_hosts_is_unseen(far: far_worlds.FarHosts) -> None:
    from test_existing_hosts import plan_of as between_hosts

    world = as_written(between_hosts())
    play(world, ("a", "b"), at_a_distance(far), seed=36, roles=ROUTED, counted=a_few())


@ASKED
@pytest.mark.skipif(domains.missing() is not None, reason=str(domains.missing()))
@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.usefixtures("reached")
def test_no_stall_of_a_domain_is_unseen(
    far: far_worlds.FarHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with libvirt_world.test_driver(tmp_path, monkeypatch) as uri:
        plan = libvirt_world.plan_over_ssh(libvirt_world.named(tmp_path, monkeypatch, uri), count=1)
        play(as_written(plan), ("a", "b"), at_a_distance(far), seed=37, roles=ROUTED)


@ASKED
@pytest.mark.skipif(appliances.missing() is not None, reason=str(appliances.missing()))
def test_no_stall_of_an_appliance_that_forwards_is_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_appliances import plan as through_a_router

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    appliances.install(tmp_path / "configuration")
    world = as_written(through_a_router(tmp_path))
    play(world, ("h1.g1", "h2.g1"), alone("the appliance", b"guest=r1,"), seed=38, roles=ROUTED)


@ASKED
@pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking()))
def test_no_stall_of_the_laboratory_machine_is_unseen() -> None:
    lab = LabVm()

    def ahead_ns() -> int:
        assert lab._machine is not None
        return int(lab._machine.clocks()["offset_ns"])

    def machine(session: TestbedSession) -> dict[str, int]:
        del session
        (pid,) = processes.named(b"guest=lab-vm,")
        return {"the laboratory": pid}

    try:
        play(worlds.bridged(switches=1), ("a", "b"), machine, seed=39, backend=lab, clock_ns=ahead_ns)
    finally:
        lab.close()


def as_written(plan: Plan) -> dict[str, Any]:
    """Its world."""
    return plan.world.model_dump(mode="json", exclude_none=True)
