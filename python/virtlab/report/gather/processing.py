"""What processors did over time in exemplar runs: of the host, and of guests and pools as shares of two things.

A sample keeps the largest value of its slice of time, so no spike is lost where a run has more of them than a picture.
"""

# ruff: noqa: S608 - the SQL is made of the constants below; names are parameters

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virtlab.analysis.window import MEASURED
from virtlab.lazy import duckdb
from virtlab.results import RunRecord

HOST = "host.cpu"
SHARES = {
    "host": ("host_cpu_share", "of all processors of the host"),
    "guests": ("cpu_share", "of what each may use, a machine its vCPUs, others processors"),
}
LINES = 8  # of a picture, those that used most
SLICES = 250
EXEMPLARS = 3


@dataclass(frozen=True, slots=True)
class Course:
    """A share over the seconds since the measurement began, of one host, guest or pool in one run."""

    run: str
    point: Mapping[str, str]
    entity: str
    share: str  # a key of SHARES
    x: tuple[float, ...]
    y: tuple[float, ...]


def courses_of(
    db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord], points: Mapping[int, Mapping[str, str]]
) -> tuple[Course, ...]:
    """Courses of the settings of least, middle and most use of the host, each by one run; none without telemetry."""
    used = [
        (float(mean), run)
        for run, mean in db.execute(
            "SELECT run, avg(value) FROM series WHERE status = 'ok' AND metric = 'host_cpu_share' "
            "AND entity LIKE 'guests.%' GROUP BY run"
        ).fetchall()
    ]
    by_run = {record.name: record for record in records}
    first: dict[int, tuple[float, str]] = {}
    for mean, run in sorted(used, key=lambda each: each[1]):
        if run in by_run:
            first.setdefault(by_run[run].point, (mean, run))
    ordered = [run for _, run in sorted(first.values())]
    chosen = (
        [ordered[at] for at in sorted({0, len(ordered) // 2, len(ordered) - 1})[:EXEMPLARS]]
        if ordered
        else []
    )
    return tuple(
        course for run in chosen for course in _of_run(db, by_run[run], points.get(by_run[run].point, {}))
    )


def _of_run(db: duckdb.DuckDBPyConnection, record: RunRecord, point: Mapping[str, str]) -> Iterator[Course]:
    low, high = record.windows.get(MEASURED, (None, None))
    shares = {metric: key for key, (metric, _) in SHARES.items()}
    rows = db.execute(
        "WITH one AS (SELECT t_ns, entity, CASE WHEN metric = 'cpu' THEN 'host_cpu_share' ELSE metric END AS metric, value "
        "FROM series WHERE run = ? AND (metric IN ('host_cpu_share', 'cpu_share') "
        "AND (entity LIKE 'guests.%' OR entity LIKE 'pools.%') OR metric = 'cpu' AND entity = ?)), "
        "edge AS (SELECT coalesce(?, min(t_ns)) AS low, coalesce(?, max(t_ns)) AS high FROM one) "
        "SELECT entity, metric, arg_max(t_ns, value) AS at_ns, max(value), any_value(low) FROM one, edge "
        "WHERE t_ns BETWEEN low AND high "
        f"GROUP BY entity, metric, floor((t_ns - low) * {SLICES}.0 / (high - low + 1)) ORDER BY entity, metric, at_ns",
        [record.name, HOST, low, high],
    ).fetchall()
    courses: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for entity, metric, at_ns, value, begin_ns in rows:
        courses.setdefault((entity, shares[metric]), []).append(((at_ns - begin_ns) / 1e9, float(value)))
    for (entity, share), pairs in courses.items():
        x, y = zip(*pairs, strict=True)
        yield Course(record.name, point, entity, share, x, y)


def busiest(means: Iterable[tuple[str, float]]) -> list[str]:
    """The host, and the guests and pools that used most, at most as many as a picture has lines, by name."""
    found: dict[str, float] = {}
    for entity, mean in means:
        found[entity] = max(found.get(entity, 0.0), mean)
    chosen = sorted(found, key=lambda entity: (entity != HOST, -found[entity], entity))[:LINES]
    return sorted(chosen, key=lambda entity: (entity != HOST, entity))
