"""What clients, processors and disks did around the moves of exemplar runs: every time is from the start of the first
move.

A slice of time keeps the largest value of a share or a rate, so no spike is lost; of times it keeps the median and the
largest. The runs are those whose remaining memory is drawn, so the pictures can be laid beside each other.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples` and below; names are parameters

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from virtlab.analysis.moves import spans
from virtlab.analysis.window import MEASURED
from virtlab.lazy import duckdb
from virtlab.metrics import METRICS
from virtlab.metrics.machines import AT_HOST
from virtlab.report.gather.distributions.samples import SAMPLED, rows_of
from virtlab.report.gather.migrations import moved_runs
from virtlab.report.gather.selection import PRIMARY
from virtlab.results import RunRecord

What = Literal["response times", "processors", "writes"]
TIMES = tuple(metric for metric in SAMPLED if metric in PRIMARY)
SLICES = 120
NARROWEST_NS = 10_000_000
MEDIAN, LARGEST = "median", "largest"

# Shares of all processors of a host, which the hosts with processors of their own and the machine have as `cpu`.
_SERIES: dict[What, str] = {
    "processors": "(metric = 'host_cpu_share' AND entity LIKE 'guests.%') "
    "OR (metric = 'cpu' AND (entity LIKE 'hosts.%' OR entity = 'host.cpu'))",
    "writes": "metric = 'disk_written' AND (entity LIKE 'guests.%' OR entity LIKE 'hosts.%' OR entity LIKE 'host.%')",
}


@dataclass(frozen=True, slots=True)
class Span:
    """When a guest moved, in seconds from the start of the first move."""

    guest: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """Values of one guest, service, host or disk: ns of times, 0..1 of processors, byte/s of writes."""

    quantity: What
    of: str
    guest: str  # that it is of, '' of hosts
    statistic: str  # of each slice of time
    x: tuple[float, ...]  # seconds from the start of the first move
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """One run around its moves."""

    run: str
    point: Mapping[str, str]
    width_ns: int  # of a slice of time
    spans: tuple[Span, ...]
    lines: tuple[Line, ...]


def around_moves_of(
    db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord], points: Mapping[int, Mapping[str, str]]
) -> tuple[Around, ...]:
    """The time around moves, of the settings of the shortest, a middle and the longest one, each by one run; none where
    no guest moved.
    """
    found = (_of_run(db, record, points.get(record.point, {})) for record in moved_runs(db, records))
    return tuple(one for one in found if one is not None)


def _of_run(db: duckdb.DuckDBPyConnection, record: RunRecord, point: Mapping[str, str]) -> Around | None:
    moves = list(spans(record))
    if not moves:
        return None
    zero_ns = min(begin for _, begin, _ in moves)
    low, high = record.windows.get(MEASURED, (zero_ns, max(end for _, _, end in moves)))
    rounded = (step * NARROWEST_NS * 10**power for power in range(12) for step in (1, 2, 5))
    width_ns = next(width for width in rounded if high - low < width * SLICES)
    lines = (*_times(db, record, zero_ns, width_ns), *_sampled(db, record, zero_ns, width_ns, (low, high)))
    seen = tuple(Span(guest, (begin - zero_ns) / 1e9, (end - zero_ns) / 1e9) for guest, begin, end in moves)
    return Around(record.name, point, width_ns, seen, lines)


def _times(db: duckdb.DuckDBPyConnection, record: RunRecord, zero_ns: int, width_ns: int) -> Iterator[Line]:
    """Times of all roles that ask one guest or service, as if they were one: before, during and after are often
    three.
    """
    asked: dict[tuple[str, str], list[str]] = {}
    for role, entry in record.plan.roles.items():
        if entry.to is not None:
            asked.setdefault((str(entry.parameters.get("service", entry.to)), entry.to), []).append(role)
    found = []
    for ((of, guest), roles), metric in ((one, metric) for one in asked.items() for metric in TIMES):
        every = " UNION ALL ".join([rows_of(SAMPLED[metric], counted=False)] * len(roles))
        rows = db.execute(
            f"SELECT min(t_ns), quantile_disc(value, 0.5), max(value) FROM ({every}) WHERE run = ? "
            "GROUP BY floor((t_ns - ?) / ?) ORDER BY 1",
            [*roles, record.name, zero_ns, float(width_ns)],
        ).fetchall()
        if rows:
            found.append((of, guest, metric, rows))
    for of, guest, metric, rows in found:
        alone = sum(each[:2] == (of, guest) for each in found) == 1
        called = of if alone else f"{of}, {METRICS[metric].title()}"
        begins, medians, largest = zip(*rows, strict=True)
        x = tuple((begin - zero_ns) / 1e9 for begin in begins)
        yield Line("response times", called, guest, MEDIAN, x, tuple(map(float, medians)))
        yield Line("response times", called, guest, LARGEST, x, tuple(map(float, largest)))


def _sampled(
    db: duckdb.DuckDBPyConnection,
    record: RunRecord,
    zero_ns: int,
    width_ns: int,
    window: tuple[int | None, int | None],
) -> Iterator[Line]:
    """Lines of series. What was zero throughout is left out: it has no disk that is written to, or did nothing."""
    (low, high), guests = window, record.plan.world.guests
    for quantity, chosen in _SERIES.items():
        rows = db.execute(
            "SELECT entity, arg_max(t_ns, value) AS at_ns, max(value) FROM series "
            f"WHERE run = ? AND ({chosen}) AND t_ns BETWEEN ? AND ? "
            "GROUP BY entity, floor((t_ns - ?) / ?) ORDER BY entity, at_ns",
            [record.name, low, high, zero_ns, float(width_ns)],
        ).fetchall()
        for entity in dict.fromkeys(row[0] for row in rows):
            own = [((at_ns - zero_ns) / 1e9, float(value)) for of, at_ns, value in rows if of == entity]
            if any(value for _, value in own):
                x, y = zip(*own, strict=True)
                names = entity.removeprefix("guests.").removesuffix(".disk")
                guest = next((name for name in (names, names.rpartition(AT_HOST)[0]) if name in guests), "")
                yield Line(quantity, entity, guest, LARGEST, x, y)
