"""Interval plots: every run as a dot, the mean of the runs with its confidence interval, published numbers
beside.

The axis factor stands below; the first other factor is colour and shape; all further ones are panels. Levels
that are quantities of one unit stand where their number puts them, so a straight line is a straight line;
names stand evenly. A setting without values is absent, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report.figures.figure import (
    MAXIMUM_PANELS,
    NUMBERS,
    REALISATION,
    Figure,
    Row,
    arrange,
    axis_title,
    panel_label,
    panel_labels,
    scale_of_one,
    title_of,
)
from virtlab.report.gather.model import Cell, Factor, Result
from virtlab.report.quantities import Display, display, interval, numeric_levels


def interval_figure(
    name: str, result: Result, factors: Sequence[Factor], x: str | None, *, split: bool
) -> Figure:
    """The interval plot of a result with factor `x` on the axis; `split` makes link realisations panels."""
    quantity = result.quantity
    cells = [cell for cell in result.cells if cell.present]
    shown = display(quantity.unit, [value for cell in cells for value in cell.present])
    stage = _Stage(factors, x, split=split)
    means = [stage.place(cell) | _mean(cell, shown) for cell in cells]
    runs = [
        stage.place(cell) | {"y": one.value / shown.size, "says": shown.text(one.value), "run": one.run}
        for cell in cells
        for one in cell.values
        if one.value is not None
    ]
    published = _published(result, stage, shown)
    return Figure(
        name=name,
        title=title_of(quantity.title or quantity.metric, quantity.role, quantity.statistic, x)
        + quantity.beside,
        subtitle=_subtitle(cells, stage, has_published=bool(published)),
        alt=_alt(result, cells, x, shown),
        spec=_spec(means, runs, published, stage, shown=shown, unit=quantity.unit),
        group=f"{quantity.role}.{quantity.metric}",
        statistic=quantity.statistic,
        x=x or "",
        empty=not cells,
    )


class _Stage:
    """Where a design point stands in the plot: axis, colour, panel."""

    def __init__(self, factors: Sequence[Factor], x: str | None, *, split: bool) -> None:
        others = [factor for factor in factors if factor.name != x]
        self.factors = factors
        self.axis = next((factor for factor in factors if factor.name == x), None)
        self.colour = others[0] if others else None
        self.panels = [factor.name for factor in others[1:]] + ([REALISATION] if split else [])
        self.shown = Display(1.0, "")
        self.numbers: list[float] | None = None
        parsed = numeric_levels(self.axis.levels) if self.axis and len(self.axis.levels) >= 3 else None
        if parsed:
            numbers, unit = parsed
            self.shown = display(unit, numbers)
            self.numbers = [number / self.shown.size for number in numbers]
            gaps = [
                after - before
                for before, after in zip(sorted(self.numbers), sorted(self.numbers)[1:], strict=False)
            ]
            self.step = min(0.012 * (max(self.numbers) - min(self.numbers)), 0.18 * min(gaps))

    def place(self, cell: Cell) -> Row:
        """The row of a cell: x, the level and series behind it, its panel."""
        row: Row = {"x": self._x(cell.point)}
        if self.axis:
            row["level"] = cell.point.get(self.axis.name, "")
        if self.colour:
            row["colour"] = cell.point.get(self.colour.name, "")
        if self.panels:
            row["panel"] = panel_label({**cell.point, REALISATION: cell.realisation}, self.panels)
        return row

    def _x(self, point: Mapping[str, str]) -> float | str:
        """The number of the level, a little aside per series so that intervals do not hide each other; or its
        name.
        """
        if self.axis is None:
            return "all runs"
        level = point.get(self.axis.name, "")
        if self.numbers is None:
            return level
        at = self.numbers[self.axis.levels.index(level)]
        if self.colour is None or point.get(self.colour.name) not in self.colour.levels:
            return at
        aside = self.colour.levels.index(point[self.colour.name]) - (len(self.colour.levels) - 1) / 2
        return round(at + aside * self.step, 9)


def _mean(cell: Cell, shown: Display) -> Row:
    estimate = cell.estimate
    if estimate is None:
        middle = sum(cell.present) / len(cell.present)
        return {
            "y": middle / shown.size,
            "says": f"{shown.text(middle)}, interval not estimable",
            "n": len(cell.present),
        }
    row: Row = {
        "y": estimate.point / shown.size,
        "says": interval(estimate.low, estimate.point, estimate.high, shown),
        "n": len(cell.present),
    }
    least = 0.0 if min(cell.present) >= 0 else -math.inf  # what cannot be negative is not drawn below zero
    for key, value in (("low", estimate.low), ("high", estimate.high)):
        if value is not None and math.isfinite(value):
            row[key] = max(value, least) / shown.size
    return row


def _published(result: Result, stage: _Stage, shown: Display) -> list[Row]:
    """A published number stands at each cell that it speaks of, once per place; not where the source leaves
    the axis open.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for number in result.published:
        if stage.axis and stage.axis.name not in number.point:
            continue
        free = [factor.name for factor in stage.factors if factor.name not in number.point]
        to = f" to {shown.text(number.high)}" if number.high != number.low else ""
        for cell in result.cells:
            if any(cell.point.get(name) != level for name, level in number.point.items()):
                continue
            row = stage.place(cell) | {
                "y": (number.low + number.high) / 2 / shown.size,
                "low": number.low / shown.size,
                "high": number.high / shown.size,
                "says": f"{number.qualifier} {shown.text(number.low)}{to}".strip(),
                "source": number.source + (f" (any {', '.join(free)})" if free else ""),
            }
            rows.setdefault((row["x"], row.get("colour"), row.get("panel"), row["y"]), row)
    return list(rows.values())


def _spec(
    means: list[Row], runs: list[Row], published: list[Row], stage: _Stage, *, shown: Display, unit: str
) -> Row:
    labels = (
        panel_labels(stage.factors, stage.panels, (row["panel"] for row in means))[:MAXIMUM_PANELS]
        if stage.panels
        else []
    )
    if labels:
        means, runs, published = (
            [row for row in rows if row["panel"] in labels] for rows in (means, runs, published)
        )
    ends = [row[key] for row in means + runs + published for key in ("y", "low", "high") if key in row]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    scale: Row = {"zero": unit == "ratio" or (low >= 0 and low < 0.6 * high), "nice": True}
    scale = scale_of_one(ends) or scale
    y = {"field": "y", "type": "quantitative", "title": shown.unit or "value", "scale": scale}
    place: Row = {"x": _x_encoding(stage), "y": y}
    series: Row = {"color": {"datum": "runs", "type": "nominal", "legend": None}}
    shape: Row = {}
    if stage.colour:
        levels = list(stage.colour.levels)
        ramp = len(levels) > 4 and numeric_levels(levels) is not None
        by_colour = {
            "field": "colour",
            "type": "ordinal" if ramp else "nominal",
            "title": stage.colour.name,
            "sort": levels,
        }
        series = {"color": {**by_colour, "scale": {"domain": levels}}}
        shape = {"shape": {**by_colour, "scale": {"domain": levels}}}
        if stage.numbers is None:
            place["xOffset"] = {
                "field": "colour",
                "type": "nominal",
                "sort": levels,
                "scale": {"domain": levels},
            }
    tooltip = [
        *([{"field": "level", "title": stage.axis.name}] if stage.axis else []),
        *([{"field": "colour", "title": stage.colour.name}] if stage.colour else []),
        *([{"field": "panel", "title": "panel"}] if labels else []),
    ]

    def layer(rows: list[Row], mark: Row, **encoding: Any) -> Row:
        return {"data": {"values": rows}, "mark": mark, "encoding": {**place, **encoding}}

    def tip(field: str, title: str) -> Row:
        return {"field": field, "title": title, "type": "nominal"}

    whiskers = [row for row in means if "low" in row and "high" in row]
    layers = [layer(means, {"type": "line", "style": "trend"}, **series)] if stage.numbers else []
    layers += [
        layer(
            runs,
            {"type": "point", "style": "run"},
            **series,
            tooltip=[*tooltip, tip("says", "value"), tip("run", "run")],
        ),
        layer(
            whiskers,
            {"type": "rule", "style": "whisker"},
            **series,
            y={**y, "field": "low"},
            y2={"field": "high"},
        ),
        layer(
            means,
            {"type": "point", "style": "mean"},
            **series,
            **shape,
            tooltip=[*tooltip, tip("says", "mean of runs"), tip("n", "runs")],
        ),
    ]
    ranges = [row for row in published if row["low"] != row["high"]]
    if ranges:
        mark = {"type": "rule", "style": "published-range"}
        layers.append(layer(ranges, mark, y={**y, "field": "low"}, y2={"field": "high"}))
    if published:
        mark = {"type": "point", "style": "published", "shape": "diamond"}
        layers.append(
            layer(published, mark, tooltip=[*tooltip, tip("says", "published"), tip("source", "source")])
        )
    return arrange(layers, labels if len(labels) > 1 else (), height=300 if len(labels) <= 1 else 210)


def _x_encoding(stage: _Stage) -> Row:
    if stage.numbers is None:
        return {
            "field": "x",
            "type": "ordinal",
            "title": stage.axis.name if stage.axis else None,
            "sort": list(stage.axis.levels) if stage.axis else None,
            "axis": {"labelAngle": 0, "labelLimit": 160},
            "scale": {"paddingInner": 0.35, "paddingOuter": 0.25},
        }
    axis: Row = {"labelExpr": NUMBERS, "labelOverlap": True}
    if len(stage.numbers) <= 12:
        axis["values"] = stage.numbers
    return {
        "field": "x",
        "type": "quantitative",
        "title": axis_title(stage.axis, stage.shown),
        "scale": {"nice": False, "zero": False, "padding": 16},
        "axis": axis,
    }


def _subtitle(cells: Sequence[Cell], stage: _Stage, *, has_published: bool) -> str:
    counts = sorted({len(cell.present) for cell in cells})
    if not counts:
        return "no run has a value"
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    level = next((cell.estimate.level for cell in cells if cell.estimate is not None), None)
    text = f"Mean of {runs} run{'' if counts == [1] else 's'} per setting"
    text += f" with its {level * 100:g} % interval" if level is not None else "; too few runs for an interval"
    text += "; small dots are single runs" + ("; open diamonds are published" if has_published else "")
    panels = {panel_label({**cell.point, REALISATION: cell.realisation}, stage.panels) for cell in cells}
    if len(panels) > MAXIMUM_PANELS:
        text += f"; {len(panels) - MAXIMUM_PANELS} more panels stand in the table only"
    return text


def _alt(result: Result, cells: Sequence[Cell], x: str | None, shown: Display) -> str:
    path = f"{result.quantity.path}{result.quantity.beside}"
    if not cells:
        return f"No run has a value of {path}."
    middles = [(sum(cell.present) / len(cell.present), cell.point) for cell in cells]
    low, high = min(middles, key=lambda pair: pair[0]), max(middles, key=lambda pair: pair[0])

    def at(pair: tuple[float, Mapping[str, str]]) -> str:
        where = ", ".join(f"{name} {level}" for name, level in pair[1].items())
        return f"{shown.text(pair[0])}" + (f" at {where}" if where else "")

    by = f" by {x}" if x else ""
    return (
        f"Interval plot of {path}{by}: lowest {at(low)}; highest {at(high)}. "
        "The table below the plot holds every value."
    )
