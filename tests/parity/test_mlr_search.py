"""MLRsearch against its authors' own implementation: what that said of random histories and searches is recorded, and
where it is installed (pip install MLRsearch) it is asked anew. `python tests/parity/test_mlr_search.py` records.
"""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from virtlab.campaign.search import Goal, MlrSearch, TrialResult
from virtlab.campaign.search.classification import Criterion, Sums

RECORDED = Path(__file__).parents[1] / "golden" / "mlrsearch.json"
HISTORIES, SEARCHES = 150, 24  # recorded
installed = pytest.mark.skipif(
    importlib.util.find_spec("MLRsearch") is None, reason="the authors' MLRsearch is not installed"
)


def loss_at(load: float, capacity: float, draw: random.Random, noise: float, stalls: float) -> float:
    """A loss ratio of a device with noise; counts are whole, so equal on both sides."""
    limit = capacity * (1.0 + noise * draw.gauss(0.0, 1.0))
    lost = max(0.0, 1.0 - limit / load) + (draw.random() * 0.01 if draw.random() < stalls else 0.0)
    return round(min(1.0, lost) * 10**6) / 10**6


def theirs(low: float, high: float, goals: list[Goal], outcome):  # type: ignore[no-untyped-def]
    from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

    made: list[tuple[float, float]] = []

    class Measurer(AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
            made.append((intended_load, intended_duration))
            lost = round(outcome(intended_load) * 10**6)
            return MeasurementResult(
                intended_duration=intended_duration, intended_load=intended_load,
                offered_count=10**6, loss_count=lost,
            )  # fmt: skip

    config = Config()
    config.min_load = low * 1e-9  # below any highest load; it checks the order of both
    config.max_load, config.min_load = high, low
    config.warmup_duration = 1.0
    config.goals = [
        SearchGoal(
            loss_ratio=goal.loss_ratio, exceed_ratio=goal.exceed_ratio, relative_width=goal.width,
            initial_trial_duration=goal.initial_trial_s, final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s, preceding_targets=goal.preceding,
            expansion_coefficient=goal.expansion, fail_fast=False,
        )
        for goal in goals
    ]  # fmt: skip
    results = MultipleLossRatioSearch(config).search(Measurer(), debug=lambda _text: None)
    values = [
        None if (each := results[goal].conditional_throughput) is None else float(each)
        for goal in config.goals
    ]
    bounds = [
        tuple(
            None if stat is None else float(stat)
            for stat in (results[goal].relevant_lower_bound, results[goal].relevant_upper_bound)
        )
        for goal in config.goals
    ]
    return made, values, bounds


def ours(low: float, high: float, goals: list[Goal], outcome):  # type: ignore[no-untyped-def]
    search = MlrSearch(low, high, goals, warmup_s=1.0)
    made = []
    while (wanted := search.ask()) is not None:
        made.append((wanted.load, wanted.trial_s))
        search.tell(TrialResult(wanted.load, wanted.trial_s, outcome(wanted.load)))
    found = search.bounds()
    return made, [one.value for one in found], [(one.lower, one.upper) for one in found]


def case(seed: int) -> tuple[float, float, list[Goal], Callable[[], Callable[[float], float]]]:
    """(low, high, goals, what makes a device) of a random search."""
    draw = random.Random(seed)
    high = 10.0 ** draw.uniform(3, 7)
    low = high / 10.0 ** draw.uniform(0.5, 3)
    capacity = low * (high / low) ** draw.uniform(-0.1, 1.1)
    noise, stalls = draw.choice([0.0, 0.002, 0.01, 0.05]), draw.choice([0.0, 0.1, 0.4])
    pool = [
        Goal(),
        Goal(preceding=2, name="theirs"),
        Goal(loss_ratio=0.005, name="pdr"),
        Goal(final_trial_s=5.0, duration_sum_s=10.0, exceed_ratio=0.0, width=0.01, name="long"),
        Goal(initial_trial_s=0.5, final_trial_s=2.0, duration_sum_s=6.0, preceding=3, name="short"),
    ]
    goals = draw.sample(pool, draw.choice([1, 2, 3]))

    def outcome() -> Callable[[float], float]:
        own = random.Random(seed + 1)
        return lambda load: loss_at(load, capacity, own, noise, stalls)

    return low, high, goals, outcome


def alike(made: Any, values: Any, bounds: Any, expected: Any, their_values: Any, their_bounds: Any) -> None:
    assert len(made) == len(expected)
    for one, other in zip(made, expected, strict=True):
        assert one == pytest.approx(tuple(other), rel=1e-9)
    for mine, reference in ((values, their_values), *zip(bounds, their_bounds, strict=True)):
        for one, other in zip(mine, reference, strict=True):
            assert (one is None) == (other is None)
            # their conditional throughput is a float load times a float, ours the same product
            assert one is None or one == pytest.approx(other, rel=1e-9)


@installed
@pytest.mark.parametrize("seed", range(60))
def test_trials_and_answers_are_those_of_the_authors_implementation(seed: int) -> None:
    low, high, goals, outcome = case(seed)
    alike(*ours(low, high, goals, outcome()), *theirs(low, high, goals, outcome()))


def test_trials_and_answers_are_those_recorded_of_the_authors_implementation() -> None:
    for seed, answer in enumerate(json.loads(RECORDED.read_text())["searches"]):
        low, high, goals, outcome = case(seed)
        alike(*ours(low, high, goals, outcome()), *answer)


Criteria = tuple[float, float, float, float]  # loss, exceed, trial, duration sum


def histories(count: int) -> Iterator[tuple[Criteria, list[tuple[float, float]]]]:
    """Random ones: (criterion, trials as (seconds, loss ratio))."""
    draw = random.Random(7)
    for _ in range(count):
        exceed, loss = draw.choice([0.0, 0.1, 0.25, 0.5, 0.9]), draw.choice([0.0, 0.005, 0.1])
        trial, total = draw.choice([1.0, 2.0, 5.0]), draw.choice([5.0, 8.0, 21.0])
        lost = [0.0, 0.0, 0.001, 0.005, 0.01, 0.2, 1.0]
        trials = [
            (draw.choice([0.25, 0.5, 1.0, 2.0, 5.0]), draw.choice(lost)) for _ in range(draw.randrange(1, 40))
        ]
        yield (loss, exceed, trial, total), trials


def our_verdicts(criteria: Criteria, trials: list[tuple[float, float]]) -> list[Any]:
    """After each trial: optimistic, pessimistic, loss at the exceed ratio (None: no full-length trial yet)."""
    sums, found = Sums(Criterion(*criteria)), []
    for seconds, lost in trials:
        sums.add(seconds, lost)
        found.append([*sums.estimates(), sums.loss_at_exceed() if sums.long_losses else None])
    return found


def their_verdicts(criteria: Criteria, trials: list[tuple[float, float]]) -> list[Any]:
    from MLRsearch.target_spec import TargetSpec
    from MLRsearch.target_stat import TargetStat

    loss, exceed, trial, total = criteria
    reference, found = TargetStat(
        TargetSpec(
            loss_ratio=loss, exceed_ratio=exceed, discrete_width=None, trial_duration=trial, duration_sum=total,
            expansion_coefficient=2, fail_fast=False, preceding=None,
        )
    ), []  # fmt: skip
    full = False
    for seconds, lost in trials:

        class Result:
            duration_with_overheads = intended_duration = seconds
            loss_ratio = lost

        reference.add(Result)  # type: ignore[arg-type]
        full = full or seconds >= trial
        found.append([*reference.estimates(), float(reference.pessimistic_loss_ratio) if full else None])
    return found


@installed
def test_random_histories_are_classified_as_by_the_authors_implementation() -> None:
    for criteria, trials in histories(3000):
        assert our_verdicts(criteria, trials) == their_verdicts(criteria, trials)


def test_random_histories_are_classified_as_recorded_of_the_authors_implementation() -> None:
    recorded = json.loads(RECORDED.read_text())["histories"]
    assert len(recorded) == HISTORIES
    for (criteria, trials), verdicts in zip(histories(HISTORIES), recorded, strict=True):
        assert our_verdicts(criteria, trials) == verdicts


def record() -> None:
    """Asks the authors' implementation, and writes down what it says."""
    searches = []
    for seed in range(SEARCHES):
        low, high, goals, outcome = case(seed)
        searches.append(theirs(low, high, goals, outcome()))
    verdicts = [their_verdicts(criteria, trials) for criteria, trials in histories(HISTORIES)]
    text = json.dumps({"histories": verdicts, "searches": searches}, separators=(",", ":"))
    RECORDED.write_text(text + "\n")


if __name__ == "__main__":
    record()
