"""Delay against load and loss against load, of the tests after a search, as pictures.

Loads of the latency test are parts of what each run found, so their place on the axis is the mean of the loads that were
really tested. Values are run-level: a mark is the mean over runs with its interval. Quantiles of delay have a picture of
their own, one kind of line each: a mean can stand still while the tail moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from virtlab.report import names
from virtlab.report.figures.distributions import main_factor
from virtlab.report.figures.figure import (
    MAXIMUM_PANELS,
    REALISATION,
    Figure,
    Row,
    arrange,
    panel_label,
    panel_labels,
)
from virtlab.report.quantities import Display, display

if TYPE_CHECKING:
    from virtlab.report.gather.model import Cell, Factor, Gathered, Result

AT = re.compile(r"(at|rate)[\d_]+\Z")  # loads of the latency test
DOWN = re.compile(r"max[\d_]+\Z")  # loads of the frame-loss test
WIDE = 20.0  # loads further apart than this stand on a logarithmic axis
QUANTILES = ("median", "p90", "p99")
DASHES = ([1, 0], [6, 3], [2, 2])  # of the lines of quantiles
Pair = tuple["Cell", "Cell"]  # of the load, of the value
Series = list[tuple["Result", list[Pair]]]


def tested_roles(data: Gathered) -> list[str]:
    """Roles that were searched or tested."""
    return list(dict.fromkeys(one.role for one in data.searches))


def benchmark_figures(data: Gathered, *, split: bool) -> list[Figure]:
    """Delay against load, its quantiles, and loss against load, of every role that has them."""
    found = []
    for role in tested_roles(data):
        combined = _series(data, role, AT, "split_latency", "mean")
        delays = combined or _series(data, role, AT, "latency", "mean")
        what = "Combined latency" if combined else "Latency"
        quantiles = [one for name in QUANTILES for one in _series(data, role, AT, "latency", name)]
        losses = _series(data, role, DOWN, "frame_loss", "ratio")
        for name, title, series in (
            (names.by_load("latency", role), f"{what} of {role} by load", delays),
            (names.by_load("latency quantiles", role), f"Quantiles of latency of {role} by load", quantiles),
            (names.by_load("frame loss", role), f"Frame loss rate of {role} by load", losses),
        ):
            if series:
                goal = next((one.quantity.beside for one, _ in series if one.quantity.goal), "")
                found.append(_figure(name, title + goal, series, role, data.factors, split=split))
    return found


def _series(data: Gathered, role: str, part: re.Pattern[str], metric: str, statistic: str) -> Series:
    """Cells of a metric at each load of a role with those of the load itself, from the least load up."""
    by_path = {result.quantity.path: result for result in data.results}
    found = []
    for result in data.results:
        quantity = result.quantity
        own, _, name = quantity.role.partition(".")
        if (
            own != role
            or not part.match(name)
            or (quantity.metric, quantity.statistic) != (metric, statistic)
        ):
            continue
        loads = by_path.get(f"{quantity.role}.tested_load.mean")
        at = {(tuple(one.point.items()), one.realisation): one for one in (loads.cells if loads else ())}
        pairs = [
            (load, one)
            for one in result.cells
            if one.present
            and (load := at.get((tuple(one.point.items()), one.realisation))) is not None
            and load.present
        ]
        if pairs:
            found.append((result, pairs))
    return found


def mean_of(one: Cell) -> float:
    """Mean over the runs that have a value."""
    return sum(one.present) / len(one.present)


def _figure(
    name: str,
    title: str,
    series: Series,
    role: str,
    factors: Sequence[Factor],
    *,
    split: bool,
) -> Figure:
    colour = main_factor(factors)
    panels = [factor.name for factor in factors if factor is not colour] + ([REALISATION] if split else [])
    unit = series[0][0].quantity.unit
    loads = [mean_of(load) for _, pairs in series for load, _ in pairs]
    x_shown = display("bit/s", loads)
    y_shown = display(unit, [mean_of(one) for _, pairs in series for _, one in pairs])

    def label(one: Cell) -> str:
        return panel_label({**one.point, REALISATION: one.realisation}, panels)

    labels = panel_labels(factors, panels, (label(one) for _, pairs in series for _, one in pairs))[
        :MAXIMUM_PANELS
    ]
    rows: list[Row] = []
    for result, pairs in series:
        for load, one in pairs:
            if label(one) not in labels:
                continue
            row: Row = {
                "x": mean_of(load) / x_shown.size, "y": mean_of(one) / y_shown.size, "panel": label(one),
                "colour": one.point.get(colour.name, "") if colour else "runs", "runs": len(one.present),
                "at": result.quantity.role.partition(".")[2], "statistic": result.quantity.statistic,
            }  # fmt: skip
            for key in ("low", "high"):
                end = getattr(one.estimate, key) if one.estimate is not None else None
                if end is not None and math.isfinite(end):
                    row[key] = max(0.0, end) / y_shown.size
            rows.append(row)
    spec = _spec(rows, labels, colour, x_shown, y_shown)
    ends = sorted(rows, key=lambda row: (row["x"], row["y"]))
    return Figure(
        name=name,
        title=title,
        subtitle="Mean of the runs at each load tested, with the interval of the mean where several runs were made",
        alt=f"{title}. At the least load, {ends[0]['x']:.4g} {x_shown.unit}: {ends[0]['y']:.4g} {y_shown.unit}; at the "
        f"greatest, {ends[-1]['x']:.4g} {x_shown.unit}: {ends[-1]['y']:.4g} {y_shown.unit}.",
        spec=spec,
        group=names.search_section(role),
        statistic="by load",
        x="load",
    )


def _spec(
    rows: list[Row],
    labels: Sequence[str],
    colour: Factor | None,
    x_shown: Display,
    y_shown: Display,
) -> Row:
    kinds = [one for one in QUANTILES if any(row["statistic"] == one for row in rows)]
    series: Row = {"color": {"datum": "runs", "type": "nominal", "legend": None}}
    if colour is not None:
        levels = list(colour.levels)
        series = {
            "color": {
                "field": "colour", "type": "nominal", "title": colour.name, "sort": levels, "scale": {"domain": levels},
            }
        }  # fmt: skip
    dashes = {}
    if kinds:
        scale = {"domain": kinds, "range": [DASHES[QUANTILES.index(one)] for one in kinds]}
        dashes = {
            "strokeDash": {"field": "statistic", "type": "nominal", "title": "quantile", "scale": scale}
        }
    x = _axis("x", "load", x_shown, rows)
    y = _axis("y", "", y_shown, rows if kinds else ())
    tooltip = [
        *([{"field": "statistic", "title": "quantile", "type": "nominal"}] if kinds else []),
        *([{"field": "colour", "title": colour.name, "type": "nominal"}] if colour else []),
        {"field": "at", "title": "load", "type": "nominal"},
        {"field": "x", "title": x_shown.unit or "load", "type": "quantitative", "format": ".5~g"},
        {"field": "y", "title": y_shown.unit or "value", "type": "quantitative", "format": ".5~g"},
        {"field": "runs", "title": "runs", "type": "quantitative"},
    ]
    whiskers = [row for row in rows if "low" in row and "high" in row]
    layers: list[Row] = [
        {
            "data": {"values": rows}, "mark": {"type": "line", "style": "curve"},
            "encoding": {"x": x, "y": y, **series, **dashes},
        },
        {
            "data": {"values": whiskers}, "mark": {"type": "rule", "style": "whisker"},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, **series},
        },
        {
            "data": {"values": rows}, "mark": {"type": "point", "style": "mean"},
            "encoding": {"x": x, "y": y, **series, "tooltip": tooltip},
        },
    ]  # fmt: skip
    return arrange(layers, labels if len(labels) > 1 else (), height=280 if len(labels) <= 1 else 200)


def _axis(field: str, what: str, shown: Display, rows: Sequence[Row]) -> Row:
    """An axis, logarithmic where the values of `rows` lie far apart."""
    values = [row[field] for row in rows]
    wide = bool(values) and min(values) > 0 and max(values) > WIDE * min(values)
    unit = (shown.unit or "value") + (", logarithmic" if wide else "")
    scale: Row = {"type": "log", "nice": False} if wide else {"zero": True}
    return {
        "field": field, "type": "quantitative", "title": f"{what} ({unit})" if what else unit, "scale": scale,
    }  # fmt: skip
