"""Attacks on a running world: floods, silence, and a leader that is stopped while its Python dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.agents.requests.every import ReadClock
from virtlab.agents.requests.leader import Apply, Spawn
from virtlab.errors import AgentError
from virtlab.plan import Trial
from virtlab.testbed.backend import Testbed
from virtlab.testbed.leader import process as leaders
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.play.run import Pass
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

RELAY_BYTES_PER_S = 2_000_000


def children(process: int) -> list[int]:
    """Of a process, by its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="utf-8").split())
    return found


def gone(process: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return True


@pytest.mark.parametrize("stopped", ["outside", "inside", "both"])
def test_a_leader_that_is_stopped_ends_with_its_python(stopped: str) -> None:
    script = (
        "import time; from virtlab.agents.requests.leader import Apply, Exec\n"
        "from virtlab.testbed.leader.process import Leader\n"
        "led = Leader.start(); led.control.call(Apply([{'op': 'namespace', 'name': 'x'}]))\n"
        "led.control.call(Exec(5, 'x', ['sleep', '600']))\n"
        "print(led.process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as python:
        assert python.stdout is not None
        outside = int(python.stdout.readline())
        (inside,) = children(outside)
        (sleep,) = children(inside)
        for process in {"outside": [outside], "inside": [inside], "both": [outside, inside]}[stopped]:
            os.kill(process, signal.SIGSTOP)
        python.kill()
        python.wait()
    end = time.monotonic() + 10
    left = [outside, inside, sleep]
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = [process for process in left if not gone(process)]
    for process in left:  # nothing of a failed test stays
        os.kill(process, signal.SIGKILL)
    assert not left


@contextmanager
def slowly_read() -> Iterator[Control]:
    """A leader at the other end of a slow line."""
    (ours, near), (far, theirs) = socket.socketpair(), socket.socketpair()
    with tempfile.TemporaryFile() as errors:
        argv = [str(leaders.agent_path()), "leader", "--control-fd", "3", "--parent", str(os.getpid())]
        with theirs:
            process = leaders._spawn(argv, theirs, errors, keep=True)
        control = Control(ours)

        def carry(source: socket.socket, to: socket.socket, bytes_per_s: float) -> None:
            while content := source.recv(20_000):
                to.sendall(content)
                time.sleep(len(content) / bytes_per_s)
            to.close()

        for source, to, bytes_per_s in ((near, far, 1e9), (far, near, RELAY_BYTES_PER_S)):
            threading.Thread(target=_until_closed, args=(carry, source, to, bytes_per_s), daemon=True).start()
        try:
            control.greet()
            yield control
        finally:
            process.kill()
            process.wait()
            control.close()


def _until_closed(carry, *arguments) -> None:  # type: ignore[no-untyped-def]
    try:
        carry(*arguments)
    except OSError:
        return


def test_a_flood_of_output_stands_in_front_of_no_answer() -> None:
    with slowly_read() as control:
        control.call(Apply(batch=[{"op": "namespace", "name": "x"}]))
        control.call(Spawn(channel=3, role="probe", namespace="x"))
        control.greet(3)
        command = Command(control, 10, "x", ["cat", "/dev/zero"])
        control.listen(10, command.take)
        command.start()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            control.pump(0.1)
        began = time.monotonic()
        control.call(ReadClock(), channel=3)
        assert time.monotonic() - began < 1.2  # 4 MiB would take two seconds
        assert command.output


def test_what_nobody_foresaw_fails_a_run_with_the_place_among_its_artefacts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble(_: Pass) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr(Pass, "play", stumble)
    with (
        Testbed().open(
            worlds.echo_plan(worlds.one_host(2), source="g1", target="g2"), worlds.Patient()
        ) as session,
        pytest.raises(AgentError, match="KeyError: 'unforeseen'; a defect of virtlab") as told,
    ):
        session.run(Trial(id="t0", seed=1), worlds.MemorySink())
    assert "\n" not in str(told.value)
    assert b"in stumble" in told.value.artefacts["defect.txt"]


def test_a_probe_that_hangs_costs_a_run_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("virtlab.testbed.play.run.CALL_TIMEOUT_S", 2.0)
    for call in (Control.wait, Control.call, Control.call_all):
        name = "timeout_s"
        if call.__kwdefaults__ and name in call.__kwdefaults__:
            monkeypatch.setitem(call.__kwdefaults__, name, 2.0)
    plan = worlds.echo_plan(worlds.bridged(), count=10_000, limits={"run_ns": 2_000_000_000})
    observer = worlds.Patient()
    with Testbed().open(plan, observer) as session:
        assert isinstance(session, TestbedSession)

        def stop() -> None:
            for process in children(children(session.leader.process.pid)[0]):
                if "probe" in Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8"):
                    os.kill(process, signal.SIGSTOP)

        sink = worlds.ActingSink(stop)
        began = time.monotonic()
        outcome = session.run(Trial(id="t0", seed=1), sink)
        took_s = time.monotonic() - began
    assert outcome.status == "failed"
    assert any("guest a: no answer within" in reason for reason in outcome.reasons), outcome.reasons
    assert any("guest b: no answer within" in reason for reason in outcome.reasons)
    assert took_s < 2 + 2 * 2.0 + 4
