"""Histograms: a bar per bucket, as wide as it is; a panel per setting, each with its own range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import NUMBERS, Figure, amount, layer, one_colour, tips, title_of
from virtlab.report.figures.grammar.panels import Panels, described
from virtlab.report.gather.distributions.histograms import Buckets, Histogram
from virtlab.report.gather.model import Factor
from virtlab.units import display


def histogram_figure(histogram: Histogram, factors: Sequence[Factor], *, split: bool) -> Figure:
    """The histogram of one metric of one role."""
    panels = Panels.of(histogram.settings, factors, split=split)
    shown = display(histogram.unit, [edge for one in histogram.settings for edge in one.edges])
    rows = [
        {
            "x": low / shown.size, "end": high / shown.size, "y": count, "panel": label,
            "says": f"{shown.number(low)} to {shown.text(high)}",
        }
        for label, one in panels.drawn(histogram.settings)
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
    total = sum(sum(one.counts) for one in histogram.settings)
    return Figure(
        name=names.of_metric("histogram", histogram.role, histogram.metric),
        title=title_of(histogram.title or histogram.metric, histogram.role, "requests per bucket"),
        subtitle=f"{total} requests; {_how(histogram)}; all runs of a setting together{panels.more}",
        alt=_alt(histogram, panels),
        spec=panels.arrange([bars], 260, 180, independent=("x", "y")),
        group=f"{histogram.role}.{histogram.metric}",
        statistic="histogram",
        empty=not rows,
    )


def _bars(buckets: Buckets) -> Iterator[tuple[float, float, int]]:
    """The edges and count of each bar; of values that are all alike a thin one amid nothing."""
    if buckets.edges[0] != buckets.edges[-1]:
        yield from zip(buckets.edges[:-1], buckets.edges[1:], buckets.counts, strict=True)
        return
    thin = max(buckets.edges[0] * 1e-3, 1.0)
    at = buckets.edges[0] - thin / 2
    yield at - 10 * thin, at, 0
    yield at, at + thin, buckets.counts[0]
    yield at + thin, at + 11 * thin, 0


def _how(histogram: Histogram) -> str:
    if histogram.given:
        return (
            f"buckets at {', '.join(display(histogram.unit, [edge]).text(edge) for edge in histogram.given)}"
        )
    buckets = max((len(one.counts) for one in histogram.settings), default=0)
    return (
        "those of a setting are in one bucket"
        if buckets == 1
        else f"{buckets} equal buckets over the range of each setting"
    )


def _alt(histogram: Histogram, panels: Panels) -> str:
    most = []
    for one in histogram.settings:
        at = one.counts.index(max(one.counts))
        shown = display(histogram.unit, one.edges)
        took = f"{shown.number(one.edges[at])} to {shown.text(one.edges[at + 1])}"
        most.append((panels.label(one), f"most of {sum(one.counts)} requests ({one.counts[at]}) took {took}"))
    return f"Histogram of {histogram.role}.{histogram.metric}. {described(most)}."
