"""A search as a process of its own, killed with SIGKILL at random moments: no trial that was on disk is lost or
made again, and of the worlds nothing stays.

The trials of a run under way are lines of its journal, each on disk before the next trial begins. So after a kill all
whole lines that were seen must stand, unchanged and in their order, in front of what later sessions add, up to the
run's `trials.jsonl`; and numbers of trials must go on without a gap or a repetition.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import FEWER, TIMEOUT_S
from search_world import searching
from test_resume_kill import descendants, held, namespaces, reaper, soon

from virtlab.results import Dataset

# Some four kills fall into a run of the testbed, and at least half of all must find the search at work.
REPETITIONS = {"simulator": 2 * FEWER, "testbed": max(2, FEWER // 3)}
GOAL = "loss: 0 %, initial_trial: 100 ms, trial: 300 ms, duration_sum: {} s, width: 3 %"
SUM_S = {"simulator": 2, "testbed": 1}  # of both, trials enough to be killed among
PROFILE = """
schema = "virtlab.profile/1"
name = "slow"
processors = 1
[parameters."platform.namespace.forward_ns"]
value = 25000
[parameters."vswitch.linux_bridge.packet_ns"]
value = 0
"""

__all__ = ["reaper"]  # a fixture


# What `virtlab run` does once the machine is its own; a search that is killed measures nothing, and need not wait for
# that.
CAMPAIGN = """
from pathlib import Path
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.testbed import Testbed

text = Path("killed.yaml").read_text()
experiment, backend = load_text(text), Testbed()
able = backend.capabilities()
with open_dataset(Path("killed.results"), text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
    run_campaign(experiment, dataset, backend)
"""
COMMAND = """
import sys
from virtlab.cli.main import main
sys.argv = ["virtlab", "run", "killed.yaml", "--no-report", "--backend", "simulator", "--profile", "slow.profile.toml"]
main()
"""


def command(place: Path, arm: str) -> subprocess.Popen[bytes]:
    (place / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND if arm == "simulator" else CAMPAIGN],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(place / "tmp"), "XDG_CONFIG_HOME": str(place / "config")},
    )


def journalled(dataset: Path) -> dict[str, list[str]]:
    """Run -> whole lines of its trials, from its journal or, when it is finished, from what it kept."""
    found: dict[str, list[str]] = {}
    for file in [*dataset.glob("journal/*.jsonl"), *dataset.glob("runs/p*/artefacts/trials.jsonl")]:
        run = file.stem if file.parent.name == "journal" else file.parent.parent.name
        try:
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        except OSError:
            continue  # finished meanwhile
        found.setdefault(run, [line for line in lines if line.endswith("\n")])
    return found


def trials(lines: list[str]) -> list[str]:
    """Ids of trials, in order."""
    return [found["id"] for line in lines[1:] if "id" in (found := json.loads(line))]


@pytest.mark.slow
@pytest.mark.timeout(3 * TIMEOUT_S)
@pytest.mark.usefixtures("reaper")
@pytest.mark.parametrize("arm", ["simulator", "testbed"])
def test_kills_lose_and_repeat_no_trial_and_leave_nothing(arm: str, tmp_path: Path) -> None:
    import testbed_world as worlds

    if arm == "testbed" and worlds.missing() is not None:
        pytest.skip(str(worlds.missing()))
    text = searching(
        "killed",
        low="2 kpacket/s",
        high="100 kpacket/s",
        goal=GOAL.format(SUM_S[arm]),
        more="warmup: 100 ms",
        repeat=REPETITIONS[arm],
    )
    (tmp_path / "killed.yaml").write_text(text)
    (tmp_path / "slow.profile.toml").write_text(PROFILE)
    dataset = tmp_path / "killed.results"
    others = descendants(os.getpid())
    draws = random.Random(20)
    kept: dict[str, list[str]] = {}
    within = 0
    for kill in range(FEWER):
        process = command(tmp_path, arm)
        seen: set[str] = set()
        before, begun = sum(map(len, journalled(dataset).values())), time.monotonic()
        while process.poll() is None and sum(map(len, journalled(dataset).values())) <= before:
            assert time.monotonic() < begun + 600, "no trial began"
            seen |= namespaces(descendants(process.pid))
            time.sleep(0.01)
        end = time.monotonic() + draws.uniform(0.0, 0.8 if arm == "testbed" else 0.4)
        while time.monotonic() < end and process.poll() is None:
            seen |= namespaces(descendants(process.pid))
            time.sleep(0.01)
        within += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        soon("processes", lambda: descendants(os.getpid()) - others)
        soon("namespaces", lambda seen=seen: held(seen))
        now = journalled(dataset)
        for run, lines in kept.items():
            assert now[run][: len(lines)] == lines, f"trials of {run} were lost or changed at kill {kill}"
        kept = now
    assert within >= FEWER // 2, "the command was too fast to be killed"
    # 4: the machine was too busy for some run of the testbed, said so and kept its attempts
    assert command(tmp_path, arm).wait(600) in ({0} if arm == "simulator" else {0, 4})
    whole = journalled(dataset)
    for run, lines in kept.items():
        assert whole[run][: len(lines)] == lines
    for run, lines in whole.items():
        made = trials(lines)
        assert made == [f"t{number}" for number in range(len(made))], f"{run} has a gap or a repetition"
    records = Dataset.open(dataset).runs()
    assert {record.name for record in records} == set(whole)
    if arm == "simulator":
        assert [record.status for record in records] == ["ok"] * REPETITIONS[arm]
    assert not list(dataset.glob("journal/*.jsonl"))
    assert not list(dataset.glob("runs/.partial-*"))
    assert descendants(os.getpid()) <= others
    assert not list((tmp_path / "tmp").iterdir())
