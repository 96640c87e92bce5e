"""The best of several is chosen no more wrongly than stated; what is as good is found, and losers get no more runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from virtlab.campaign.search.selection import Constraint, Selection, Standing


def chosen(
    means: Sequence[float], spread: float, seed: int = 1, *, better: Literal["lower", "higher"] = "lower",
    margin: float = 0.05, broken: Sequence[int] = (), unclear: Sequence[int] = (), confidence: float = 0.95,
) -> tuple[list[Standing], list[int]]:  # fmt: skip
    """Standing and runs of each candidate; `broken` break a constraint, of the `unclear` nothing can be shown."""
    generator = np.random.default_rng(seed)
    constrained = bool(broken or unclear)
    search = Selection(len(means), better, int(constrained), confidence, margin)
    runs: list[list[float]] = [[] for _ in means]
    while (asked := search.ask()) is not None:
        who, wanted = asked
        for at in who:
            while len(runs[at]) < wanted:
                runs[at].append(float(generator.normal(means[at], spread)))
        tests = {
            at: [Constraint(*((1.0, 0.0) if at in broken else (1.0, 1.0) if at in unclear else (0.0, 1.0)))]
            for at in who
        }
        search.tell({at: np.array(runs[at]) for at in who}, tests if constrained else {})
    return search.standing(), [len(each) for each in runs]


def test_the_best_those_as_good_and_those_that_are_worse_are_told_apart_in_few_runs() -> None:
    standing, runs = chosen([10.0, 10.1, 12.0, 15.0, 30.0], 0.1)
    assert standing == ["best", "equivalent", "worse", "worse", "worse"]
    assert runs[2:] == [4, 4, 4]


def test_more_can_be_better() -> None:
    assert chosen([10.0, 20.0, 30.0], 0.1, better="higher")[0] == ["worse", "worse", "best"]


def test_noise_leaves_neighbours_undecided_instead_of_guessing() -> None:
    standing, runs = chosen([10.0, 10.3, 30.0], 1.5, margin=0.02)
    assert sorted(standing) == ["best", "undecided", "worse"]
    assert runs[2] < 30


def test_a_candidate_that_breaks_a_constraint_neither_leads_nor_eliminates() -> None:
    standing, runs = chosen([1.0, 10.0, 12.0], 0.1, broken=[0])
    assert standing == ["infeasible", "best", "worse"]
    assert runs[0] == 4


def test_one_that_is_not_shown_to_keep_the_constraint_is_not_recommended() -> None:
    assert chosen([1.0, 10.0], 0.1, unclear=[0])[0] == ["not shown feasible", "best"]
    assert chosen([1.0, 2.0], 0.1, broken=[0, 1])[0] == ["infeasible", "infeasible"]


def test_equal_values_without_spread_are_equivalent() -> None:
    assert chosen([5.0, 5.0, 6.0], 0.0)[0] == ["best", "equivalent", "worse"]


def test_a_candidate_without_a_value_is_out_of_the_question() -> None:
    search = Selection(2, "lower")
    search.tell({0: None, 1: np.array([1.0, 1.1, 0.9, 1.0])}, {})
    assert search.standing() == ["infeasible", "best"]


@pytest.mark.slow
def test_what_is_said_is_wrong_no_more_often_than_stated() -> None:
    wrong = 0
    for seed in range(120):
        standing, _ = chosen([10.0, 10.5, 11.0, 12.0], 1.0, seed, margin=0.02, confidence=0.9)
        wrong += standing[0] == "worse" or (standing[0] == "best" and "equivalent" in standing[1:])
    assert wrong <= 12


@pytest.mark.parametrize("arguments", [(0, "lower"), (2, "lower", 0, 1.5), (2, "lower", 0, 0.95, -1.0)])
def test_what_makes_no_sense_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="candidate"):
        Selection(*arguments)  # type: ignore[arg-type]
