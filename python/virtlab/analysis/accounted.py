"""Which share of the differences between runs each factor accounts for.

Source: analysis of variance of a full factorial design, each design point with the same weight. The total is the variance of
the design points' means plus the mean variance within a point. A factor's share is the variance of the means over all points
at each of its levels, relative to that; `together` is what factors do beyond their sum, `runs` what differs with all levels
equal. The shares add up to 1. Intervals: percentiles of the bootstrap of runs within their design points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from virtlab.analysis import effects
from virtlab.analysis.table import RunTable
from virtlab.lazy import NDArray, np
from virtlab.metrics import MetricPath

TOGETHER, RUNS = "(together)", "(runs)"  # as no factor is called
CHOSEN = (
    *effects.CHOSEN,
    ("operation_rate", "mean"),
    ("operation_time", "mean"),
    ("lookup_messages", "mean"),
)
RESAMPLES = 500
POINTS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Accounted:
    """The share (0..1) of a path's variance that a factor, `together` or `runs` accounts for, with its interval."""

    path: MetricPath
    source: str
    share: float
    low: float
    high: float
    level: float


def accounted(
    table: RunTable, factors: Mapping[str, Sequence[str]], level: float = 0.95
) -> tuple[Accounted, ...]:
    """The shares of every chosen path that all combinations of the factors' levels have, in two runs at least.

    `factors`: name -> levels, each of several. Empty with one factor, with several link realisations, or where a
    combination is missing.
    """
    if len(factors) < 2 or len(table.realisations) != 1 or prod(map(len, factors.values())) > POINTS_MAX:
        return ()
    found: list[Accounted] = []
    for path in table.paths():
        if "." in path.role or (path.metric, path.statistic) not in CHOSEN:
            continue  # single operations of a role are left out
        if (cells := _cells(table, path, factors)) is not None:
            found += _of(path, cells, tuple(factors), level)
    return tuple(found)


def _cells(table: RunTable, path: MetricPath, factors: Mapping[str, Sequence[str]]) -> NDArray[Any] | None:
    """An array with an axis for each factor, of the values of each combination; None where one has fewer than two."""
    places = {name: {text: at for at, text in enumerate(levels)} for name, levels in factors.items()}
    cells = np.empty([len(levels) for levels in factors.values()], dtype=object)
    for point, values in table.cells(path).items():
        levels = dict(point)
        if len(values) < 2:
            return None
        cells[tuple(places[name][levels[name]] for name in factors)] = np.array(values)
    return None if any(one is None for one in cells.flat) else cells


def _of(path: MetricPath, cells: NDArray[Any], factors: tuple[str, ...], level: float) -> list[Accounted]:
    point = _shares(cells)
    if point is None:
        return []
    random = np.random.default_rng(1)
    drawn = []
    fewest = min(values.size for values in cells.flat)
    # n values drawn with replacement vary by (n - 1) / n of what they are drawn from.
    correction = fewest / (fewest - 1)
    for _ in range(RESAMPLES):
        again = np.empty_like(cells)
        for at, values in enumerate(cells.flat):
            again.flat[at] = values[random.integers(values.size, size=values.size)]
        drawn.append(_shares(again, correction) or point)
    ends = np.quantile(np.array(drawn), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return [
        Accounted(path, source, share, float(low), float(high), level)
        for source, share, low, high in zip((*factors, TOGETHER, RUNS), point, *ends, strict=True)
    ]


def _shares(cells: NDArray[Any], correction: float = 1.0) -> tuple[float, ...] | None:
    """Shares of each axis, of all together, and of runs; None where nothing differs.

    >>> import numpy as np
    >>> cells = np.empty((2, 2), dtype=object)
    >>> for at, values in enumerate([[1, 1], [3, 3], [1, 1], [3, 3]]):
    ...     cells.flat[at] = np.array(values)
    >>> _shares(cells)
    (0.0, 1.0, 0.0, 0.0)
    """
    means = np.array([float(np.mean(one)) for one in cells.flat]).reshape(cells.shape)
    within = correction * float(np.mean([np.var(one, ddof=1) for one in cells.flat]))
    between = float(np.var(means))
    total = between + within
    if total <= 0.0:
        return None
    axes = range(means.ndim)
    alone = [float(np.var(means.mean(axis=tuple(other for other in axes if other != at)))) for at in axes]
    rest = max(between - sum(alone), 0.0)
    return tuple(one / total for one in (*alone, rest, within))
