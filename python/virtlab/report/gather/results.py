"""Run-level values as the analysis has them, to the cells of every quantity, with intervals.

Only runs that ended well are in an estimate. Runs of different link realisations never share a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from virtlab.analysis.judging.cells import SHARES
from virtlab.analysis.shares import kinds_of, shares_of
from virtlab.analysis.table import RunTable, worlds_of
from virtlab.analysis.values_file import values_of
from virtlab.catalogue import WORKLOADS
from virtlab.metrics import METRICS, MetricPath
from virtlab.report.gather.model import Cell, Published, Quantity, Result, RunValue
from virtlab.results import RunRecord
from virtlab.stats import Estimate, look_level, mean_interval, proportion_interval

Points = Mapping[int, Mapping[str, str]]  # index -> its levels of the factors that vary


def values(
    used: Sequence[RunRecord], looks: tuple[int, ...], declared: Mapping[str, Sequence[str]]
) -> RunTable:
    """Run-level values, two runs at a time: reading and sorting samples leaves Python's lock free."""
    from virtlab.analysis import RunTable

    with ThreadPoolExecutor(2, "virtlab-values") as pool:
        rows = tuple(row for values in pool.map(values_of, used) for row in values)
    return RunTable(rows, looks, declared, worlds_of(used), shares_of(used, rows))


def results_of(
    table: RunTable,
    points: Points,
    level: float,
    overlay: Mapping[str, tuple[Published, ...]],
    *,
    roles: Mapping[str, str],
) -> tuple[Result, ...]:
    """Every path that some run has a value for: measuring roles, loads, entities; metrics that the experiment declares
    come first, then the registry's in its order.
    """
    order = {key: at for at, key in enumerate(METRICS)}
    measuring = [name for name, workload in roles.items() if WORKLOADS[workload].part == "measure"]
    rank = {name: at for at, name in enumerate(dict.fromkeys([*measuring, *roles]))}

    def place(path: MetricPath) -> tuple[Any, ...]:
        metric = path.declaration
        at = metric.statistics.index(path.statistic)
        of_role = rank.get(path.role, len(rank)), path.role
        return (metric.of == "entity", *of_role, order.get(path.metric, -1), path.metric, at)

    paths = sorted((path for path in table.paths() if path.declared or path.metric in METRICS), key=place)
    return tuple(result_of(table, path, points, level, overlay.get(str(path), ())) for path in paths)


def result_of(
    table: RunTable, path: MetricPath, points: Points, level: float, published: tuple[Published, ...] = ()
) -> Result:
    """The cells of one path."""
    groups: dict[tuple[int, str], list[RunValue]] = {}
    counts: dict[tuple[int, str], int] = {}
    for row in table.of(path).values():
        key = row.point, row.realisation
        counts[key] = counts.get(key, 0) + row.samples
        groups.setdefault(key, []).append(RunValue(row.run, row.repetition, row.value, row.reason))
    kinds = kinds_of(table.shares, path.role, path.metric)
    cells = []
    for realisation in table.realisations:
        for index, point in points.items():
            values = tuple(sorted(groups.get((index, realisation), ()), key=lambda each: each.run))
            if values or len(table.realisations) == 1:
                estimate = _estimate(
                    path, values, counts.get((index, realisation), 0), _level(table, values, level)
                )
                cells.append(Cell(point, realisation, values, estimate, kinds.get(index, "")))
    metric = path.declaration
    quantity = Quantity(
        path.role,
        path.metric,
        path.statistic,
        path.unit,
        metric.better,
        metric.title(),
        mixed=len(set(kinds.values())) > 1,
        declared=path.declared,
    )
    return Result(quantity, tuple(cells), published)


def _level(table: RunTable, values: Sequence[RunValue], stated: float) -> float:
    """The level of a setting's interval: the last planned size keeps the stated one, an earlier look has a stricter
    one.
    """
    looks = tuple(table.planned_looks)
    return look_level(looks, stated) if len(looks) > 1 and len(values) < looks[-1] else stated


def _estimate(path: MetricPath, values: Sequence[RunValue], counted: int, level: float) -> Estimate | None:
    """The mean over runs; a share that no run differs in by what was counted over all of them, as claims judge it."""
    present = [one.value for one in values if one.value is not None]
    if path.metric in SHARES and path.statistic == "ratio" and counted and len(set(present)) == 1:
        hits = round(present[0] * counted)
        return proportion_interval(hits, counted, level=level, metric=path.metric, runs=len(present))
    return mean_interval(present, level=level, metric=path.metric, unit=path.unit)
