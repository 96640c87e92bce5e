"""Which share of the differences between runs each factor accounts for.

Source: analysis of variance of a full factorial design, each design point with the same weight. The total is the
variance of the design points' means plus the mean variance within a point. A factor's share is the variance of the
means over all points at each of its levels, relative to that; `together` is what factors do beyond their sum, `runs`
what differs with all levels equal. The shares add up to 1. Intervals: percentiles of the bootstrap of runs within their
design points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from virtlab.analysis.effects import added
from virtlab.analysis.table import RunTable
from virtlab.lazy import NDArray, np
from virtlab.metrics import MetricPath

TOGETHER, RUNS = "(together)", "(runs)"  # as no factor is called
CHOSEN = (
    *added.CHOSEN,
    ("operation_rate", "mean"),
    ("operation_time", "mean"),
    ("lookup_messages", "mean"),
)
RESAMPLES = 500
DRAWN_AT_ONCE = 1_000_000  # values
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
    means = np.array([[np.mean(one) for one in cells.flat]]).reshape(1, *cells.shape)
    (point,) = _shares(means, np.array([np.mean([np.var(one, ddof=1) for one in cells.flat])]))
    if np.isnan(point).any():
        return []
    drawn = np.concatenate([_shares(*again) for again in _resampled(cells)])
    drawn = np.where(np.isnan(drawn), point, drawn)
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return [
        Accounted(path, source, float(share), float(low), float(high), level)
        for source, share, low, high in zip((*factors, TOGETHER, RUNS), point, *ends, strict=True)
    ]


def _resampled(cells: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Means of the cells, and the mean variance within them, of runs drawn with replacement; some resamples at a
    time.
    """
    random = np.random.default_rng(1)
    sizes = np.array([one.size for one in cells.flat])
    values = np.zeros((sizes.size, sizes.max()))
    for at, one in enumerate(cells.flat):
        values[at, : one.size] = one
    there = np.arange(sizes.max()) < sizes[:, None]
    # n values drawn with replacement vary by (n - 1) / n of what they are drawn from.
    correction = sizes.min() / (sizes.min() - 1)
    at_once = max(1, DRAWN_AT_ONCE // values.size)
    for begin in range(0, RESAMPLES, at_once):
        count = min(at_once, RESAMPLES - begin)
        places = random.integers(sizes[:, None], size=(count, *values.shape))
        again = np.take_along_axis(values[None], places, axis=2)
        means = np.mean(again, axis=2, where=there)
        within = correction * np.mean(np.var(again, axis=2, ddof=1, where=there), axis=1)
        yield means.reshape(count, *cells.shape), within


def _shares(means: NDArray[Any], within: NDArray[Any]) -> NDArray[Any]:
    """Shares of each axis but the first, of all together, and of runs; a row for each place of the first, NaN where
    nothing differs. `within`: the mean variance within cells.

    >>> import numpy as np
    >>> _shares(np.array([[[1.0, 3.0], [1.0, 3.0]]]), np.zeros(1)).tolist()
    [[0.0, 1.0, 0.0, 0.0]]
    """
    axes = range(1, means.ndim)
    between = np.var(means, axis=tuple(axes))
    total = between + within
    alone = [
        np.var(np.mean(means, axis=tuple(other for other in axes if other != at)), axis=1) for at in axes
    ]
    rest = np.maximum(between - sum(alone), 0.0)
    return np.column_stack([*alone, rest, within]) / np.where(total > 0.0, total, np.nan)[:, None]
