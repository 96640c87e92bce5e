"""What was left to be copied of guests that moved, over time, in exemplar runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.analysis.moves import spans
from virtlab.lazy import duckdb
from virtlab.results import RunRecord

REMAINING, TOTAL = "migration_remaining", "migration_time"
EXEMPLARS = 3


@dataclass(frozen=True, slots=True)
class MoveCourse:
    """Bytes that were left of one guest in one run, over the seconds since the first move of the run began."""

    run: str
    point: Mapping[str, str]
    entity: str
    x: tuple[float, ...]
    y: tuple[float, ...]


def moved_runs(db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord]) -> list[RunRecord]:
    """One run of each of the settings of the shortest, a middle and the longest move; none where none moved."""
    took = db.execute(
        "SELECT run, max(value) FROM series WHERE status = 'ok' AND metric = ? GROUP BY run ORDER BY run",
        [TOTAL],
    ).fetchall()
    by_run = {record.name: record for record in records}
    first: dict[int, tuple[float, str]] = {}
    for run, total_ns in took:
        if run in by_run:
            first.setdefault(by_run[run].point, (float(total_ns), run))
    ordered = [by_run[run] for _, run in sorted(first.values())]
    if not ordered:
        return []
    return [ordered[at] for at in sorted({0, len(ordered) // 2, len(ordered) - 1})[:EXEMPLARS]]


def moves_of(
    db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord], points: Mapping[int, Mapping[str, str]]
) -> tuple[MoveCourse, ...]:
    """Courses of the settings of the shortest, a middle and the longest move, each by one run; none where none moved."""
    found = []
    for record in moved_runs(db, records):
        rows = db.execute(
            "SELECT entity, t_ns, value FROM series WHERE run = ? AND metric = ? ORDER BY entity, t_ns",
            [record.name, REMAINING],
        ).fetchall()
        if not rows:
            continue
        zero_ns = min((begin for _, begin, _ in spans(record)), default=min(t_ns for _, t_ns, _ in rows))
        point = points.get(record.point, {})
        for entity in dict.fromkeys(row[0] for row in rows):
            own = [(int(t_ns), float(value)) for name, t_ns, value in rows if name == entity]
            x = tuple((t_ns - zero_ns) / 1e9 for t_ns, _ in own)
            found.append(MoveCourse(record.name, point, entity, x, tuple(value for _, value in own)))
    return tuple(found)
