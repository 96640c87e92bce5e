"""The largest good level is found in few runs, wrong no more often than stated, and an order that does not hold is
seen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from virtlab.campaign.search.largest_level import Answer, LargestLevel
from virtlab.stats import contrast


def searched(
    levels: int,
    truth: Callable[[int], float],
    spread: float,
    seed: int = 1,
    *,
    open_end: bool = False,
    confidence: float = 0.95,
) -> tuple[Answer, int, set[int]]:
    """Answer, runs made, and places tried, of a device that is good where `truth` is above zero."""
    generator = np.random.default_rng(seed)
    search = LargestLevel(levels, confidence=confidence, open_end=open_end)
    runs: dict[int, list[float]] = {}
    while (asked := search.ask()) is not None:
        assert search.ask() == asked  # the same until told
        kept = runs.setdefault(asked.place, [])
        while len(kept) < asked.runs:
            kept.append(truth(asked.place) + float(generator.normal(0, spread)))
        mean = contrast([np.array(kept)], [1.0])
        search.tell(mean.p_above(0.0), mean.p_below(0.0), mean.value)
    assert len(runs) <= search.tried_at_most
    return search.answer(), sum(map(len, runs.values())), set(runs)


def down(at: float) -> Callable[[int], float]:
    return lambda place: at - place


@pytest.mark.parametrize("at", [0, 1, 20, 62])
@pytest.mark.parametrize("open_end", [False, True])
def test_without_noise_the_answer_is_exact_and_takes_few_runs(at: int, open_end: bool) -> None:
    answer, runs, _ = searched(64, down(at + 0.5), 0.001, open_end=open_end)
    assert (answer.largest, answer.smallest_bad, answer.violations) == (at, at + 1, ())
    assert runs <= 4 * 14


def test_a_straight_response_takes_fewer_levels_than_halving() -> None:
    answer, _, tried = searched(1024, down(777.5), 0.001)
    assert answer.largest == 777
    assert len(tried) - 2 <= 8  # beside two checks of the order


def test_an_open_end_does_not_try_levels_far_beyond_the_answer() -> None:
    answer, _, tried = searched(1024, down(5.5), 0.001, open_end=True)
    assert answer.largest == 5
    assert max(tried) <= 14


@pytest.mark.slow
def test_the_stated_confidence_holds_over_many_noisy_searches() -> None:
    wrong = 0
    for seed in range(150):
        answer, _, _ = searched(40, down(20.5), 2.0, seed, confidence=0.9)
        wrong += answer.largest is not None and answer.largest > 20
        wrong += answer.smallest_bad is not None and answer.smallest_bad <= 20
    assert wrong <= 15  # at most one in ten; Bonferroni leaves far fewer


def test_noise_leaves_levels_undecided_instead_of_guessing() -> None:
    answer, _, _ = searched(40, down(20.5), 5.0)
    assert answer.undecided
    assert answer.largest is not None
    assert answer.smallest_bad is not None
    assert answer.largest <= 20 < answer.smallest_bad


def test_an_open_search_goes_on_above_an_undecided_level_until_one_is_bad() -> None:
    answer, _, _ = searched(1000, down(20.5), 8.0, open_end=True)
    assert answer.undecided
    assert answer.smallest_bad is not None
    assert answer.smallest_bad > 20


def test_all_good_and_all_bad_are_said() -> None:
    assert searched(9, lambda _: 1.0, 0.001)[0] == Answer(8, None, (), ())
    assert searched(9, lambda _: -1.0, 0.001)[0] == Answer(None, 0, (), ())
    assert searched(1, lambda _: 1.0, 0.001)[0].largest == 0


def test_a_bad_level_below_a_good_one_is_a_violation_and_lowers_the_answer() -> None:
    answer, _, _ = searched(64, lambda place: -1.0 if 15 <= place <= 25 or place > 60 else 1.0, 0.001)
    assert answer.violations
    assert answer.largest is not None
    assert answer.largest < 15


def test_a_level_that_cannot_be_had_counts_as_bad() -> None:
    search = LargestLevel(8, open_end=True)
    while (asked := search.ask()) is not None:
        if asked.place > 4:
            search.refuse()
        else:
            search.tell(0.0, 1.0)
    assert search.answer().largest == 4
    assert search.answer().smallest_bad == 5
