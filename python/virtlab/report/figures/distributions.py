"""Distributions and courses: what single samples look like, beside the run-level values that decide.

A distribution pools the samples of the runs of one design point (never of two link realisations); a course
shows one exemplar run per design point. Both come aggregated, at most a thousand points each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report.figures.figure import (
    MAXIMUM_PANELS,
    NUMBERS,
    REALISATION,
    Figure,
    Row,
    arrange,
    panel_label,
    panel_labels,
    scale_of_one,
    title_of,
)
from virtlab.report.gather.model import Curve, Factor, Sampled
from virtlab.report.quantities import Display, display, numeric_levels


def main_factor(factors: Sequence[Factor]) -> Factor | None:
    """The factor that colours distributions: a numeric one before names, then the one with most levels."""
    return max(
        factors, key=lambda one: (numeric_levels(one.levels) is not None, len(one.levels)), default=None
    )


def ecdf_figure(name: str, sampled: Sampled, factors: Sequence[Factor], *, split: bool) -> Figure:
    """Share of samples at or below each value, one line per level of the main factor, other factors as
    panels.
    """
    shown = display(sampled.unit, [curve.x[len(curve.x) // 2] for curve in sampled.curves if curve.x])
    colour = main_factor(factors)
    panels = [factor.name for factor in factors if factor is not colour] + ([REALISATION] if split else [])

    def label(curve: Curve) -> str:
        return panel_label({**curve.point, REALISATION: curve.realisation}, panels)

    labels = panel_labels(factors, panels, (label(curve) for curve in sampled.curves))
    kept = labels[:MAXIMUM_PANELS]
    rows = [
        {
            "x": x / shown.size,
            "y": y,
            "curve": index,
            "panel": label(curve),
            "colour": _level(curve.point, colour),
        }
        for index, curve in enumerate(sampled.curves)
        if label(curve) in kept
        for x, y in zip((*curve.x[:1], *curve.x), (*([0.0] if curve.x else []), *curve.y), strict=True)
    ]
    samples = sum(curve.samples for curve in sampled.curves)
    runs = len({run for curve in sampled.curves for run in curve.runs})
    more = f"; {len(labels) - len(kept)} more panels are left out" if len(labels) > len(kept) else ""
    return Figure(
        name=name,
        title=title_of(sampled.title or sampled.metric, sampled.role, "distribution"),
        subtitle=f"{grouped(samples)} samples of {runs} run{'' if runs == 1 else 's'}"
        + (f"; {sampled.note}" if sampled.note else "")
        + more,
        alt=_ecdf_alt(sampled, shown),
        spec=_ecdf_spec(rows, kept, colour, shown),
        group=f"{sampled.role}.{sampled.metric}",
        statistic="distribution",
        empty=not rows,
    )


def series_figure(name: str, sampled: Sampled) -> Figure:
    """Values over the run's own time, one panel per exemplar run."""
    shown = display(sampled.unit, [value for curve in sampled.curves for value in curve.y])
    labels = [
        ", ".join(f"{key} {level}" for key, level in curve.point.items()) or curve.runs[0]
        for curve in sampled.curves
    ]
    rows = [
        {"x": x, "y": y / shown.size, "panel": label, "run": curve.runs[0]}
        for curve, label in zip(sampled.curves, labels, strict=True)
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    ends = [y / shown.size for curve in sampled.curves for y in curve.y]
    scale = scale_of_one(ends) or {"zero": False}
    encoding: Row = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": "seconds since the measurement began",
            "scale": {"nice": False},
            "axis": {"labelExpr": NUMBERS, "tickCount": 6},
        },
        "y": {"field": "y", "type": "quantitative", "title": shown.unit or "value", "scale": scale},
        "color": {"datum": "samples", "type": "nominal", "legend": None},
        "tooltip": [
            {"field": "x", "title": "s", "type": "quantitative", "format": ".4~g"},
            {"field": "y", "title": shown.unit or "value", "type": "quantitative", "format": ".4~g"},
            {"field": "run", "title": "run", "type": "nominal"},
        ],
    }
    mark = {"type": "point", "style": "run", "opacity": 0.6}
    layer = {"data": {"values": rows}, "mark": mark, "encoding": encoding}
    return Figure(
        name=name,
        title=title_of(sampled.title or sampled.metric, sampled.role, "over time"),
        subtitle="Exemplar runs: per setting the one whose value is the median of its repetitions"
        + (f"; {sampled.note}" if sampled.note else ""),
        alt=f"{sampled.role}.{sampled.metric} over time in {len(labels)} exemplar runs: {'; '.join(labels)}.",
        spec=arrange([layer], labels if len(labels) > 1 else (), height=170),
        group=f"{sampled.role}.{sampled.metric}",
        statistic="over time",
        empty=not rows,
    )


def _level(point: Mapping[str, str], factor: Factor | None) -> str:
    return point.get(factor.name, "") if factor else "all"


def _ecdf_spec(rows: list[Row], labels: Sequence[str], colour: Factor | None, shown: Display) -> Row:
    values = [row["x"] for row in rows]
    plain = scale_of_one(values) or {"zero": False, "nice": False}
    logarithmic = bool(values) and min(values) > 0 and max(values) > 30 * min(values)
    series: Row = {"color": {"datum": "all", "type": "nominal", "legend": None}}
    if colour:
        ramp = numeric_levels(colour.levels) is not None and len(colour.levels) > 3
        levels = list(colour.levels)
        series["color"] = {
            "field": "colour",
            "type": "ordinal" if ramp else "nominal",
            "title": colour.name,
            "sort": levels,
            "scale": {"domain": levels},
            "legend": {"symbolType": "stroke", "symbolStrokeWidth": 3},
        }
    encoding: dict[str, Any] = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": f"{shown.unit}, logarithmic" if logarithmic else shown.unit,
            "scale": {"type": "log", "nice": False} if logarithmic else plain,
            "axis": {"labelExpr": NUMBERS, "tickCount": 5, "labelOverlap": True},
        },
        "y": {
            "field": "y",
            "type": "quantitative",
            "title": "share of samples at or below",
            "scale": {"domain": [0, 1]},
            "axis": {"format": "~%", "tickCount": 5},
        },
        "detail": {"field": "curve", "type": "nominal"},
        "order": {"field": "y", "type": "quantitative"},
        **series,
        "tooltip": [
            *([{"field": "colour", "title": colour.name, "type": "nominal"}] if colour else []),
            {"field": "x", "title": shown.unit or "value", "type": "quantitative", "format": ".4~g"},
            {"field": "y", "title": "share", "type": "quantitative", "format": ".3~%"},
        ],
    }
    layer = {
        "data": {"values": rows},
        "mark": {"type": "line", "style": "curve", "interpolate": "step-after"},
        "encoding": encoding,
    }
    return arrange([layer], labels if len(labels) > 1 else (), height=280 if len(labels) <= 1 else 200)


def grouped(number: int) -> str:
    """Thousands apart by a thin space.

    >>> grouped(1234567)
    '1\\u202f234\\u202f567'
    """
    return f"{number:,}".replace(",", "\u202f")


def _ecdf_alt(sampled: Sampled, shown: Display) -> str:
    if not sampled.curves:
        return f"No run has samples of {sampled.role}.{sampled.metric}."
    parts = []
    for curve in sampled.curves[:8]:
        half = next((x for x, y in zip(curve.x, curve.y, strict=True) if y >= 0.5), curve.x[-1])
        where = ", ".join(f"{key} {level}" for key, level in curve.point.items())
        parts.append(f"{where + ': ' if where else ''}half of the samples at or below {shown.text(half)}")
    return f"Cumulative distribution of {sampled.role}.{sampled.metric}. {'; '.join(parts)}."
