"""Appliances whose machine ends, at boot or in mid-run: one clear error with the console's end, and the rest goes
on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import appliance_world as appliances
import machine_world as machines
import pytest
import testbed_world as worlds
from test_appliances import FILE, plan

from virtlab.plan import Trial
from virtlab.results import Dataset
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(appliances.missing() is not None, reason=str(appliances.missing())),
    pytest.mark.timeout(600),
]
RUNS = """
from virtlab.cli.main import main
main(["run", "through.yaml", "--no-report"])
"""


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


def test_runs_of_an_appliance_that_ends_at_boot_failed_with_its_console_and_the_others_are_measured(
    configuration: Path, tmp_path: Path
) -> None:
    appliances.install(configuration)
    appliances.install(configuration, name="broken", init=appliances.ENDS)
    text = (
        FILE.replace("image: router", 'image: "${image}"') + "factors: {image: [broken, router]}\nrepeat: 1\n"
    )
    (tmp_path / "through.yaml").write_text(text)
    before = worlds.own_processes()
    done = subprocess.run(
        [sys.executable, "-c", RUNS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    runs = Dataset.open(tmp_path / "through-an-appliance.results").runs()
    assert {run.levels["image"] for run in runs if run.status != "failed"} == {"router"}
    failed = [run for run in runs if run.levels["image"] == "broken"]
    assert failed, done.stderr
    for run in failed:
        assert (run.status, run.streams()) == ("failed", [])
        [why] = run.reasons
        assert why.startswith("guests.r1: its virtual machine ended with "), why
        assert "its console ends with: " in why
        assert "no configuration, no router" in why
        assert b"no configuration" in (run.folder / "artefacts" / "console-r1.log").read_bytes()
    assert worlds.own_processes() <= before


def test_an_appliance_that_ends_in_mid_run_fails_the_run_by_name_and_the_next_goes_on(
    configuration: Path, tmp_path: Path
) -> None:
    appliances.install(configuration)
    wanted = plan(tmp_path)
    roles = {"probe": wanted.roles["probe"].model_copy(update={"count": 2000})}
    with Testbed().open(wanted.model_copy(update={"roles": roles}), worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        victim = machines.process_of(session, "r1")
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at=".started")
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    sign = "guests.r1: its virtual machine ended with signal 9; its console ends with: "
    (why,) = (reason for reason in outcome.reasons if "ended with" in reason)
    assert why.startswith(sign)
    assert "# " in why
    assert b"ip address add" in sink.artefacts["console-r1.log"]
    with Testbed().open(wanted, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t1", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == 20
