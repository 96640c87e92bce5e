"""Trials that the machine disturbed: made again for whatever reason, and a clear end where it plays no clean one.

The world is simulated; around its session stands a machine that is too busy at plays of the test's choice.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from virtlab.campaign import open_dataset, run_campaign
from virtlab.campaign.execution.trial import ATTEMPTS, IN_A_ROW
from virtlab.campaign.loop.campaign import Ending
from virtlab.experiment import load_text
from virtlab.plan import Observer, Outcome, Plan, Session, Sink, Trial
from virtlab.results import Dataset
from virtlab.simulator import Simulator

TEXT = """
version: 1
name: disturbed
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s}
links: {s1-h2: {rate: 10 Mbit/s, queue: {kind: fifo, limit: 10 packets}}}
roles: {load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 512 B frame}}
search:
  variable: load.rate
  low: 100 packet/s
  method: bisection
  goals: [{trial: 200 ms, width: 5 %}]
repeat: 1
timing: {warmup: 0 s, drain: 50 ms}
"""
REASONS = [
    "roles.load: guest h1.g1: starved: 9 of 60 sends were late by more than 1 ms, at most 3089727 ns",
    "clock: CLOCK_REALTIME stepped by 12.0 ms against CLOCK_MONOTONIC_RAW",
    "soft switch: 3.00% of frames left more than 200 us late (p99 900 us, limit 0.5%)",
    "soft switch: the realtime clock stepped 1 times",
    "soft switch: 7 frames dropped by the ring of p0: it was too slow",
    "roles.load: guest h2.g1: ring_drops: the receiver's own ring dropped 3 frames",
    "roles.load: guest h2.g1: spool_overflow: 7 samples found no memory",
]
Disturbs = Callable[[int, str], bool]  # number of the play, name of the trial


class BusyMachine(Simulator):
    """Plays in virtual time, and says of some plays that they were disturbed."""

    def __init__(self, disturbs: Disturbs, why: str = REASONS[0]) -> None:
        super().__init__()
        self.disturbs, self.why, self.plays = disturbs, why, 0

    def open(self, plan: Plan, observe: Observer) -> Session:
        session = super().open(plan, observe)
        play = session.run

        def run(trial: Trial, sink: Sink) -> Outcome:
            outcome = play(trial, sink)
            disturbed = self.disturbs(self.plays, trial.id)
            self.plays += 1
            return (
                dataclasses.replace(outcome, status="tainted", reasons=(self.why,)) if disturbed else outcome
            )

        session.run = run  # type: ignore[method-assign]
        return session


def campaign(folder: Path, machine: BusyMachine) -> tuple[Dataset, Ending]:
    experiment, able = load_text(TEXT), machine.capabilities()
    with open_dataset(folder, TEXT, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        ending = run_campaign(experiment, dataset, machine, None)
    return Dataset.open(folder), ending


def trials(dataset: Dataset, run: str) -> list[dict[str, Any]]:
    text = (dataset.path / "runs" / run / "artefacts" / "trials.jsonl").read_text()
    return [line for each in text.splitlines() if "loss_ratio" in (line := json.loads(each))]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, float]]:
    """(load, loss) of the trials on a machine that disturbs none."""
    dataset, _ = campaign(tmp_path_factory.mktemp("quiet") / "d", BusyMachine(lambda _number, _name: False))
    return [(one["load"], one["loss_ratio"]) for one in trials(dataset, "p0000-r00-a0")]


@pytest.mark.slow
@pytest.mark.parametrize("why", REASONS)
def test_a_trial_is_made_again_whatever_disturbed_it_and_the_search_is_told_of_clean_ones_alone(
    why: str, quiet: list[tuple[float, float]], tmp_path: Path
) -> None:
    """Two disturbed plays, then a clean one, over and over."""
    machine = BusyMachine(lambda number, name: name != "kept" and number % ATTEMPTS != ATTEMPTS - 1, why)
    dataset, ending = campaign(tmp_path / "d", machine)
    assert (ending.why, ending.lacking) == ("complete", {})
    made = trials(dataset, "p0000-r00-a0")
    assert len(made) == ATTEMPTS * len(quiet)
    repeated = [one for one in made if one["repeated"]]
    assert len(repeated) == (ATTEMPTS - 1) * len(quiet)
    assert {one["disturbed"] for one in repeated} == {why}
    assert [(one["load"], one["loss_ratio"]) for one in made if not one["repeated"]] == quiet


@pytest.mark.slow
def test_an_answer_that_rests_on_a_trial_that_stayed_disturbed_is_not_counted(tmp_path: Path) -> None:
    """One load is disturbed each time it is tried: the one that becomes the lower bound."""
    dataset, _ = campaign(tmp_path / "quiet", BusyMachine(lambda _number, _name: False))
    good = [one for one in trials(dataset, "p0000-r00-a0") if one["loss_ratio"] == 0.0]
    bound = int(good[-1]["id"][1:])  # number of the trial that is the last good one
    machine = BusyMachine(lambda _number, name: name in {f"t{bound + each}" for each in range(ATTEMPTS)})
    dataset, ending = campaign(tmp_path / "busy", machine)
    assert ending.lacking.keys() == {0}
    assert not dataset.runs("ok")
    for record in dataset.runs("tainted"):
        assert record.outcome is not None
        assert "stayed disturbed" in " ".join(record.outcome.reasons)


@pytest.mark.slow
def test_a_machine_that_plays_no_clean_trial_ends_each_run_soon_and_the_campaign_with_its_reason(
    tmp_path: Path,
) -> None:
    machine = BusyMachine(lambda _number, _name: True, REASONS[2])
    dataset, ending = campaign(tmp_path / "d", machine)
    runs = dataset.runs("tainted")
    assert len(runs) == 3 * 3  # three attempts at the repetition and at each of two spare ones
    assert machine.plays == len(runs) * ATTEMPTS * IN_A_ROW
    for record in runs:
        assert record.outcome is not None
        (why,) = record.outcome.reasons
        assert "played no clean trial" in why
        assert REASONS[2] in why
        assert len(trials(dataset, record.name)) == ATTEMPTS * IN_A_ROW  # what was tried is kept
    assert (ending.why, list(ending.lacking)) == ("complete", [0])
    assert not list(dataset.path.glob("journal/*.jsonl"))


@pytest.mark.slow
def test_a_load_that_stays_disturbed_ends_nothing_where_the_answer_does_not_rest_on_it(
    quiet: list[tuple[float, float]], tmp_path: Path
) -> None:
    """The highest load, at which a generator may be at its own end, and which is tried first."""
    highest = {f"t{number}" for number in range(ATTEMPTS)}
    dataset, ending = campaign(tmp_path / "d", BusyMachine(lambda _number, name: name in highest))
    assert ending.lacking == {}
    made = trials(dataset, "p0000-r00-a0")
    told = [one for one in made if not one["repeated"]]
    assert [(one["load"], one["loss_ratio"]) for one in told] == quiet
    assert [bool(one["disturbed"]) for one in told] == [True] + [False] * (len(quiet) - 1)
