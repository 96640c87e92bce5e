"""Variance within runs and between runs, against data whose components are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from virtlab.analysis.effects.recurrence import BATCHES, RunSummary, recurrence


def summarise(samples: NDArray[np.float64]) -> RunSummary:
    """The summary of a run's samples, in order; at least two of them."""
    size = int(samples.size) // BATCHES
    batches = samples[: size * BATCHES].reshape(BATCHES, size).mean(axis=1) if size >= 2 else None
    spread = None if batches is None else float(batches.var(ddof=1))
    return RunSummary(int(samples.size), float(samples.mean()), float(samples.var(ddof=1)), spread)


def runs(
    generator: np.random.Generator, between: float, count: int = 10, size: int = 200
) -> list[RunSummary]:
    return [summarise(100 + between * generator.normal() + generator.normal(size=size)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, 0.5, 2.0])
def test_the_interval_covers_the_true_share_about_as_often_as_it_says(between: float) -> None:
    generator = np.random.default_rng(7)
    truth = between**2 / (between**2 + 1)
    found = [recurrence(runs(generator, between)) for _ in range(300)]
    covered = np.mean([one is not None and one.low <= truth <= one.high for one in found])
    assert 0.90 <= covered <= 0.99


@pytest.mark.slow
def test_the_estimates_are_near_the_truth_on_average() -> None:
    generator = np.random.default_rng(8)
    found = [recurrence(runs(generator, 1.0, count=20)) for _ in range(200)]
    squares = [one.between_sd**2 for one in found if one is not None]
    assert np.mean(squares) == pytest.approx(1.0, rel=0.15)


def test_samples_that_follow_each_other_are_fewer_than_they_look() -> None:
    generator = np.random.default_rng(9)
    noise = generator.normal(size=20_000)
    slow = np.empty_like(noise)
    slow[0] = noise[0]
    for at in range(1, noise.size):
        slow[at] = 0.9 * slow[at - 1] + noise[at]
    # An AR(1) process of 0.9 tells as much as (1 - 0.9)/(1 + 0.9) of its number.
    assert summarise(slow).effective_samples < 0.25 * slow.size
    assert summarise(noise).effective_samples > 0.3 * noise.size


def test_one_run_says_nothing_of_recurrence() -> None:
    assert recurrence([summarise(np.arange(10.0))]) is None
    assert recurrence([summarise(np.ones(10)), summarise(np.ones(10))]) is None
