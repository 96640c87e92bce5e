"""Samples to curves, inside DuckDB: ten million rows in, at most a few hundred points per curve out.

A distribution pools the samples of a design point's valid runs under one link realisation and keeps
quantiles, denser in the tails; a course thins one run to the smallest and largest sample of each slice of
time, so no spike is lost.
"""

# ruff: noqa: S608 - the SQL is made of the constants below; names are parameters

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtlab.analysis.window import role_window
from virtlab.report.gather.model import Curve

if TYPE_CHECKING:
    import duckdb

    from virtlab.results import RunRecord

SLICES = 250


@dataclass(frozen=True, slots=True)
class Source:
    """Where the single samples of a metric are: the view, the value, the instant, and which rows count."""

    view: str
    value: str
    instant: str
    counts: str = "true"


# psping keeps rows of its own, whatever its test measures; a role has rows of one kind only.
_SHARED = "run, point, link_realisation, status, stream"
_REQUESTS = "FROM request WHERE seq >= 0 AND finished_ns >= 0"
_ROUND_TRIPS = (
    f"(SELECT {_SHARED}, seq, sent_ns, rtt_ns FROM rtt UNION ALL "
    f"SELECT {_SHARED}, seq, sent_ns, finished_ns - sent_ns AS rtt_ns {_REQUESTS})"
)
_TRANSACTIONS = (
    f"(SELECT {_SHARED}, started_ns, finished_ns FROM transaction UNION ALL "
    f"SELECT {_SHARED}, sent_ns AS started_ns, finished_ns {_REQUESTS})"
)

SAMPLED: dict[str, Source] = {
    "rtt": Source(_ROUND_TRIPS, "rtt_ns", "sent_ns", "s.seq >= w.first_seq"),
    "path_rtt": Source("rtt", "path_rtt_ns", "sent_ns", "path_rtt_ns >= 0"),
    "owd": Source("packet", "user_ns - sent_ns", "sent_ns", "user_ns > 0"),
    "path_owd": Source("packet", "received_ns - sent_ns", "sent_ns"),
    "burst_time": Source("burst", "finished_ns - sent_ns", "intended_ns", "finished_ns >= 0"),
    "transaction_time": Source(_TRANSACTIONS, "finished_ns - started_ns", "finished_ns"),
    "connect_time": Source("request", "finished_ns - sent_ns", "sent_ns", "seq >= 0 AND finished_ns >= 0"),
}


def probabilities(count: int = 240) -> list[float]:
    """Where a distribution is kept: evenly, and ten times finer in the outermost percent on both sides.

    >>> len(probabilities()), probabilities()[0], probabilities()[-1]
    (279, 0.0, 1.0)
    """
    even = [index / count for index in range(count + 1)]
    fine = [index / 2000 for index in range(1, 20)]
    return sorted({*even, *fine, *(1 - one for one in fine)})


def declare_windows(db: duckdb.DuckDBPyConnection, records: Iterable[RunRecord]) -> None:
    """A table `role_windows` (run, stream, begin_ns, end_ns): when each role's samples count, as in the
    analysis.
    """
    db.execute("SET enable_progress_bar = false")
    db.execute(
        "CREATE TEMP TABLE role_windows "
        "(run VARCHAR, stream VARCHAR, begin_ns BIGINT, end_ns BIGINT, first_seq BIGINT)"
    )
    rows = []
    for record in records:
        for role, entry in record.plan.roles.items():
            window = role_window(record, role)
            edges = (-(2**62), 2**62) if window.whole else (window.begin_ns, window.end_ns)
            echoed = entry.parameters.get("protocol") == "icmp" and "warmup" in entry.parameters
            first_seq = int(entry.parameters["warmup"]) if echoed else -(2**62)
            rows.append([record.name, role, *edges, first_seq])
    if rows:
        db.executemany("INSERT INTO role_windows VALUES (?, ?, ?, ?, ?)", rows)


def rows_of(source: Source) -> str:
    """SQL of the samples of a role (one parameter) that count: run, point, link_realisation, t_ns, value."""
    return (
        f"SELECT s.run, s.point, s.link_realisation, s.{source.instant} AS t_ns, ({source.value}) AS value "
        f"FROM {source.view} s JOIN role_windows w ON w.run = s.run AND w.stream = s.stream "
        f"WHERE s.stream = ? AND s.status = 'ok' AND ({source.counts}) "
        f"AND s.{source.instant} >= w.begin_ns AND s.{source.instant} < w.end_ns"
    )


def distributions(
    db: duckdb.DuckDBPyConnection, role: str, source: Source, points: Mapping[int, Mapping[str, str]]
) -> list[Curve]:
    """One curve per design point and link realisation, in the order of the points: x value, y share at or
    below.
    """
    shares = probabilities()
    listed = ", ".join(f"{share!r}" for share in shares)
    answer = db.execute(
        f"SELECT point, link_realisation, quantile_disc(value, [{listed}]), count(*), list(DISTINCT run) "
        f"FROM ({rows_of(source)}) GROUP BY 1, 2 ORDER BY 1, 2",
        [role],
    ).fetchall()
    return [
        Curve(points[point], realisation, *_steps(values, shares), tuple(sorted(runs)), count)
        for point, realisation, values, count, runs in answer
        if point in points
    ]


def _steps(values: list[float], shares: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Each value once, with the largest share known to lie at or below it."""
    best: dict[float, float] = {}
    for value, share in zip(values, shares, strict=True):
        best[float(value)] = share
    return tuple(best), tuple(best.values())


def course(
    db: duckdb.DuckDBPyConnection, role: str, source: Source, run: str, point: Mapping[str, str]
) -> Curve | None:
    """One run over its own time: x seconds from its first sample, y value; None when it has no samples."""
    slice_of = f"floor((t_ns - low) * {SLICES}.0 / (high - low + 1))"
    answer = db.execute(
        f"WITH one AS (SELECT * FROM ({rows_of(source)}) WHERE run = ?), "
        "edge AS (SELECT min(t_ns) AS low, max(t_ns) AS high, count(*) AS samples, "
        "min(link_realisation) AS links FROM one), "
        "ranked AS (SELECT t_ns, value, low, samples, links, row_number() OVER upwards AS up, "
        "row_number() OVER downwards AS down FROM one, edge "
        f"WINDOW upwards AS (PARTITION BY {slice_of} ORDER BY value, t_ns), "
        f"downwards AS (PARTITION BY {slice_of} ORDER BY value DESC, t_ns)) "
        "SELECT (t_ns - low) / 1e9, value, links, samples FROM ranked WHERE up = 1 OR down = 1 ORDER BY t_ns",
        [role, run],
    ).fetchall()
    if not answer:
        return None
    seconds = tuple(float(row[0]) for row in answer)
    return Curve(point, answer[0][2], seconds, tuple(float(row[1]) for row in answer), (run,), answer[0][3])
