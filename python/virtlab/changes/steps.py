"""Steps in a series of datasets: where its level changed, and how sure that is.

For every place to split the series, the two parts' means differ by t standard errors (pooled spread). The largest |t|
over all places is compared with what equal values give by chance: normal values of the same number, drawn with a seed,
so looking at every place is paid for. The chance of any step in a series of equal normal values is alpha. A part that
is long enough is searched again by itself. One value per dataset counts, however many runs it has: runs of one day
share what that day did to them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray, np

LEAST = 5  # values that a series needs
PART_LEAST = 2
DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """The level changed before value number `at` (counted from 0), from the mean `before` to the mean `after`."""

    at: int
    before: float
    after: float
    p: float


def steps_of(values: Sequence[float], *, alpha: float = 0.05) -> list[Step]:
    """Every step of a series, in order; none where it has fewer than `LEAST` values.

    >>> [step.at for step in steps_of([1.0, 1.1, 0.9, 1.0, 5.0, 5.1, 4.9, 5.0])]
    [4]
    >>> steps_of([1.0, 1.1, 0.9, 1.0])
    []
    """
    return _steps(np.asarray(values, dtype=np.float64), 0, alpha)


def _steps(values: NDArray[Any], begin: int, alpha: float) -> list[Step]:
    if values.size < LEAST:
        return []
    largest, at = _largest(values)
    drawn = _by_chance(int(values.size))
    p = (1 + float((drawn >= largest).sum())) / (1 + drawn.size)
    if p > alpha:
        return []
    here = Step(begin + at, float(values[:at].mean()), float(values[at:].mean()), p)
    return [*_steps(values[:at], begin, alpha), here, *_steps(values[at:], begin + at, alpha)]


def _largest(values: NDArray[Any]) -> tuple[float, int]:
    """The largest |t| over all places, and the place."""
    t = _splits(values[None, :])[0]
    at = int(t.argmax())
    return float(t[at]), at + PART_LEAST


def _splits(rows: NDArray[Any]) -> NDArray[Any]:
    """|t| of each row at each place to split it: shape (rows, places)."""
    n = rows.shape[1]
    left = np.arange(PART_LEAST, n - PART_LEAST + 1)
    shifted = rows - rows.mean(axis=1, keepdims=True)
    sums, squares = np.cumsum(shifted, axis=1), np.cumsum(shifted**2, axis=1)
    first, whole = sums[:, left - 1], squares[:, -1:]
    between = first**2 / left + first**2 / (n - left)  # the sum over the whole row is zero
    within = np.maximum(whole - between, 0.0)
    scale = np.maximum(whole, np.finfo(np.float64).tiny)
    within = np.where(within < 1e-12 * scale, 1e-12 * scale, within)
    t: NDArray[Any] = np.sqrt(between * (n - 2) / within)
    return t


@functools.lru_cache(maxsize=256)
def _by_chance(n: int) -> NDArray[Any]:
    """Largest |t| of many rows of equal normal values."""
    drawn = np.random.default_rng(20_260).standard_normal((DRAWS, n))
    largest: NDArray[Any] = _splits(drawn).max(axis=1)
    return largest
