"""Spread as small tables: deviations from a median as a distribution that a simulation draws from.

A table is linear between its quantiles, so there are many of them in the tail, where a few late frames make most of
what jitter is; the longest is put where the mean of the last part comes out right, since a single stall of a machine
would otherwise stand for all that lies beyond the quantile before it.

An echo passes what plays the links twice, by two passages that are independent of each other. What one of them does is
worked out from what both do: the distribution whose sum of two independent draws is the echo's. Dividing by the square
root of two is right for the spread of the middle and wrong for the tail: a rare late passage is as late in an echo as
by itself, and half as frequent. So that is where it begins; it is corrected quantile by quantile, and what fits best is
taken: by the distance of the two distributions, and by the mean difference of two draws, which is what jitter is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.simulator.profile import Quantiles

PROBABILITIES = (
    0.0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.985,
    0.99, 0.9925, 0.995, 0.9975, 0.999, 1.0,
)  # fmt: skip
GRID = 400  # quantiles of a passage while it is worked out
CORRECTIONS = 40
STEP = 0.5


def table(deviations: Sequence[NDArray[Any]], median: float) -> Quantiles:
    """Quantiles of deviations about a median, all in ns; none below zero. Without any, all are the median."""
    values = np.concatenate(deviations) if deviations else np.empty(0)
    if not len(values):
        return Quantiles((0.0, 1.0), (median, median))
    found = np.quantile(values, PROBABILITIES)
    last = values[values >= found[-2]]
    found[-1] = min(found[-1], max(2 * float(last.mean()) - float(found[-2]), float(found[-2])))
    rising = np.maximum.accumulate(np.maximum(found + median, 0.0))
    return Quantiles(PROBABILITIES, tuple(float(value) for value in rising))


def passage(deviations: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Deviations of one passage, from those of echoes that pass twice: equally likely values about zero, rising.

    >>> import numpy as np
    >>> late = np.zeros(1000)
    >>> late[:40] = 5000.0
    >>> one = passage([late])
    >>> bool(abs((one > 2500).mean() - 0.02) < 0.01), bool(abs(one.max() - 5000) < 500)
    (True, True)
    """
    values = np.concatenate(deviations) if deviations else np.empty(0)
    if not len(values):
        return values
    at = (np.arange(GRID) + 0.5) / GRID
    target = np.quantile(values, at)
    found = target / 2**0.5
    best, least = found, np.inf
    for _ in range(CORRECTIONS):
        both = np.sort(np.add.outer(found, found).ravel())
        # Of equal parts of the sum, each the mean: single values of a discrete sum jump.
        sums = both.reshape(GRID, GRID).mean(axis=1)
        missed = target - sums
        size = float(np.abs(missed).mean()) + abs(_difference(sums) - _difference(target))
        if size < least:
            best, least = found, size
        # A late sum is one late passage: the sum's tail of p is a passage's of p / 2, on either side.
        shifted = np.interp(_twice(at), at, missed)
        found = np.sort(found + STEP * shifted)
    centred: NDArray[Any] = np.subtract(best, np.median(best))
    return centred


def _difference(rising: NDArray[Any]) -> float:
    """Mean size of the difference of two draws from equally likely values: what jitter is (Gini's mean difference)."""
    count = len(rising)
    return float(2 * ((2 * np.arange(1, count + 1) - count - 1) * rising).sum() / count**2)


def _twice(at: NDArray[Any]) -> NDArray[Any]:
    """Where in the sum a passage's quantile shows: tails twice as likely, the middle where it is."""
    tail = np.minimum(at, 1 - at)
    wide = np.minimum(2 * tail, 0.5)
    places: NDArray[Any] = np.where(at < 0.5, wide, 1 - wide)
    return places
