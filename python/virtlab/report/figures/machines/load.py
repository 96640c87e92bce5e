"""Delay against load and loss against load, of the tests after a search.

Loads of the latency test are parts of what each run found, so their place on the axis is the mean of the loads that
were really tested. Values are run-level: a mark is the mean over runs with its interval. Quantiles of delay have a
picture of their own, one kind of line each: a mean can stand still while the tail moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from virtlab.report import names
from virtlab.report.figures.grammar.figure import (
    Figure,
    Row,
    amount,
    far_apart,
    layer,
    name,
    one_colour,
    tips,
)
from virtlab.report.figures.grammar.panels import Panels, main_factor
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Factor, Result
from virtlab.units import Display, display

AT = re.compile(r"(at|rate)[\d_]+\Z")  # loads of the latency test
DOWN = re.compile(r"max[\d_]+\Z")  # loads of the frame-loss test
WIDE = 20.0  # loads further apart than this stand on a logarithmic axis
DASHES = {"median": [1, 0], "p90": [6, 3], "p99": [2, 2]}  # of the lines of quantiles
Series = list[tuple[Result, list[tuple[Cell, Cell]]]]  # cells of the load and of the value, per result


def load_figures(data: Gathered, *, split: bool) -> list[Figure]:
    """Delay against load, its quantiles, and loss against load, of every role that has them."""
    found = []
    for role in data.searched_roles:
        combined = _series(data, role, AT, "split_latency", "mean")
        delays = combined or _series(data, role, AT, "latency", "mean")
        what = "Combined latency" if combined else "Latency"
        quantiles = [one for statistic in DASHES for one in _series(data, role, AT, "latency", statistic)]
        losses = _series(data, role, DOWN, "frame_loss", "ratio")
        for plot, title, series in (
            (names.by_load("latency", role), f"{what} of {role} by load", delays),
            (names.by_load("latency quantiles", role), f"Quantiles of latency of {role} by load", quantiles),
            (names.by_load("frame loss", role), f"Frame loss rate of {role} by load", losses),
        ):
            if series:
                goal = next((one.quantity.qualifier for one, _ in series if one.quantity.goal), "")
                found.append(_figure(plot, title + goal, series, role, data.design.factors, split=split))
    return found


def _series(data: Gathered, role: str, part: re.Pattern[str], metric: str, statistic: str) -> Series:
    """Cells of a metric at each load of a role with those of the load itself, from the least load up."""
    found = []
    for result in data.results:
        quantity = result.quantity
        own, _, load_name = quantity.role.partition(".")
        if (
            own != role
            or (quantity.metric, quantity.statistic) != (metric, statistic)
            or not part.match(load_name)
        ):
            continue
        loads = data.by_setting(f"{quantity.role}.tested_load.mean")
        pairs = [(loads[one.setting], one) for one in result.cells if one.present and one.setting in loads]
        if pairs := [(load, one) for load, one in pairs if load.present]:
            found.append((result, pairs))
    return found


def _figure(
    plot: str, title: str, series: Series, role: str, factors: Sequence[Factor], *, split: bool
) -> Figure:
    colour = main_factor(factors)
    pairs = [pair for _, found in series for pair in found]
    x_shown = display("bit/s", [load.mean for load, _ in pairs])
    y_shown = display(series[0][0].quantity.unit, [one.mean for _, one in pairs])
    panels = Panels.of(
        [one for _, one in pairs], factors, split=split, without=[colour.name] if colour else []
    )
    rows: list[Row] = []
    for result, found in series:
        for load, one in found:
            if panels.label(one) not in panels.labels:
                continue
            row: Row = {
                "x": load.mean / x_shown.size, "y": one.mean / y_shown.size, "panel": panels.label(one),
                "colour": one.point.get(colour.name, "") if colour else "runs", "runs": len(one.present),
                "at": result.quantity.role.partition(".")[2], "statistic": result.quantity.statistic,
            }  # fmt: skip
            for key in ("low", "high"):
                end = getattr(one.estimate, key, None)
                if end is not None and math.isfinite(end):
                    row[key] = max(0.0, end) / y_shown.size
            rows.append(row)
    ends = sorted(rows, key=lambda row: (row["x"], row["y"]))

    def at(row: Row) -> str:
        return f"{row['x']:.4g} {x_shown.unit}: {row['y']:.4g} {y_shown.unit}"

    return Figure(
        name=plot,
        title=title,
        subtitle="Mean of the runs at each load tested, with the interval of the mean where several runs were made",
        alt=f"{title}. At the least load, {at(ends[0])}; at the greatest, {at(ends[-1])}.",
        spec=panels.arrange(_layers(rows, colour, x_shown, y_shown), 280, 200),
        group=names.search_section(role),
        statistic="by load",
        x="load",
    )


def _layers(rows: list[Row], colour: Factor | None, x_shown: Display, y_shown: Display) -> list[Row]:
    kinds = [one for one in DASHES if any(row["statistic"] == one for row in rows)]
    series = {"color": one_colour("runs")}
    if colour is not None:
        levels = list(colour.levels)
        series = {"color": name("colour", colour.name, levels, scale={"domain": levels})}
    scale = {"domain": kinds, "range": [DASHES[one] for one in kinds]}
    dashes = {"strokeDash": name("statistic", "quantile", scale=scale)} if kinds else {}
    x, y = _axis("x", "load", x_shown, rows), _axis("y", "", y_shown, rows if kinds else ())
    tooltip = tips(
        *([("statistic", "quantile")] if kinds else []),
        *([("colour", colour.name)] if colour else []),
        ("at", "load"), ("x", x_shown.unit or "load", ".5~g"), ("y", y_shown.unit or "value", ".5~g"), ("runs", "runs", ""),
    )  # fmt: skip
    whiskers = [row for row in rows if "low" in row and "high" in row]
    return [
        layer(rows, "line", "curve", x=x, y=y, **series, **dashes),
        layer(whiskers, "rule", "whisker", x=x, y={**y, "field": "low"}, y2={"field": "high"}, **series),
        layer(rows, "point", "mean", x=x, y=y, **series, tooltip=tooltip),
    ]


def _axis(field: str, title: str, shown: Display, rows: Sequence[Row]) -> dict[str, Any]:
    """An axis, logarithmic where the values of `rows` lie far apart."""
    wide = far_apart([row[field] for row in rows], WIDE)
    unit = (shown.unit or "value") + (", logarithmic" if wide else "")
    scale: Row = {"type": "log", "nice": False} if wide else {"zero": True}
    return amount(field, f"{title} ({unit})" if title else unit, scale=scale)
