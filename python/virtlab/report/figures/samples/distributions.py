"""Distributions: what single samples look like, beside the run-level values that decide.

A distribution pools the samples of the runs of one design point, never of two link realisations. It comes aggregated,
at most a thousand points.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import (
    NUMBERS,
    Figure,
    Row,
    amount,
    far_apart,
    layer,
    name,
    one_colour,
    scale_of_one,
    tips,
    title_of,
)
from virtlab.report.figures.grammar.panels import Panels, described, main_factor
from virtlab.report.gather.model import Factor, Sampled
from virtlab.report.words import point_words
from virtlab.units import Display, display, numeric_levels, show_count

WIDE = 30.0  # samples further apart than this stand on a logarithmic axis


def distribution_figure(sampled: Sampled, factors: Sequence[Factor], *, split: bool) -> Figure:
    """Share of samples at or below each value: a line per level of the main factor, the other factors as panels."""
    shown = display(sampled.unit, [curve.x[len(curve.x) // 2] for curve in sampled.curves if curve.x])
    colour = main_factor(factors)
    panels = Panels.of(sampled.curves, factors, split=split, without=[colour.name] if colour else [])
    rows = [
        {
            "x": x / shown.size, "y": y, "curve": at, "panel": label,
            "colour": curve.point.get(colour.name, "") if colour else "all",
        }
        for at, (label, curve) in enumerate(panels.drawn(sampled.curves))
        for x, y in zip((*curve.x[:1], *curve.x), (*([0.0] if curve.x else []), *curve.y), strict=True)
    ]  # fmt: skip
    samples = sum(curve.samples for curve in sampled.curves)
    runs = len({run for curve in sampled.curves for run in curve.runs})
    note = f"; {sampled.note}" if sampled.note else ""
    return Figure(
        name=names.of_metric("ecdf", sampled.role, sampled.metric),
        title=title_of(sampled.title or sampled.metric, sampled.role, "distribution"),
        subtitle=f"{show_count(samples)} samples of {runs} run{'' if runs == 1 else 's'}{note}{panels.more}",
        alt=_alt(sampled, shown),
        spec=panels.arrange([_line(rows, colour, shown)], 280, 200),
        group=f"{sampled.role}.{sampled.metric}",
        statistic="distribution",
        empty=not rows,
    )


def _line(rows: list[Row], colour: Factor | None, shown: Display) -> Row:
    values = [row["x"] for row in rows]
    wide = far_apart(values, WIDE)
    plain = scale_of_one(values) or {"zero": False, "nice": False}
    series = one_colour("all")
    if colour:
        levels = list(colour.levels)
        legend = {"symbolType": "stroke", "symbolStrokeWidth": 3}
        series = name("colour", colour.name, levels, scale={"domain": levels}, legend=legend)
        if numeric_levels(levels) is not None and len(levels) > 3:
            series["type"] = "ordinal"
    return layer(
        rows, "line", "curve", look={"interpolate": "step-after"},
        x=amount(
            "x", f"{shown.unit}, logarithmic" if wide else shown.unit,
            scale={"type": "log", "nice": False} if wide else plain,
            axis={"labelExpr": NUMBERS, "tickCount": 5, "labelOverlap": True},
        ),
        y=amount(
            "y", "share of samples at or below", scale={"domain": [0, 1]}, axis={"format": "~%", "tickCount": 5}
        ),
        detail={"field": "curve", "type": "nominal"},
        order={"field": "y", "type": "quantitative"},
        color=series,
        tooltip=tips(
            *([("colour", colour.name)] if colour else []),
            ("x", shown.unit or "value", ".4~g"),
            ("y", "share", ".3~%"),
        ),
    )  # fmt: skip


def _alt(sampled: Sampled, shown: Display) -> str:
    if not sampled.curves:
        return f"No run has samples of {sampled.role}.{sampled.metric}."
    halves = []
    for curve in sampled.curves:
        half = next((x for x, y in zip(curve.x, curve.y, strict=True) if y >= 0.5), curve.x[-1])
        where = point_words(curve.point)
        halves.append((where, f"half of the samples at or below {shown.text(half)}"))
    return f"Cumulative distribution of {sampled.role}.{sampled.metric}. {described(halves)}."
