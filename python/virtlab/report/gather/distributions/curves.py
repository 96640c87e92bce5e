"""Distributions and courses, made inside DuckDB: ten million rows in, at most a few hundred points per curve out.

A distribution pools the samples of a design point's valid runs under one link realisation and keeps quantiles, denser
in the tails; a course thins one run to the smallest and largest sample of each slice of time, so no spike is lost.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples`; names are parameters

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from virtlab.lazy import duckdb
from virtlab.report import names
from virtlab.report.gather.distributions.samples import Source, rows_of, source_of
from virtlab.report.gather.model import Cell, Curve, Result, Sampled
from virtlab.report.gather.selection import DISTRIBUTIONS, leads

Points = Mapping[int, Mapping[str, str]]  # index -> its levels of the factors that vary
SLICES = 250
EXEMPLARS = 3


def curves_of(
    db: duckdb.DuckDBPyConnection, results: Sequence[Result], points: Points, wanted: frozenset[str]
) -> tuple[tuple[Sampled, ...], tuple[Sampled, ...]]:
    """Distributions and courses of the metrics that have single samples and are drawn, unasked or by name."""
    spread, courses = [], []
    for result in results:
        declaration = result.quantity.declaration
        source = source_of(declaration) if leads(result.quantity) else None
        if source is None:
            continue
        role, metric = result.quantity.role, result.quantity.metric
        unit, title = declaration.unit, declaration.title()
        unasked = metric in DISTRIBUTIONS or declaration.over_time
        if unasked or names.of_metric("ecdf", role, metric) in wanted:
            curves = tuple(distributions(db, role, source, points))
            spread.append(
                Sampled(role, metric, unit, title, curves, "every sample of a setting's runs pooled")
            )
        if unasked or names.of_metric("series", role, metric) in wanted:
            courses.append(Sampled(role, metric, unit, title, tuple(_exemplars(db, result, source))))
    return tuple(spread), tuple(courses)


def _exemplars(db: duckdb.DuckDBPyConnection, result: Result, source: Source) -> Iterator[Curve]:
    for run, cell in exemplars(result):
        curve = course(db, result.quantity.role, source, run, cell.point)
        if curve is not None:
            yield curve


def exemplars(result: Result) -> Iterator[tuple[str, Cell]]:
    """The settings of lowest, middle and highest mean, each by the run whose value is the median of its repetitions."""
    cells = sorted((cell for cell in result.cells if cell.present), key=lambda cell: cell.mean)
    places = sorted({0, len(cells) // 2, len(cells) - 1}) if cells else []
    for cell in (cells[at] for at in places[:EXEMPLARS]):
        runs = sorted((one.value, one.run) for one in cell.values if one.value is not None)
        yield runs[(len(runs) - 1) // 2][1], cell


def probabilities(count: int = 240) -> list[float]:
    """Where a distribution is kept: evenly, and ten times finer in the outermost percent on both sides.

    >>> len(probabilities()), probabilities()[0], probabilities()[-1]
    (279, 0.0, 1.0)
    """
    even = [index / count for index in range(count + 1)]
    fine = [index / 2000 for index in range(1, 20)]
    return sorted({*even, *fine, *(1 - one for one in fine)})


def distributions(db: duckdb.DuckDBPyConnection, role: str, source: Source, points: Points) -> list[Curve]:
    """One curve per design point and link realisation, in the order of the points: x value, y share at or below."""
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
