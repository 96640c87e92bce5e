"""How many samples fell into which bucket, as PsPing's `-h` prints it: a number of equal buckets over the whole range
of values, or edges that the file gives.

A bucket holds what is at or above its lower edge and below the next one's. PsPing prints the lower edges of n buckets
from the smallest value to the largest, so they are (largest - smallest) / (n - 1) wide, and the last holds the largest
value alone (seen in its printed output; its documentation says "covering the entire time range of values"). With given
edges the outermost buckets are open: below the first, at or above the last. Buckets are of one setting (the samples of
its runs pooled, never those of two link realisations), so each setting has its own range.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples` and of numbers; names are parameters

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import duckdb
from virtlab.report.gather.distributions.samples import SAMPLED, Source, rows_of
from virtlab.report.gather.model import Result
from virtlab.report.gather.selection import BUCKETED, bucketed, leading
from virtlab.results import RunRecord

DEFAULT_BUCKETS = 20  # PsPing's own


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of one setting: `edges` has one more entry than `counts`; where the outermost buckets are open, the
    outermost edges are the smallest and the largest value.
    """

    point: Mapping[str, str]
    realisation: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """One metric of one role over all settings; `given` are the edges that the file names, empty for equal buckets."""

    role: str
    metric: str
    unit: str
    title: str
    given: tuple[float, ...]
    settings: tuple[Buckets, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """The buckets that a role asks for: a number of equal ones, or their edges."""

    buckets: int = DEFAULT_BUCKETS
    edges: tuple[float, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Wish:
        """From the parameters of a role in the Plan."""
        edges = tuple(float(edge) for edge in parameters.get("histogram_edges_ns") or ())
        return cls(int(parameters.get("histogram_buckets") or DEFAULT_BUCKETS), edges)


def histograms_of(
    db: duckdb.DuckDBPyConnection,
    used: Sequence[RunRecord],
    results: Sequence[Result],
    points: Mapping[int, Mapping[str, str]],
) -> tuple[Histogram, ...]:
    """Histograms of the roles whose workload has them, with the buckets that they ask for."""
    roles = {name: role for record in used for name, role in record.plan.roles.items()}
    found = []
    for result in leading(results, BUCKETED):
        name, metric = result.quantity.role, result.quantity.declaration
        role = roles.get(name)
        if (
            role is None
            or not bucketed(role.workload, metric.key)
            or not any(one.present for one in result.cells)
        ):
            continue
        wish = Wish.of(role.parameters)
        settings = buckets_of(db, name, SAMPLED[metric.key], points, wish)
        found.append(Histogram(name, metric.key, metric.unit, metric.title(), wish.edges, tuple(settings)))
    return tuple(found)


def buckets_of(
    db: duckdb.DuckDBPyConnection,
    role: str,
    source: Source,
    points: Mapping[int, Mapping[str, str]],
    wish: Wish,
) -> list[Buckets]:
    """Every setting that has samples, in the order of the points; counted inside DuckDB."""
    if wish.edges:
        place = " + ".join(f"(value >= {edge!r})::INTEGER" for edge in wish.edges)
    else:
        place = (
            f"CASE WHEN high = low THEN 0 ELSE "
            f"least(floor((value - low) * {wish.buckets - 1}.0 / (high - low)), {wish.buckets - 1}) END"
        )
    answer = db.execute(
        f"WITH r AS ({rows_of(source)}), "
        "e AS (SELECT point, link_realisation, min(value) AS low, max(value) AS high, count(DISTINCT run) AS runs "
        "FROM r GROUP BY 1, 2) "
        f"SELECT r.point, r.link_realisation, ({place})::INTEGER AS bucket, count(*), any_value(low), any_value(high), "
        "any_value(runs) FROM r JOIN e ON r.point = e.point AND r.link_realisation = e.link_realisation "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        [role],
    ).fetchall()
    groups: dict[tuple[int, str], dict[int, int]] = {}
    ranges: dict[tuple[int, str], tuple[float, float, int]] = {}
    for point, realisation, bucket, count, low, high, runs in answer:
        if point in points:
            groups.setdefault((point, realisation), {})[bucket] = count
            ranges[point, realisation] = (float(low), float(high), runs)
    found = []
    for (point, realisation), counted in groups.items():
        low, high, runs = ranges[point, realisation]
        edges = edges_between(low, high, wish)
        counts = tuple(counted.get(bucket, 0) for bucket in range(len(edges) - 1))
        found.append(Buckets(points[point], realisation, edges, counts, runs))
    return found


def edges_between(low: float, high: float, wish: Wish) -> tuple[float, ...]:
    """The edges of all buckets, one more than there are buckets.

    >>> edges_between(10.0, 20.0, Wish(buckets=3))
    (10.0, 15.0, 20.0, 25.0)
    >>> edges_between(10.0, 20.0, Wish(edges=(15.0, 30.0)))
    (10.0, 15.0, 30.0, 30.0)
    >>> edges_between(10.0, 10.0, Wish()), edges_between(10.0, 20.0, Wish(buckets=1))
    ((10.0, 10.0), (10.0, 20.0))
    """
    if wish.edges:
        return (min(low, wish.edges[0]), *wish.edges, max(high, wish.edges[-1]))
    if low == high or wish.buckets == 1:
        return (low, high)
    steps = wish.buckets - 1
    return tuple(low + (high - low) * at / steps for at in range(wish.buckets + 1))
