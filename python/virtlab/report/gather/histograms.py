"""How many samples fell into which bucket, as PsPing's `-h` prints it: a number of equal buckets over the whole range of
values, or edges that the file gives.

A bucket holds what is at or above its lower edge and below the next one's. PsPing prints the lower edges of n buckets from
the smallest value to the largest, so they are (largest - smallest) / (n - 1) wide, and the last holds the largest value
alone (seen in its printed output; its documentation says "covering the entire time range of values"). With given edges the
outermost buckets are open: below the first, at or above the last. Buckets are of one setting (the samples of its runs
pooled, never those of two link realisations), so each setting has its own range.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples` and of numbers; names are parameters

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.report import names
from virtlab.report.figures.figure import NUMBERS, Figure, Row, title_of
from virtlab.report.figures.panels import Panels, is_split, setting_cells, setting_head
from virtlab.report.gather.model import Factor, Gathered
from virtlab.report.gather.samples import Source, rows_of
from virtlab.report.quantities import display
from virtlab.report.tables.table import Block, cell

if TYPE_CHECKING:
    import duckdb

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
    """What a role asks for: a number of equal buckets, or edges."""

    buckets: int = DEFAULT_BUCKETS
    edges: tuple[float, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Wish:
        """From the parameters of a role in the Plan."""
        edges = tuple(float(edge) for edge in parameters.get("histogram_edges_ns") or ())
        return cls(int(parameters.get("histogram_buckets") or DEFAULT_BUCKETS), edges)


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


def histogram_figure(found: Histogram, factors: Sequence[Factor], *, split: bool) -> Figure:
    """A bar per bucket, as wide as it is; a panel per setting, each with its own range."""
    panels = Panels.of(found.settings, factors, split=split)
    shown = display(found.unit, [edge for one in found.settings for edge in one.edges])
    rows: list[Row] = []
    for one in found.settings:
        if panels.label(one) in panels.labels:
            bars = list(zip(one.edges[:-1], one.edges[1:], one.counts, strict=True))
            if one.edges[0] == one.edges[-1]:  # all alike: a thin bar amid nothing
                thin = max(one.edges[0] * 1e-3, 1.0)
                at = one.edges[0] - thin / 2
                bars = [
                    (at - 10 * thin, at, 0),
                    (at, at + thin, one.counts[0]),
                    (at + thin, at + 11 * thin, 0),
                ]
            for low, high, count in bars:
                rows.append({
                    "x": low / shown.size, "end": high / shown.size, "y": count, "panel": panels.label(one),
                    "says": f"{shown.number(low)} to {shown.text(high)}",
                })  # fmt: skip
    unit = shown.unit or "value"
    layer: Row = {
        "data": {"values": rows},
        "mark": {"type": "bar", "binSpacing": 1},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": unit,
                "bin": "binned",
                "scale": {"zero": False, "nice": False},
                "axis": {"labelExpr": NUMBERS, "tickCount": 6, "labelOverlap": True},
            },
            "x2": {"field": "end"},
            "y": {"field": "y", "type": "quantitative", "title": "requests" if panels.alone else None},
            "color": {"datum": "requests", "type": "nominal", "legend": None},
            "tooltip": [
                {"field": "says", "title": "bucket", "type": "nominal"},
                {"field": "y", "title": "requests", "type": "quantitative"},
            ],
        },
    }
    spec = panels.arrange([layer], height=260, height_of_many=180, independent=("x", "y"))
    total = sum(sum(one.counts) for one in found.settings)
    buckets = max((len(one.counts) for one in found.settings), default=0)
    if found.given:
        how = f"buckets at {', '.join(display(found.unit, [edge]).text(edge) for edge in found.given)}"
    elif buckets == 1:
        how = "those of a setting are in one bucket"
    else:
        how = f"{buckets} equal buckets over the range of each setting"
    more = f"; {panels.left_out} more panels are left out" if panels.left_out else ""
    return Figure(
        name=names.of_metric("histogram", found.role, found.metric),
        title=title_of(found.title or found.metric, found.role, "requests per bucket"),
        subtitle=f"{total} requests; {how}; all runs of a setting together{more}",
        alt=_alt(found, panels),
        spec=spec,
        group=f"{found.role}.{found.metric}",
        statistic="histogram",
        empty=not rows,
    )


def _alt(found: Histogram, panels: Panels) -> str:
    says = []
    for one in found.settings:
        most = max(range(len(one.counts)), key=lambda at, one=one: one.counts[at])  # type: ignore[misc]
        shown = display(found.unit, one.edges)
        says.append(
            f"most of {sum(one.counts)} requests ({one.counts[most]}) took {shown.number(one.edges[most])} to "
            f"{shown.text(one.edges[most + 1])}"
        )
    return f"Histogram of {found.role}.{found.metric}. {panels.words(found.settings, says)}."


def buckets_table(data: Gathered, found: Histogram) -> Block:
    """A row per bucket of each setting: its edges, how many requests, their share, and the share up to there."""
    split = is_split(found.settings)
    shown = display(found.unit, [edge for one in found.settings for edge in one.edges])
    unit = f" ({shown.unit})" if shown.unit else ""
    numbers = [f"from{unit}", f"below{unit}", "requests", "share", "up to here"]
    rows = []
    for one in found.settings:
        start = setting_cells(one, data.varying, split=split)
        total, up_to = sum(one.counts), 0
        for at, count in enumerate(one.counts):
            up_to += count
            low, high = (shown.number(edge, 5) for edge in one.edges[at : at + 2])
            if found.given:
                low = "smallest" if at == 0 else low
                high = "largest" if at == len(one.counts) - 1 else high
            texts = (low, high, str(count), f"{count / total:.2%}", f"{up_to / total:.2%}")
            rows.append({"cells": [*start, *(cell(text, "number") for text in texts)], "out": count == 0})
    return {
        "id": names.of_metric("buckets", found.role, found.metric),
        "title": "histogram",
        "caption": f"{found.role}.{found.metric}: requests per bucket, as PsPing's -h; all runs of a setting together"
        + ("" if found.given else "; the last of equal buckets holds the largest value"),
        "head": setting_head(data.varying, numbers, split=split),
        "rows": rows,
    }
