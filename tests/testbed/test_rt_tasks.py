"""Hard-deadline tasks as a role of an experiment: jobs conserved, supply recorded, refusals in plain words."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.experiment import load, load_text
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.build.machine import findings
from virtlab.testbed.refusals import refusals

MS = 1_000_000
LOOK_NS = 5_000  # two looks at the clock further apart than this are a gap
FILE = """
version: 1
name: deadlines
hosts: {{h1: {{guests: 1}}}}
timing: {{warmup: 0 s}}
roles:
  deadlines:
    workload: rt_tasks
    from: h1.g1
    tasks: [{{name: slow, period: 40 ms, wcet: 4 ms}}, {{name: quick, period: 20 ms, wcet: 1 ms}}]
    budget: {budget}
    overhead: 1 ms
    server: {server}
    phases: 3
    duration: 600 ms
"""


def plan(budget: str = "6 ms", server: str = "deadline") -> Plan:
    experiment = load_text(FILE.format(budget=budget, server=server))
    return plan_run(experiment, experiment.points()[0], 0)


def played(wanted: Plan) -> tuple[Outcome, worlds.MemorySink]:
    if worlds.missing() is not None:
        pytest.skip(str(worlds.missing()))
    refused = Testbed().check(wanted)
    if refused:
        pytest.skip(refused[0].reason)
    sink = worlds.MemorySink()
    with Testbed().open(wanted, worlds.Patient()) as session:
        return session.run(Trial("t0", 1), sink), sink


def rows(sink: worlds.MemorySink, schema: str) -> dict[str, Any]:
    found = [columns for _, kind, columns in sink.blocks if kind == schema]
    return {name: np.concatenate([np.asarray(each[name]) for each in found]) for name in found[0]}


def counted(sink: worlds.MemorySink, counter: str) -> int:
    return sink.counters("stop")["deadlines/client", counter]


def test_jobs_are_conserved_and_none_ends_before_its_execution_time() -> None:
    outcome, sink = played(plan())
    # A busy machine may break the supply, which taints; nothing else may go wrong.
    assert outcome.status in {"ok", "tainted"}
    assert all("supply_broken" in reason for reason in outcome.reasons)
    jobs = rows(sink, "rt_job/1")
    assert len(jobs["task"]) == counted(sink, "jobs") > 0
    wcet_ns = np.array([4 * MS, 1 * MS])[jobs["task"]]
    ended = jobs["finish_ns"] >= 0
    assert (~ended).sum() == counted(sink, "unfinished_jobs")
    assert (jobs["response_ns"][ended] >= wcet_ns[ended] - LOOK_NS).all()
    assert (jobs["executed_ns"][ended] >= wcet_ns[ended]).all()
    assert (jobs["start_ns"][ended] >= jobs["release_ns"][ended] - LOOK_NS).all()
    assert (jobs["finish_ns"][ended] >= jobs["start_ns"][ended]).all()
    deadline_ns = np.array([40 * MS, 20 * MS])[jobs["task"]]
    assert ((jobs["response_ns"] > deadline_ns) | ~ended).tolist() == (jobs["missed"] == 1).tolist()
    # An episode of 80 ms that was played whole holds two jobs of the slow task and four of the quick one.
    whole = jobs["episode"] < jobs["episode"].max()
    episodes = len(set(jobs["episode"][whole].tolist()))
    assert (jobs["task"][whole] == 0).sum() == 2 * episodes
    assert (jobs["task"][whole] == 1).sum() == 4 * episodes


def test_every_period_of_the_guest_has_its_supply() -> None:
    outcome, sink = played(plan())
    supply = rows(sink, "rt_supply/1")
    assert len(supply["served_ns"]) > 10
    assert (np.diff(supply["begin_ns"]) > 0).all()
    assert (supply["served_ns"] <= supply["charged_ns"] + 10 * LOOK_NS).all()
    told = any("supply_broken" in reason for reason in outcome.reasons)
    assert (counted(sink, "shortfall_ns") > 0) == told


def test_a_budget_below_the_tasks_use_misses_and_stays_within_the_duration() -> None:
    outcome, sink = played(plan(budget="1.5 ms"))
    assert outcome.status in {"ok", "tainted"}
    jobs = rows(sink, "rt_job/1")
    assert jobs["missed"].sum() == counted(sink, "missed_jobs") > 0


def test_a_quota_gives_a_supply_too() -> None:
    outcome, sink = played(plan(server="quota"))
    assert outcome.status in {"ok", "tainted"}
    assert rows(sink, "rt_job/1")["task"].size > 0


def test_where_no_budget_can_be_had_the_reason_and_the_cure_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "virtlab.testbed.refusals.deadline_refused", lambda: ("this user may not", "run as root")
    )
    ordinary = dataclasses.replace(findings(), world=None, root=False)
    (refusal,) = refusals(plan(), ordinary)
    assert (refusal.path, refusal.reason) == ("roles.deadlines.server", "this user may not")
    (refusal,) = refusals(plan(server="quota"), ordinary)
    assert "root" in refusal.reason
    assert refusal.cure


def test_the_experiment_of_the_study_can_be_planned_at_every_point() -> None:
    experiment = load(Path(__file__).parents[2] / "experiments" / "realtime-vm" / "run.yaml")
    budgets = [
        plan_run(experiment, point, 0).roles["deadlines"].parameters["budget_ns"]
        for point in experiment.points()
    ]
    assert budgets == [2_500_000, 5_000_000]
