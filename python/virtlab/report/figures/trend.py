"""A series over time: each dataset's mean with its interval, and the level of each part between steps."""

from __future__ import annotations

from itertools import pairwise

from virtlab.changes import Series
from virtlab.changes.differences import words
from virtlab.report import names
from virtlab.report.figures.grammar.figure import (
    NUMBERS,
    Figure,
    Row,
    amount,
    layer,
    name,
    one_colour,
    scale_of_one,
)
from virtlab.report.figures.grammar.panels import arrange
from virtlab.units import display


def trend_figure(series: Series) -> Figure:
    """Datasets from left to right in the order in which they were made."""
    found = [point.estimate for point in series.points]
    shown = display(series.unit, [one.point for one in found])
    labels = [f"{number}. {point.created[:10]}" for number, point in enumerate(series.points, 1)]
    rows: list[Row] = [
        {
            "x": label,
            "y": one.point / shown.size,
            "low": (one.point if one.low is None else one.low) / shown.size,
            "high": (one.point if one.high is None else one.high) / shown.size,
        }
        for label, one in zip(labels, found, strict=True)
    ]
    ends = [0, *(step.at for step in series.steps), len(rows)]
    levels: list[Row] = [
        {"x": labels[at], "y": sum(row["y"] for row in rows[begin:end]) / (end - begin), "part": str(begin)}
        for begin, end in pairwise(ends)
        for at in range(begin, end)
    ]
    x = name("x", None, labels, axis={"labelAngle": -40})
    scale = scale_of_one([row["y"] for row in rows]) or {"zero": False}
    y = amount("y", shown.unit or "value", scale=scale, axis={"labelExpr": NUMBERS})
    title = f"{series.path} at {words(series.levels, series.links)}"
    return Figure(
        name=names.slug(f"trend of {title}"),
        title=title,
        subtitle="mean of each dataset's runs with its interval, and the level between steps",
        alt=f"{title}: {len(rows)} datasets, {len(series.steps)} steps.",
        spec=arrange(
            [
                layer(levels, "line", look={"opacity": 0.5, "strokeWidth": 3, "interpolate": "linear"},
                      x=x, y=y, detail={"field": "part", "type": "nominal"}, color=one_colour("level")),
                layer(rows, "rule", x=x, y=amount("low", shown.unit or "value", scale=scale), y2={"field": "high"},
                      color=one_colour("level")),
                layer(rows, "point", look={"filled": True, "size": 60}, x=x, y=y, color=one_colour("level")),
            ],
            (),
            height=220,
        ),
        group=series.path,
        empty=not rows,
    )  # fmt: skip
