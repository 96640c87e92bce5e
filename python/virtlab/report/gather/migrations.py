"""What was left to be copied of guests that moved, over time, in exemplar runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.analysis.moves import spans
from virtlab.lazy import duckdb
from virtlab.results import RunRecord

REMAINING, TOTAL, DIRTIED = "migration_remaining", "migration_time", "migration_dirtied"
EXEMPLARS = 3


@dataclass(frozen=True, slots=True)
class MoveCourse:
    """Bytes that were left of one guest in one run, over the seconds since the first move of the run began."""

    run: str
    point: Mapping[str, str]
    entity: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    rounds: tuple[
        tuple[float, float], ...
    ] = ()  # when a reading of what is dirty was seen, and how many bytes it found


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
    """Courses of the settings of the shortest, a middle and the longest move, each by one run; none where none
    moved.
    """
    found = []
    for record in moved_runs(db, records):
        rows = db.execute(
            "SELECT entity, t_ns, value, metric = ? FROM series WHERE run = ? AND metric IN (?, ?) ORDER BY entity, t_ns",
            [REMAINING, record.name, REMAINING, DIRTIED],
        ).fetchall()
        if not rows:
            continue
        zero_ns = min((begin for _, begin, _ in spans(record)), default=min(row[1] for row in rows))
        point = points.get(record.point, {})
        for entity in dict.fromkeys(row[0] for row in rows):
            own = [(int(row[1] - zero_ns) / 1e9, float(row[2]), row[3]) for row in rows if row[0] == entity]
            left = [(at_s, value) for at_s, value, remains in own if remains]
            rounds = tuple((at_s, value) for at_s, value, remains in own if not remains)
            x, y = (tuple(each[place] for each in left) for place in (0, 1))
            found.append(MoveCourse(record.name, point, entity, x, y, rounds))
    return tuple(found)
