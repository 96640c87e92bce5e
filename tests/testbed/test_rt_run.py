"""Hard-deadline tasks on the real kernel: the supply recorded, judged, refused in plain words, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from virtlab.errors import ExperimentError, MachineError
from virtlab.realtime import TaskSet, analyze
from virtlab.realtime.confirm import Observation, judge, shortfall_ns
from virtlab.realtime.examples import UNIT_NS, example
from virtlab.testbed.build import realtime
from virtlab.testbed.build.realtime_quota import ledger, quota_group, sweep
from virtlab.testbed.leader.process import agent_path


def deadline_allowed() -> str:
    """Why SCHED_DEADLINE cannot be used here; empty when it can."""
    try:
        realtime.measure_overhead(period_ns=10_000_000, budget_ns=2_000_000, seconds=0.1, by="deadline")
    except MachineError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def reservation() -> None:
    why = deadline_allowed()
    if why:
        pytest.skip(why)


def observed(windows: list[list[int]], jobs: list[list[int]]) -> Observation:
    return Observation(
        np.array(windows),
        np.zeros((0, 4), dtype=np.int64),
        np.array(jobs).reshape(-1, 5),
        0,
        0,
        0,
        None,
        "deadline",
    )


def exact_supply(periods: int) -> list[list[int]]:
    return [[6 * UNIT_NS * k, (6 * k + 3) * UNIT_NS] for k in range(periods)]


def test_a_kept_supply_with_responses_in_bounds_confirms_and_one_beyond_refutes():
    analysis = analyze(example((8, 1), (15, 3)), period_ns=6 * UNIT_NS, budget_ns=3 * UNIT_NS)
    for late, verdict in ((0, "confirmed"), (1, "refuted")):
        jobs = [[0, 0, 0, 7 * UNIT_NS, UNIT_NS], [0, 1, 0, 14 * UNIT_NS + late, 3 * UNIT_NS]]
        assert judge(observed(exact_supply(20), jobs), analysis).verdict == verdict


def test_a_broken_supply_voids_whatever_the_responses():
    analysis = analyze(example((8, 1), (15, 3)), period_ns=6 * UNIT_NS, budget_ns=3 * UNIT_NS)
    windows = exact_supply(20)
    del windows[10:12]
    found = judge(observed(windows, [[0, 0, 0, 1, 1], [0, 1, 0, 1, 1]]), analysis)
    assert found.verdict == "void"
    assert found.shortfall_ns > 0


def test_an_unfinished_job_is_no_confirmation():
    analysis = analyze(example((8, 1), (15, 3)), period_ns=6 * UNIT_NS, budget_ns=3 * UNIT_NS)
    found = judge(observed(exact_supply(20), [[0, 0, 0, 0, 0], [0, 1, 0, UNIT_NS, 1]]), analysis)
    assert found.verdict == "refuted"
    assert found.tasks[0].unfinished == 1


def test_the_worst_allowed_placement_of_budgets_is_no_shortfall():
    # First budget early, all later ones late: exactly the model's worst case.
    windows = np.array([[0, 3], *[[6 * k + 3, 6 * k + 6] for k in range(1, 30)]])
    assert shortfall_ns(windows, period_ns=6, budget_ns=3, overhead_ns=0, horizon_ns=100) <= 0


def test_the_guest_gets_a_period_by_period_supply_and_the_bound_is_not_refuted(reservation):
    tasks = example((50, 4), (80, 8))
    analysis = analyze(tasks, period_ns=20 * UNIT_NS, budget_ns=10 * UNIT_NS, overhead_ns=2 * UNIT_NS)
    assert analysis.schedulable
    attempts = realtime.run_guest(tasks, analysis, seconds=0.6, phases=4, by="deadline")
    last = attempts[-1]
    assert 1 <= len(attempts) <= realtime.ATTEMPTS
    assert all(attempt.judgement.verdict == "void" for attempt in attempts[:-1])
    # A busy machine may break the supply every time; it can never refute the proof.
    assert last.judgement.verdict in {"confirmed", "void"}
    assert len(last.judgement.supply_per_period_ns) > 5
    assert max(last.judgement.supply_per_period_ns) <= 20 * UNIT_NS
    finished = last.observed.jobs[last.observed.jobs[:, 3] > 0]
    assert len(finished) > 0
    assert (finished[:, 4] >= 4 * UNIT_NS).all()
    phases = {int(release) for release in last.observed.jobs[:, 0]}
    assert len(phases) >= 4


def test_overhead_is_a_loss_per_period(reservation):
    found = realtime.measure_overhead(period_ns=10_000_000, budget_ns=2_000_000, seconds=0.3, by="deadline")
    assert found.periods > 5
    assert 0 < found.median_ns <= found.largest_ns <= 2_000_000
    assert found.advised_ns >= found.largest_ns


@pytest.mark.parametrize(
    ("period", "budget", "says"),
    [
        (50_000, 10_000, "100 us to 4.19 s"),
        (5_000_000_000, 1_000_000, "4.19 s"),
        (10_000_000, 500, "1024 ns"),
    ],
)
def test_refused_periods_are_told_in_plain_words(reservation, period, budget, says):
    with pytest.raises(MachineError, match=says):
        realtime.measure_overhead(period_ns=period, budget_ns=budget, seconds=0.1, by="deadline")


def test_more_bandwidth_than_there_is_is_an_admission_error(reservation):
    others = [realtime.Competitor(10_000_000, 9_000_000)] * (4 * len(os.sched_getaffinity(0)))
    with pytest.raises(MachineError, match="admission"):
        realtime.measure_overhead(
            period_ns=10_000_000, budget_ns=5_000_000, seconds=0.1, by="deadline", competitors=others
        )


def test_a_pinned_guest_is_told_so(reservation):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one CPU: nothing to pin to")
    agent = str(agent_path())
    request = json.dumps(
        {"period_ns": 10_000_000, "budget_ns": 1_000_000, "by": "deadline", "duration_ns": 10_000_000}
    )
    answer = subprocess.run(
        ["taskset", "-c", str(min(allowed)), agent, "rt"],
        input=request,
        capture_output=True,
        text=True,
        check=True,
    )
    refused = json.loads(answer.stdout)["refused"]
    assert refused["name"] == "EPERM"
    assert "pinned" in refused["what"]


def test_edf_fractions_and_jitter_are_not_played():
    tasks = TaskSet(example((8, 1), (15, 3)).tasks, "edf")
    found = analyze(tasks, period_ns=6 * UNIT_NS, budget_ns=3 * UNIT_NS)
    with pytest.raises(ExperimentError, match="fixed priorities"):
        realtime.run_guest(tasks, found)
    fixed = example((8, 1), (15, 3))
    found = analyze(fixed, period_ns=Fraction(35 * UNIT_NS, 6), budget_ns=3 * UNIT_NS)
    with pytest.raises(ExperimentError, match="whole number of nanoseconds"):
        realtime.run_guest(fixed, found)


def test_competitors_leave_the_guest_a_guarantee():
    cpus = len(os.sched_getaffinity(0))
    for share in (0.2, 0.5, 0.8):
        others = realtime.competitors_for(10_000_000, int(10_000_000 * share))
        used = [share, *(one.budget_ns / one.period_ns for one in others)]
        assert sum(used) <= cpus - (cpus - 1) * max(used) + 1e-9


def test_a_quota_group_is_gone_afterwards_and_swept_after_a_death(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    try:
        with quota_group(10_000_000, 3_000_000):
            records = list(ledger().glob("*.json"))
            assert len(records) == 1
            entry = json.loads(records[0].read_text())
            assert Path(entry["path"]).is_dir()
    except MachineError as error:
        pytest.skip(str(error))
    assert not Path(entry["path"]).exists()
    assert not list(ledger().glob("*.json"))
    # As if its owner had died: a directory, and a record of a process that is not there.
    dead = Path(entry["path"]).with_name(f"virtlab-rt-test-{os.getpid()}")
    dead.mkdir()
    record = ledger() / "dead.json"
    record.write_text(json.dumps(entry | {"path": str(dead), "owner": 2**22 + 1}))
    assert sweep() == [dead]
    assert not dead.exists()
    assert not record.exists()


def test_quotas_out_of_range_are_told_in_plain_words():
    with pytest.raises(MachineError, match="1 ms to 1 s"), quota_group(100_000, 50_000):
        pass
