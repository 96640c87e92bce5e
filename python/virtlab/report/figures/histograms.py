"""Histograms: a bar per bucket, as wide as it is; a panel per setting, each with its own range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.figure import NUMBERS, Figure, amount, layer, one_colour, tips, title_of
from virtlab.report.figures.panels import Panels, described
from virtlab.report.gather.histograms import Buckets, Histogram
from virtlab.report.gather.model import Factor
from virtlab.units import display


def histogram_figure(found: Histogram, factors: Sequence[Factor], *, split: bool) -> Figure:
    """The histogram of one metric of one role."""
    panels = Panels.of(found.settings, factors, split=split)
    shown = display(found.unit, [edge for one in found.settings for edge in one.edges])
    rows = [
        {
            "x": low / shown.size, "end": high / shown.size, "y": count, "panel": label,
            "says": f"{shown.number(low)} to {shown.text(high)}",
        }
        for label, one in panels.drawn(found.settings)
        for low, high, count in _bars(one)
    ]  # fmt: skip
    bars = layer(
        rows, "bar", look={"binSpacing": 1},
        x=amount(
            "x", shown.unit or "value", bin="binned", scale={"zero": False, "nice": False},
            axis={"labelExpr": NUMBERS, "tickCount": 6, "labelOverlap": True},
        ),
        x2={"field": "end"},
        y=amount("y", "requests" if panels.alone else None),
        color=one_colour("requests"),
        tooltip=tips(("says", "bucket"), ("y", "requests", "")),
    )  # fmt: skip
    total = sum(sum(one.counts) for one in found.settings)
    return Figure(
        name=names.of_metric("histogram", found.role, found.metric),
        title=title_of(found.title or found.metric, found.role, "requests per bucket"),
        subtitle=f"{total} requests; {_how(found)}; all runs of a setting together{panels.more}",
        alt=_alt(found, panels),
        spec=panels.arrange([bars], 260, 180, independent=("x", "y")),
        group=f"{found.role}.{found.metric}",
        statistic="histogram",
        empty=not rows,
    )


def _bars(one: Buckets) -> Iterator[tuple[float, float, int]]:
    """The edges and count of each bar; of values that are all alike a thin one amid nothing."""
    if one.edges[0] != one.edges[-1]:
        yield from zip(one.edges[:-1], one.edges[1:], one.counts, strict=True)
        return
    thin = max(one.edges[0] * 1e-3, 1.0)
    at = one.edges[0] - thin / 2
    yield at - 10 * thin, at, 0
    yield at, at + thin, one.counts[0]
    yield at + thin, at + 11 * thin, 0


def _how(found: Histogram) -> str:
    if found.given:
        return f"buckets at {', '.join(display(found.unit, [edge]).text(edge) for edge in found.given)}"
    buckets = max((len(one.counts) for one in found.settings), default=0)
    return (
        "those of a setting are in one bucket"
        if buckets == 1
        else f"{buckets} equal buckets over the range of each setting"
    )


def _alt(found: Histogram, panels: Panels) -> str:
    most = []
    for one in found.settings:
        at = one.counts.index(max(one.counts))
        shown = display(found.unit, one.edges)
        took = f"{shown.number(one.edges[at])} to {shown.text(one.edges[at + 1])}"
        most.append((panels.label(one), f"most of {sum(one.counts)} requests ({one.counts[at]}) took {took}"))
    return f"Histogram of {found.role}.{found.metric}. {described(most)}."
