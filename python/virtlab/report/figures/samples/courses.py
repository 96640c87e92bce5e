"""Courses: the single samples of exemplar runs over time, thinned so that no spike is lost."""

from __future__ import annotations

from virtlab.report import names
from virtlab.report.figures.grammar.figure import (
    NUMBERS,
    Figure,
    Row,
    amount,
    layer,
    one_colour,
    scale_of_one,
    tips,
    title_of,
)
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.gather.model import Sampled
from virtlab.report.words import point_words
from virtlab.units import display


def course_figure(sampled: Sampled) -> Figure:
    """Values over the run's own time, one panel per exemplar run."""
    shown = display(sampled.unit, [value for curve in sampled.curves for value in curve.y])
    labels = [point_words(curve.point, curve.runs[0]) for curve in sampled.curves]
    rows: list[Row] = [
        {"x": x, "y": y / shown.size, "panel": label, "run": curve.runs[0]}
        for curve, label in zip(sampled.curves, labels, strict=True)
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    scale = scale_of_one([row["y"] for row in rows]) or {"zero": False}
    points = layer(
        rows, "point", "run", look={"opacity": 0.6},
        x=amount(
            "x", "seconds since the measurement began",
            scale={"nice": False}, axis={"labelExpr": NUMBERS, "tickCount": 6},
        ),
        y=amount("y", shown.unit or "value", scale=scale),
        color=one_colour("samples"),
        tooltip=tips(("x", "s", ".4~g"), ("y", shown.unit or "value", ".4~g"), ("run", "run")),
    )  # fmt: skip
    note = f"; {sampled.note}" if sampled.note else ""
    return Figure(
        name=names.of_metric("series", sampled.role, sampled.metric),
        title=title_of(sampled.title or sampled.metric, sampled.role, "over time"),
        subtitle=f"Exemplar runs: per setting the one whose value is the median of its repetitions{note}",
        alt=f"{sampled.role}.{sampled.metric} over time in {len(labels)} exemplar runs: {'; '.join(labels)}.",
        spec=arrange([points], labels if len(labels) > 1 else (), height=170),
        group=f"{sampled.role}.{sampled.metric}",
        statistic="over time",
        empty=not rows,
    )
