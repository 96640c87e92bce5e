"""Runs beside each other: whether results come out the same again.

A run is a line from 5 to 95 % of its samples, a bar from 25 to 75 %, its median and its mean; a panel per setting.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, one_colour, tips, title_of
from virtlab.report.figures.grammar.panels import Panels, described
from virtlab.report.gather.distributions.recurrence import Recurring
from virtlab.report.gather.model import Factor
from virtlab.units import display

_QUANTILES = ("low", "quarter", "middle", "upper", "high")


def runs_figure(recurrence: Recurring, factors: Sequence[Factor], *, split: bool) -> Figure:
    """The runs of one metric of one role."""
    panels = Panels.of(recurrence.settings, factors, split=split)
    shown = display(recurrence.unit, [box.summary.mean for one in recurrence.settings for box in one.runs])
    rows: list[Row] = [
        {"x": number, "panel": label, "run": box.run, "y": box.summary.mean / shown.size}
        | dict(zip(_QUANTILES, (value / shown.size for value in box.quantiles), strict=True))
        for label, one in panels.drawn(recurrence.settings)
        for number, box in enumerate(one.runs, 1)
    ]
    place: Row = {
        "x": {
            "field": "x",
            "type": "ordinal",
            "title": "run",
            "axis": {"labelAngle": 0, "labelOverlap": True},
        },
        "color": one_colour("runs"),
        "tooltip": tips(("run", "run"), ("y", "mean", ".5~g"), ("middle", "median", ".5~g")),
    }

    def at(field: str) -> Row:
        return {**place, "y": amount(field, shown.unit or "value", scale={"zero": False})}

    layers = [
        layer(rows, "rule", "whisker", **at("low"), y2={"field": "high"}),
        layer(rows, "bar", look={"size": 9, "opacity": 0.45}, **at("quarter"), y2={"field": "upper"}),
        layer(rows, "tick", look={"size": 13, "thickness": 2}, **at("middle")),
        layer(rows, "point", "mean", **at("y")),
    ]
    shares = [
        (panels.label(one), f"{one.components.icc:.0%} of the variance lies between runs")
        if one.components else (panels.label(one), "not estimable")
        for one in recurrence.settings
    ]  # fmt: skip
    return Figure(
        name=names.of_metric("runs", recurrence.role, recurrence.metric),
        title=title_of(recurrence.title or recurrence.metric, recurrence.role, "run by run"),
        subtitle="Each run: 5 to 95 % of its samples as a line, 25 to 75 % as a bar, median as a tick, mean as a mark",
        alt=f"Runs of {recurrence.role}.{recurrence.metric} beside each other. {described(shares)}.",
        spec=panels.arrange(layers, 260, 190, independent=("y",)),
        group=f"{recurrence.role}.{recurrence.metric}",
        statistic="run by run",
        empty=not rows,
    )
