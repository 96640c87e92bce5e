"""Times of requests and operations as HdrHistogram's log of intervals, for the tools that read such logs.

A line is of one interval of one run, of one metric of one role or part of a role, and on demand of one thread. What
counts is what the report counts: good runs, without what came before and after a role's window.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples`; names are parameters

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TextIO

from virtlab.errors import ExperimentError
from virtlab.lazy import duckdb
from virtlab.outputs.interval_histogram import HALF_BITS, HEADER, write_line
from virtlab.report.gather.distributions.samples import (
    OPERATION_TIME,
    SAMPLED,
    Source,
    declare_windows,
    rows_of,
)
from virtlab.results import Dataset, RunRecord

TIMES: dict[str, Source] = {**SAMPLED, "operation_time": OPERATION_TIME}
BY_THREAD = ("operation_time",)  # metrics whose rows tell the thread
ENDLESS_NS = 1 << 62  # of an interval: a run as a whole
# The place of a value's bucket, as `place_of` has it.
_SHIFT = f"greatest(length(bin(value)) - {HALF_BITS + 1}, 0)"
_PLACE = f"({_SHIFT} << {HALF_BITS}) + (value >> {_SHIFT})"


def write_histograms(
    dataset: Dataset, out: TextIO, *, roles: Collection[str] = (), width_ns: int | None, threads: bool
) -> None:
    """Writes the log: of some roles and parts of roles, or of all. `width_ns`: of intervals, which begin with the first
    request of a run; None: each run is one. `threads`: each thread has lines of its own, where rows tell it.

    ExperimentError where a role has no times, or where one is below zero, which a histogram cannot hold.
    """
    records = dataset.runs("ok")
    with dataset.database() as db:
        declare_windows(db, records)
        timed = [
            (role, metric)
            for role in _names(db, records)
            for metric in TIMES
            if not roles or role in roles
            if _has_rows(db, role, metric)
        ]
        for each in roles:
            if each not in {role for role, _ in timed}:
                raise ExperimentError(
                    "--stream",
                    f"the dataset has no times of '{each}'",
                    "use the name of a role or of its part",
                )
        _declare_begins(db, timed)
        out.write(HEADER)
        for role, metric in timed:
            for line in _lines(db, role, metric, width_ns or ENDLESS_NS, threads and metric in BY_THREAD):
                write_line(out, *line)


def _names(db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord]) -> list[str]:
    """Roles in the order of their file, each followed by its parts."""
    of_roles = list(dict.fromkeys(role for record in records for role in record.plan.roles))
    rows = db.execute("SELECT DISTINCT stream FROM role_windows ORDER BY stream").fetchall()
    parts = [name for (name,) in rows]
    return [name for role in of_roles for name in parts if name == role or name.startswith(f"{role}.")]


def _has_rows(db: duckdb.DuckDBPyConnection, role: str, metric: str) -> bool:
    (lowest,) = db.execute(f"SELECT min(value) FROM ({rows_of(TIMES[metric])})", [role]).fetchone() or (None,)
    if lowest is not None and lowest < 0:
        what = f"{metric} of {role} has times below zero, since clocks differ; a histogram holds none"
        raise ExperimentError("--what", what, "name other roles by --stream, or write --what samples")
    return lowest is not None


def _declare_begins(db: duckdb.DuckDBPyConnection, timed: Sequence[tuple[str, str]]) -> None:
    """A table `begins` (run, low): the instant of the first request of each run, of any role."""
    db.execute("CREATE TEMP TABLE begins_of_roles (run VARCHAR, low BIGINT)")
    for role, metric in timed:
        select = f"SELECT run, min(t_ns) FROM ({rows_of(TIMES[metric])}) GROUP BY run"
        db.execute(f"INSERT INTO begins_of_roles {select}", [role])
    db.execute("CREATE TEMP TABLE begins AS SELECT run, min(low) AS low FROM begins_of_roles GROUP BY run")


def _lines(
    db: duckdb.DuckDBPyConnection, role: str, metric: str, width_ns: int, by_thread: bool
) -> Iterator[tuple[str, float, float, int, list[tuple[int, int]]]]:
    """Tag, begin and length in s, largest value in ns and counts by place of each line."""
    rows = db.execute(
        f"WITH one AS ({rows_of(TIMES[metric], also=', s.thread' if by_thread else ', -1 AS thread')}) "
        f"SELECT run, thread, (t_ns - low) // ? AS number, CAST({_PLACE} AS BIGINT) AS place, count(*), max(value), "
        "max(t_ns - low) FROM one JOIN begins USING (run) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        [role, width_ns],
    )
    for (run, thread, number), group in groupby(_fetched(rows), key=lambda row: row[:3]):
        held = list(group)
        tag = f"{run}/{role}/{metric}" + (f"/thread-{thread}" if thread >= 0 else "")
        whole_ns = max(row[6] for row in held) if width_ns == ENDLESS_NS else width_ns
        counts = [(place, count) for _, _, _, place, count, _, _ in held]
        yield tag, number * width_ns / 1e9, whole_ns / 1e9, max(row[5] for row in held), counts


def _fetched(rows: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, int, int, int, int, int, int]]:
    while row := rows.fetchone():
        yield row
