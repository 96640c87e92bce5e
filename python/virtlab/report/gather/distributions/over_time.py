"""Response times over time: of each interval of a run how many requests there were, and their median, p99 and maximum.

Every request has a row, and every operation, so these are exact: no histogram rounds them. A request belongs to the
interval in which it was due (in a transaction: ended), so that a server which stands still shows in the time of those
that wait for it.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples`; names are parameters

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import duckdb
from virtlab.metrics import METRICS
from virtlab.report.gather.distributions.curves import exemplars
from virtlab.report.gather.distributions.samples import OPERATION_TIME, SAMPLED, rows_of
from virtlab.report.gather.model import Result
from virtlab.report.gather.selection import leading

TIMED = {
    "response_time": SAMPLED["response_time"],
    "transaction_time": SAMPLED["transaction_time"],
    "operation_time": OPERATION_TIME,
}
INTERVALS_MAX = 120  # of a picture
NARROWEST_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Requests of one interval; times in ns."""

    begin_s: float
    count: int
    median: int
    p99: int
    largest: int


@dataclass(frozen=True, slots=True)
class OverTime:
    """The intervals of one metric of one role in one run; those without a request are absent."""

    role: str
    metric: str
    title: str
    run: str
    point: Mapping[str, str]
    width_ns: int
    intervals: tuple[Interval, ...]


COLUMNS = {
    "run": "VARCHAR", "point": "INTEGER", "begin_ns": "BIGINT", "requests": "BIGINT", "median_ns": "BIGINT",
    "p99_ns": "BIGINT", "max_ns": "BIGINT",
}  # fmt: skip


def intervals(
    db: duckdb.DuckDBPyConnection, role: str, metric: str, width_ns: int, run: str | None = None
) -> tuple[Mapping[str, str], list[tuple[Any, ...]]]:
    """Columns and rows of the intervals of a run, or of all good ones; they begin with its first request."""
    one = "" if run is None else " AND s.run = ?"
    rows = db.execute(
        f"WITH one AS ({rows_of(TIMED[metric])}{one}), "
        "edge AS (SELECT run, min(t_ns) AS low FROM one GROUP BY run) "
        "SELECT run, point, (t_ns - low) // ? * ? AS begin_ns, count(*), quantile_disc(value, 0.5), "
        "quantile_disc(value, 0.99), max(value) FROM one JOIN edge USING (run) GROUP BY 1, 2, 3 ORDER BY 1, 3",
        [role, *([] if run is None else [run]), width_ns, width_ns],
    ).fetchall()
    return COLUMNS, rows


def over_time_of(db: duckdb.DuckDBPyConnection, results: Sequence[Result]) -> tuple[OverTime, ...]:
    """Response times over time, of the settings of lowest, middle and highest mean, each by one run."""
    return tuple(_over_time(db, results))


def _over_time(db: duckdb.DuckDBPyConnection, results: Sequence[Result]) -> Iterator[OverTime]:
    for result in leading(results, TIMED):
        role, metric = result.quantity.role, result.quantity.metric
        if "." in role:
            continue  # of parts of a role there are tables, on demand
        for run, cell in exemplars(result):
            width_ns = _width(db, role, metric, run)
            if width_ns is None:
                continue
            _, rows = intervals(db, role, metric, width_ns, run)
            found = tuple(Interval(begin / 1e9, count, *times) for _, _, begin, count, *times in rows)
            yield OverTime(role, metric, METRICS[metric].title(), run, cell.point, width_ns, found)


def _width(db: duckdb.DuckDBPyConnection, role: str, metric: str, run: str) -> int | None:
    """A round width for which a picture has room for all; None where the run has fewer than two intervals."""
    (span_ns,) = db.execute(
        f"SELECT max(t_ns) - min(t_ns) FROM ({rows_of(TIMED[metric])}) WHERE run = ?", [role, run]
    ).fetchone() or (None,)
    if span_ns is None:
        return None
    rounded = (step * NARROWEST_NS * 10**power for power in range(12) for step in (1, 2, 5))
    width_ns = next(width for width in rounded if span_ns < width * INTERVALS_MAX)
    return width_ns if span_ns >= width_ns else None
