"""Whether luck decided searches on the device made of numbers: told from their trials alone."""

from __future__ import annotations

import random

import pytest
from tests.theory.test_searches_on_a_synthetic_device import CAPACITY, FAST, loss_ratio

from virtlab.analysis.searches.luck import Criterion, Tried, luck_of, tried_of
from virtlab.campaign.search import Goal, MlrSearch, TrialResult

DEFAULT = Goal()
FORGIVING = Goal(loss_ratio=0.005)
SEARCHES = 5  # of one design point, taken together


def criterion(goal: Goal) -> Criterion:
    return Criterion(
        goal.loss_ratio, goal.exceed_ratio, goal.initial_trial_s, goal.final_trial_s, goal.duration_sum_s, goal.width
    )  # fmt: skip


def trials(goal: Goal, seed: int, capacity_pps: float) -> list[Tried]:
    search, draw = MlrSearch(3_000.0, 2 * capacity_pps, (goal,)), random.Random(seed)
    found = []
    while (wanted := search.ask()) is not None:
        loss = loss_ratio(wanted.load, wanted.trial_s, draw, 0.01, capacity_pps)
        search.tell(TrialResult(wanted.load, wanted.trial_s, loss))
        if wanted.purpose == "search":
            found.append(Tried(wanted.load, wanted.trial_s, loss))
    return found


def warnings(goal: Goal, capacity_pps: float, pools: int) -> int:
    """Of so many design points with five searches each, how many are warned of."""
    count = 0
    for pool in range(pools):
        taken = [
            one for each in range(SEARCHES) for one in trials(goal, pool * SEARCHES + each, capacity_pps)
        ]
        luck = luck_of(taken, criterion(goal))
        assert luck is not None
        count += luck.decides
    return count


@pytest.mark.slow
def test_the_default_goal_behind_a_buffer_of_a_millisecond_is_warned_of() -> None:
    assert warnings(DEFAULT, FAST, pools=6) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "capacity_pps"),
    [(DEFAULT, CAPACITY), (FORGIVING, FAST), (Goal(exceed_ratio=0.75), FAST)],
    ids=["three milliseconds of buffer", "some loss allowed", "three quarters may be bad"],
)
def test_goals_that_stalls_do_not_decide_are_not(goal: Goal, capacity_pps: float) -> None:
    assert warnings(goal, capacity_pps, pools=6) == 0


@pytest.mark.slow
def test_the_share_that_is_bad_at_any_load_is_what_the_stalls_make_it() -> None:
    taken = [one for seed in range(20) for one in trials(DEFAULT, seed, FAST)]
    luck = luck_of(taken, criterion(DEFAULT))
    assert luck is not None
    assert luck.bad_share == pytest.approx(0.44, abs=0.08)  # of trials of 1 s at 97 % of the capacity


def test_disturbed_and_repeated_trials_and_the_warm_up_do_not_count() -> None:
    line = {
        "load": 10.0,
        "trial_s": 1.0,
        "loss_ratio": 0.0,
        "repeated": False,
        "disturbed": "",
        "purpose": "search",
    }
    others = [{"repeated": True}, {"disturbed": "starved"}, {"purpose": "warm-up"}, {"purpose": "recovery"}]
    assert tried_of([line, *(line | other for other in others)]) == [Tried(10.0, 1.0, 0.0)]
