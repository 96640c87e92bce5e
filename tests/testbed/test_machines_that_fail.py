"""Virtual machines that do not become what was asked for: each one clear error with the console's end, the whole
console kept where the failed run is, and the rest of the experiment measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Observer
from virtlab.results import Dataset
from virtlab.testbed import Testbed
from virtlab.testbed.platforms.qemu import command
from virtlab.testbed.platforms.qemu import machines as runtime
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]


def opened(**properties: object) -> TestbedSession:
    world = machines.machines(worlds.one_host(2), "g1", **properties)
    session = Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel says on its console all that it does."""
    append = command.Machine._append
    monkeypatch.setattr(command.Machine, "_append", lambda self: append(self).replace("quiet ", ""))


def test_a_port_that_stays_down_is_told_with_the_consoles_end_and_a_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await_told = runtime.Machines._await_told

    def unplugged(self: runtime.Machines, machine: runtime.Started, observe: Observer) -> None:
        await_told(self, machine, observe)
        devices = self.monitor(machine.name).execute("query-rx-filter")
        for device in devices:
            self.monitor(machine.name).execute("set_link", {"name": device["name"], "up": False})
        machine.ports_query = self._look(machine)  # what it saw before that tells nothing of it

    talkative(monkeypatch)
    monkeypatch.setattr(runtime.Machines, "_await_told", unplugged)
    monkeypatch.setattr(runtime, "CARRIER_TIMEOUT_S", 1.0)
    before = worlds.own_processes()
    with pytest.raises(GuestError, match=r"eth0 had no carrier within 1 s; its console ends with: ") as error:
        opened()
    assert error.value.where == "guests.g1"
    assert error.value.cure == runtime.CURE_CARRIER
    console = error.value.artefacts["console-g1.log"]
    assert b"Linux version" in console, "the console from its first line on"
    lines = error.value.what.split("its console ends with: ")[1].split(" | ")
    assert all(line.strip() in console.decode(errors="replace") for line in lines[:-1])
    assert worlds.own_processes() <= before


def test_another_number_of_processors_than_was_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = command.Machine.argv

    def single(self: command.Machine) -> list[str]:
        words = argv(self)
        words[words.index("-smp") + 1] = "1"
        return words

    monkeypatch.setattr(command.Machine, "argv", single)
    with pytest.raises(GuestError, match=r"has vcpus 1, not 2; its console ends with: ") as error:
        opened(vcpus=2)
    assert (error.value.where, error.value.cure) == ("guests.g1", runtime.CURE_UNLIKE)


def test_more_memory_than_can_be_had_is_not_cured_by_more() -> None:
    with pytest.raises(GuestError, match="Cannot allocate memory; its console ends with: nothing") as error:
        opened(memory_bytes=1000 << 40)
    assert error.value.cure == runtime.CURE_LESS


def test_a_monitor_that_does_not_answer_is_told_with_the_consoles_end() -> None:
    with opened() as session:
        found = cast("runtime.Machines", session._guests.owners["g1"])
        victim = machines.process_of(session, "g1")
        os.kill(victim, signal.SIGSTOP)
        with pytest.raises(
            GuestError, match=r"its monitor did not answer query-status within 1 s; its console ends with: "
        ) as error:
            found.monitor("g1").execute("query-status", timeout_s=1.0)
        assert error.value.where == "guests.g1"
        assert "see its console" in error.value.cure
        os.kill(victim, signal.SIGCONT)
        assert found.monitor("g1").execute("query-version")["qemu"]["major"] > 0


# With this seed the machine is first, and what comes after its failure is measured.
FILE = """
version: 1
name: halves
seed: 3
factors: {platform: [namespace, qemu]}
hosts: {h1: {platform: "${platform}"}, h2: {}}
topology: line
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 5 ms, count: 10}
repeat: 1
"""
# A kernel that waits for a disk that never comes: it runs, and nobody in it ever answers.
NEVER = "rdinit=/nothing root=/dev/nowhere rootwait"
PANICS = "rdinit=/nothing root=/dev/nowhere"
RUNS = """
import sys
from virtlab.testbed.platforms.qemu import command, machines
append = command.Machine._append
command.Machine._append = lambda self: append(self).replace("quiet ", "") + " " + sys.argv[1]
machines.BOOT_TIMEOUT_S = float(sys.argv[2])
from virtlab.cli.main import main
main(["run", "halves.yaml", "--no-report"])
"""


@pytest.mark.parametrize(
    ("words", "timeout_s", "reason"),
    [
        (NEVER, 4, "did not boot within 4 s; its console ends with: "),
        (PANICS, 300, "its kernel panicked: "),
    ],
    ids=["never", "panics"],
)
def test_runs_of_a_guest_that_never_boots_failed_with_its_console_and_the_others_are_measured(
    tmp_path: Path, words: str, timeout_s: int, reason: str
) -> None:
    (tmp_path / "halves.yaml").write_text(FILE)
    argv = [sys.executable, "-c", RUNS, words, str(timeout_s)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    runs = Dataset.open(tmp_path / "halves.results").runs()
    good = [run for run in runs if run.levels["platform"] == "namespace"]
    failed = [run for run in runs if run.levels["platform"] == "qemu"]
    assert [run.status for run in good if run.status != "failed"], "the others are measured"
    assert failed
    assert min(run.started for run in good) > min(run.started for run in failed)
    for run in failed:
        assert run.status == "failed"
        (why,) = run.reasons
        assert why.startswith(f"guests.h1.g1: {reason}"), why
        assert run.streams() == []
        console = (run.folder / "artefacts" / "console-h1.g1.log").read_bytes()
        if words == PANICS:
            assert b"Linux version" in console, "the console from its first line on"
            assert b"Kernel panic" in console
            assert "Kernel panic" in why
