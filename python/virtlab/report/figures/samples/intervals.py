"""Interval plots: every run as a dot, the mean of the runs with its confidence interval, published numbers beside.

The axis factor stands below; the first other factor is colour and shape; all further ones are panels. Levels that are
quantities of one unit stand where their number puts them, so a straight line is a straight line; those that grow by one
ratio at each step, as 1, 2, 4, 8 do, stand evenly on a logarithmic axis, and so do names. A setting without values is
absent, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from virtlab.report.figures.grammar.figure import (
    NUMBERS,
    Figure,
    Row,
    amount,
    layer,
    name,
    one_colour,
    scale_of_one,
    tips,
    title_of,
)
from virtlab.report.figures.grammar.panels import Panels
from virtlab.report.gather.model import Cell, Factor, Result
from virtlab.report.words import point_words
from virtlab.units import Display, display, interval, numeric_levels

EVENLY = 4  # levels, from which on they can stand evenly on a logarithmic axis
LEAST_RATIO = 1.5  # of neighbours there
ASIDE = 0.06  # of a step, for each series


def interval_figure(
    plot: str, result: Result, factors: Sequence[Factor], x: str | None, *, split: bool
) -> Figure:
    """The interval plot of a result with factor `x` on the axis; `split` makes link realisations panels."""
    quantity = result.quantity
    cells = [cell for cell in result.cells if cell.present]
    numbers = [value for cell in cells for value in cell.present]
    shown = display(quantity.unit, [*numbers, *(one.high for one in result.published)])
    stage = _Stage(cells, factors, x, split=split)
    means = [stage.place(cell) | _mean(cell, shown) for _, cell in stage.panels.drawn(cells)]
    runs = [
        stage.place(cell) | {"y": one.value / shown.size, "says": shown.text(one.value), "run": one.run}
        for _, cell in stage.panels.drawn(cells)
        for one in cell.values
        if one.value is not None
    ]
    published = _published(result, stage, shown)
    layers = _layers(means, runs, published, stage, unit=shown.unit, ratio=quantity.unit == "ratio")
    return Figure(
        name=plot,
        title=title_of(quantity.title or quantity.metric, quantity.role, quantity.statistic, x)
        + quantity.qualifier,
        subtitle=_subtitle(cells, stage.panels, has_published=bool(published)),
        alt=_alt(result, cells, x, shown),
        spec=stage.panels.arrange(layers, 300, 210),
        group=f"{quantity.role}.{quantity.metric}",
        statistic=quantity.statistic,
        x=x or "",
        empty=not cells,
    )


class _Stage:
    """The place of a design point in the plot: axis, colour, panel."""

    def __init__(
        self, cells: Sequence[Cell], factors: Sequence[Factor], x: str | None, *, split: bool
    ) -> None:
        others = [factor for factor in factors if factor.name != x]
        self.factors = factors
        self.axis = next((factor for factor in factors if factor.name == x), None)
        self.colour = others[0] if others else None
        self.panels = Panels.of(
            cells, factors, split=split, without=[one.name for one in (self.axis, self.colour) if one]
        )
        self.shown = Display(1.0, "")
        self.numbers: list[float] | None = None
        self.ratio: float | None = None
        parsed = numeric_levels(self.axis.levels) if self.axis and len(self.axis.levels) >= 3 else None
        if parsed:
            numbers, unit = parsed
            self.shown = display(unit, numbers)
            self.numbers = [number / self.shown.size for number in numbers]
            ordered = sorted(self.numbers)
            gap = min(after - before for before, after in pairwise(ordered))
            self.step = min(0.012 * (ordered[-1] - ordered[0]), 0.18 * gap)
            self.ratio = _ratio(ordered)

    def place(self, cell: Cell) -> Row:
        """The row of a cell: x, the level and series behind it, its panel."""
        row: Row = {"x": self._x(cell.point)}
        if self.axis:
            row["level"] = cell.point.get(self.axis.name, "")
        if self.colour:
            row["colour"] = cell.point.get(self.colour.name, "")
        if self.panels.names:
            row["panel"] = self.panels.label(cell)
        return row

    def _x(self, point: Mapping[str, str]) -> float | str:
        """The number of the level, a little aside per series so that intervals do not hide each other; or its name."""
        if self.axis is None:
            return "all runs"
        level = point.get(self.axis.name, "")
        if self.numbers is None:
            return level
        at = self.numbers[self.axis.levels.index(level)]
        if self.colour is None or point.get(self.colour.name) not in self.colour.levels:
            return at
        aside = self.colour.levels.index(point[self.colour.name]) - (len(self.colour.levels) - 1) / 2
        if self.ratio is not None:
            return float(f"{at * self.ratio ** (aside * ASIDE):.9g}")
        return round(at + aside * self.step, 9)

    def along(self) -> Row:
        """The channel of the axis."""
        if self.numbers is None:
            levels, title = (self.axis.levels, self.axis.name) if self.axis else (None, None)
            return {
                "field": "x", "type": "ordinal", "title": title, "sort": list(levels) if levels is not None else None,
                "axis": {"labelAngle": 0, "labelLimit": 160}, "scale": {"paddingInner": 0.35, "paddingOuter": 0.25},
            }  # fmt: skip
        assert self.axis is not None
        title = f"{self.axis.name} ({self.shown.unit})" if self.shown.unit else self.axis.name
        ticks = {"values": self.numbers} if len(self.numbers) <= 12 else {}
        axis = {"labelExpr": NUMBERS, "labelOverlap": True, **ticks}
        if self.ratio is not None:
            scale = {"type": "log", "base": self.ratio, "nice": False, "padding": 16}
            return amount("x", f"{title}, logarithmic", scale=scale, axis=axis)
        return amount("x", title, scale={"nice": False, "zero": False, "padding": 16}, axis=axis)

    def tip(self) -> list[Row]:
        """The fields of the tooltip at every mark."""
        return [
            *([{"field": "level", "title": self.axis.name}] if self.axis else []),
            *([{"field": "colour", "title": self.colour.name}] if self.colour else []),
            *([{"field": "panel", "title": "panel"}] if self.panels.names else []),
        ]


def _ratio(ordered: Sequence[float]) -> float | None:
    """By what each of at least `EVENLY` numbers exceeds the one before, if that is the same at each step."""
    if len(ordered) < EVENLY or ordered[0] <= 0:
        return None
    ratio = float((ordered[-1] / ordered[0]) ** (1 / (len(ordered) - 1)))
    alike = all(math.isclose(after / before, ratio, rel_tol=0.01) for before, after in pairwise(ordered))
    return round(ratio, 2) if alike and ratio >= LEAST_RATIO else None


def _mean(cell: Cell, shown: Display) -> Row:
    estimate = cell.estimate
    if estimate is None:
        middle = sum(cell.present) / len(cell.present)
        says = f"{shown.text(middle)}, interval not estimable"
        return {"y": middle / shown.size, "says": says, "n": len(cell.present)}
    says = interval(estimate.low, estimate.point, estimate.high, shown)
    row: Row = {"y": estimate.point / shown.size, "says": says, "n": len(cell.present)}
    least = 0.0 if min(cell.present) >= 0 else -math.inf  # what cannot be negative is not drawn below zero
    for key, value in (("low", estimate.low), ("high", estimate.high)):
        if value is not None and math.isfinite(value):
            row[key] = max(value, least) / shown.size
    return row


def _published(result: Result, stage: _Stage, shown: Display) -> list[Row]:
    """A published number stands at each cell that it speaks of, once per place, unless the source leaves the axis
    open.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for number in result.published:
        if stage.axis and stage.axis.name not in number.point:
            continue
        free = [factor.name for factor in stage.factors if factor.name not in number.point]
        for cell in result.cells:
            if stage.panels.label(cell) not in stage.panels.labels or not number.is_of(cell.point):
                continue
            row = stage.place(cell) | {
                "y": (number.low + number.high) / 2 / shown.size,
                "low": number.low / shown.size,
                "high": number.high / shown.size,
                "says": number.text(shown),
                "source": number.source + (f" (any {', '.join(free)})" if free else ""),
            }
            rows.setdefault((row["x"], row.get("colour"), row.get("panel"), row["y"]), row)
    return list(rows.values())


def _layers(
    means: list[Row], runs: list[Row], published: list[Row], stage: _Stage, *, unit: str, ratio: bool
) -> list[Row]:
    ends = [row[key] for row in means + runs + published for key in ("y", "low", "high") if key in row]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    usual: Row = {"zero": ratio or (low >= 0 and low < 0.6 * high), "nice": True}
    y = amount("y", unit or "value", scale=scale_of_one(ends) or usual)
    upward = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    place: Row = {"x": stage.along(), "y": y}
    series, shape = {"color": one_colour("runs")}, {}
    if stage.colour:
        levels = list(stage.colour.levels)
        ramp = len(levels) > 4 and numeric_levels(levels) is not None
        by_colour = name("colour", stage.colour.name, levels, scale={"domain": levels})
        by_colour |= {"type": "ordinal" if ramp else "nominal"}
        series, shape = {"color": by_colour}, {"shape": by_colour}
        if stage.numbers is None:
            place["xOffset"] = {key: value for key, value in by_colour.items() if key != "title"} | {
                "type": "nominal"
            }
    whiskers = [row for row in means if "low" in row and "high" in row]
    ranges = [row for row in published if row["low"] != row["high"]]
    of_run, of_mean, of_source = (
        [*stage.tip(), *tips(*more)]
        for more in (
            (("says", "value"), ("run", "run")),
            (("says", "mean of runs"), ("n", "runs")),
            (("says", "published"), ("source", "source")),
        )
    )
    return [
        *([layer(means, "line", "trend", **place, **series)] if stage.numbers else []),
        layer(runs, "point", "run", **place, **series, tooltip=of_run),
        layer(whiskers, "rule", "whisker", **place | upward, **series),
        layer(means, "point", "mean", **place, **series, **shape, tooltip=of_mean),
        *([layer(ranges, "rule", "published-range", **place | upward)] if ranges else []),
        *(
            [layer(published, "point", "published", look={"shape": "diamond"}, **place, tooltip=of_source)]
            if published
            else []
        ),
    ]


def _subtitle(cells: Sequence[Cell], panels: Panels, *, has_published: bool) -> str:
    counts = sorted({len(cell.present) for cell in cells})
    if not counts:
        return "no run has a value"
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    level = next((cell.estimate.level for cell in cells if cell.estimate is not None), None)
    text = f"Mean of {runs} run{'' if counts == [1] else 's'} per setting"
    text += f" with its {level * 100:g} % interval" if level is not None else "; too few runs for an interval"
    text += "; small dots are single runs" + ("; open diamonds are published" if has_published else "")
    return text + (f"; {panels.left_out} more panels are in the table only" if panels.left_out else "")


def _alt(result: Result, cells: Sequence[Cell], x: str | None, shown: Display) -> str:
    path = f"{result.quantity.path}{result.quantity.qualifier}"
    if not cells:
        return f"No run has a value of {path}."
    middles = [(sum(cell.present) / len(cell.present), cell.point) for cell in cells]
    low, high = min(middles, key=lambda pair: pair[0]), max(middles, key=lambda pair: pair[0])

    def at(pair: tuple[float, Mapping[str, str]]) -> str:
        where = point_words(pair[1])
        return f"{shown.text(pair[0])}" + (f" at {where}" if where else "")

    by = f" by {x}" if x else ""
    return (
        f"Interval plot of {path}{by}: lowest {at(low)}; highest {at(high)}. "
        "The table below the plot holds every value."
    )
