"""The next run follows from what is finished: rounds, retries at their end, looks at planned sizes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtlab.campaign.loop.schedule import Finished, Schedule
from virtlab.plan.backend import Status
from virtlab.plan.seeds import run_seed
from virtlab.planner.order import round_order
from virtlab.results import RunKey

LOADS = [{"load": f"{load} kB"} for load in (0, 10, 30, 65)]


def schedule(points: int = 4, minimum: int = 2, maximum: int = 2, **more: object) -> Schedule:
    return Schedule(7, LOADS[:points], minimum, maximum, **more)  # type: ignore[arg-type]


def played_out(
    plan: Schedule,
    ending: Callable[[RunKey], Status] = lambda _key: "ok",
    history: dict[RunKey, Status] | None = None,
) -> dict[RunKey, Status]:
    """What lies in the dataset when nothing is left to do, in the order it was made."""
    history = {} if history is None else history
    while (key := plan.next(history)) is not None:
        assert key not in history
        history[key] = ending(key)
        assert len(history) < 10_000
    return history


def test_every_round_holds_every_point_once_in_its_own_order() -> None:
    made = list(played_out(schedule(minimum=5, maximum=5)))
    rounds = [[key.point for key in made[4 * r : 4 * r + 4]] for r in range(5)]
    assert all(sorted(each) == [0, 1, 2, 3] for each in rounds)
    assert all(key.repetition == index // 4 for index, key in enumerate(made))
    assert len({tuple(each) for each in rounds}) > 1


def test_an_added_point_changes_neither_order_nor_seeds_of_the_others() -> None:
    for number in range(20):
        fewer = [LOADS[index] for index in round_order(7, number, LOADS)]
        more = [*LOADS, {"load": "85 kB"}]
        order = [more[index] for index in round_order(7, number, more)]
        assert [levels for levels in order if levels in LOADS] == fewer
    seeds = {run_seed(7, levels, repetition) for levels in LOADS for repetition in range(50)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.slow
def test_orders_favour_no_point() -> None:
    """Over 2,000 rounds each of 4 points is first in 500 +- 100 (5 standard deviations of a fair draw)."""
    firsts = [round_order(1, number, LOADS)[0] for number in range(2000)]
    assert all(400 <= firsts.count(point) <= 600 for point in range(4))


def test_a_tainted_run_is_made_again_at_the_end_of_its_round() -> None:
    bad = RunKey(schedule().order(0)[1], 0, 0)
    made = list(played_out(schedule(), lambda key: "tainted" if key == bad else "ok"))
    assert made[1] == bad
    assert made[4] == RunKey(bad.point, 0, 1)
    assert len(made) == 9


def test_a_repetition_that_stays_tainted_is_given_up_and_a_spare_one_is_made() -> None:
    plan = schedule()
    history = played_out(plan, lambda key: "tainted" if (key.point, key.repetition) == (2, 0) else "ok")
    assert [key.attempt for key in history if (key.point, key.repetition) == (2, 0)] == [0, 1, 2]
    assert plan.good(history, 2) == [RunKey(2, 1, 0), RunKey(2, 2, 0)]
    assert not plan.failed(history, 2)


def test_a_point_that_is_always_tainted_ends_too() -> None:
    plan = schedule(minimum=4, maximum=4)
    history = played_out(plan, lambda key: "tainted" if key.point == 2 else "ok")
    assert sum(key.point == 2 for key in history) == 3 * plan.rounds == 18
    assert plan.left(history) == (0, 0)


def test_a_point_that_cannot_be_measured_is_left_alone_after_its_attempts() -> None:
    plan = schedule(minimum=10, maximum=10)
    history = played_out(plan, lambda key: "failed" if key.point == 1 else "ok")
    assert [key for key in history if key.point == 1] == [RunKey(1, 0, attempt) for attempt in range(3)]
    assert plan.failed(history, 1)
    assert all(len(plan.good(history, point)) == 10 for point in (0, 2, 3))


def test_precision_is_asked_at_planned_sizes_only_and_a_precise_point_rests() -> None:
    asked: list[tuple[int, int]] = []

    def precise(point: int, n: int) -> bool:
        asked.append((point, n))
        return point == 0 and n >= 6

    plan = schedule(minimum=3, maximum=12, looks=(3, 6, 12), precise=precise)
    history = played_out(plan)
    assert {n for _, n in asked} <= {3, 6, 12}
    assert len(plan.good(history, 0)) == 6
    assert all(len(plan.good(history, point)) == 12 for point in (1, 2, 3))


def test_only_selected_points_are_run() -> None:
    assert {key.point for key in played_out(schedule(selected=frozenset({1, 3})))} == {1, 3}
    assert schedule(selected=frozenset()).next({}) is None


def test_what_is_left_is_counted_from_minimum_to_maximum() -> None:
    plan = schedule(minimum=2, maximum=5, looks=(2, 5))
    assert plan.left({}) == (8, 20)
    history = played_out(plan)
    assert plan.left(history) == (0, 0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.floats(0, 1), points=st.integers(1, 4), maximum=st.integers(1, 6))
def test_a_campaign_cut_anywhere_goes_on_as_if_never_cut(
    seed: int, cut: float, points: int, maximum: int
) -> None:
    def ending(key: RunKey) -> Status:
        return random.Random(f"{seed}/{key.name}").choice(["ok", "ok", "ok", "tainted", "failed"])

    plan = schedule(
        points, minimum=1, maximum=maximum, looks=(2, 4), precise=lambda point, n: (point + n) % 3 == 0
    )
    whole = played_out(plan, ending)
    kept = dict(list(whole.items())[: round(cut * len(whole))])
    shuffled = list(kept.items())
    random.Random(seed).shuffle(shuffled)
    again = schedule(
        points, minimum=1, maximum=maximum, looks=(2, 4), precise=lambda point, n: (point + n) % 3 == 0
    )
    assert list(played_out(again, ending, dict(shuffled)))[len(kept) :] == list(whole)[len(kept) :]


@pytest.mark.parametrize("minimum", [1, 3])
def test_no_look_below_the_minimum_stops_a_point(minimum: int) -> None:
    plan = schedule(1, minimum=minimum, maximum=9, looks=(1, 3, 9), precise=lambda _point, _n: True)
    assert len(played_out(plan)) == minimum


@pytest.mark.slow
def test_a_history_that_is_kept_as_it_grows_says_what_a_plain_one_says() -> None:
    draw = random.Random(5)
    for _ in range(40):
        keys = [RunKey(point, r, attempt) for point in range(3) for r in range(4) for attempt in range(3)]
        chosen = draw.sample(keys, draw.randrange(len(keys)))
        endings: tuple[Status, ...] = ("ok", "tainted", "failed")
        plain = {key: draw.choice(endings) for key in chosen}
        kept = Finished()
        for key, status in plain.items():
            kept[key] = status
        rule = schedule(3, 2, 4, looks=(2, 4))
        assert list(rule.ahead(kept)) == list(rule.ahead(plain))
        assert rule.outcomes(kept) == rule.outcomes(plain)
        assert rule.left(kept) == rule.left(plain)
