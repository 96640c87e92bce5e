"""Whether results come out the same again: each run as a box beside the others, and what varies within and between
runs.

The variance within a run and that between runs are kept apart (`virtlab.analysis.effects.recurrence`); a distribution
that pools the samples of all runs hides the second.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples`; names are parameters

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.analysis.effects.recurrence import BATCHES, Recurrence, RunSummary, recurrence
from virtlab.lazy import duckdb
from virtlab.report.gather.distributions.samples import SAMPLED, Source, rows_of
from virtlab.report.gather.model import Result
from virtlab.report.gather.selection import RECURRING, leading

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class RunBox:
    """One run: its quantiles (5, 25, 50, 75, 95 %) and summary."""

    run: str
    quantiles: tuple[float, ...]
    summary: RunSummary


@dataclass(frozen=True, slots=True)
class Setting:
    """The runs of one design point under one link realisation, and what their variances are; None: not estimable."""

    point: Mapping[str, str]
    realisation: str
    runs: tuple[RunBox, ...]
    components: Recurrence | None

    @property
    def samples(self) -> int:
        """The number of samples of all runs."""
        return sum(box.summary.samples for box in self.runs)

    @property
    def mean(self) -> float:
        """Mean over the runs' means."""
        return sum(box.summary.mean for box in self.runs) / len(self.runs)


@dataclass(frozen=True, slots=True)
class Recurring:
    """One metric of one role over all settings."""

    role: str
    metric: str
    unit: str
    title: str
    settings: tuple[Setting, ...]


def recurring_of(
    db: duckdb.DuckDBPyConnection,
    results: Sequence[Result],
    points: Mapping[int, Mapping[str, str]],
    level: float,
) -> tuple[Recurring, ...]:
    """The metrics whose runs are drawn beside each other, where some setting has two runs."""
    found = []
    for result in leading(results, RECURRING):
        role, metric = result.quantity.role, result.quantity.declaration
        if any(len(cell.present) > 1 for cell in result.cells):
            settings = settings_of(db, role, SAMPLED[metric.key], points, level)
            found.append(Recurring(role, metric.key, metric.unit, metric.title(), tuple(settings)))
    return tuple(found)


def settings_of(
    db: duckdb.DuckDBPyConnection,
    role: str,
    source: Source,
    points: Mapping[int, Mapping[str, str]],
    level: float,
) -> list[Setting]:
    """Every setting with runs, in the order of the points; the summaries are made inside DuckDB in one pass."""
    listed = ", ".join(str(share) for share in QUANTILES)
    answer = db.execute(
        f"WITH r AS ({rows_of(source)}), "
        "o AS (SELECT *, row_number() OVER (PARTITION BY run ORDER BY t_ns) - 1 AS place, "
        "count(*) OVER (PARTITION BY run) AS n FROM r), "
        f"b AS (SELECT run, var_samp(m) AS spread FROM (SELECT run, place // (n // {BATCHES}) AS batch, avg(value) AS m "
        f"FROM o WHERE n >= 2 * {BATCHES} AND place < {BATCHES} * (n // {BATCHES}) GROUP BY 1, 2) GROUP BY 1) "
        f"SELECT any_value(point), any_value(link_realisation), run, quantile_cont(value, [{listed}]), "
        "count(*), avg(value), coalesce(var_samp(value), 0), any_value(spread) "
        "FROM r LEFT JOIN b USING (run) GROUP BY run ORDER BY 1, 2, 3",
        [role],
    ).fetchall()
    groups: dict[tuple[int, str], list[RunBox]] = {}
    for point, realisation, run, quantiles, count, mean, variance, spread in answer:
        if point in points and quantiles is not None:  # an older file may lack the column
            box = RunBox(
                run, tuple(float(one) for one in quantiles), RunSummary(count, mean, variance, spread)
            )
            groups.setdefault((point, realisation), []).append(box)
    return [
        Setting(points[point], realisation, tuple(boxes), recurrence([one.summary for one in boxes], level))
        for (point, realisation), boxes in groups.items()
    ]
