"""What the tests after a search measured, as pictures and one table: delay against load, loss against load, the rest.

Loads of the latency test are parts of what each run found, so their place on the axis is the mean of the loads that were
really tested. Values are run-level: a mark is the mean over runs with its interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.curves import main_factor
from virtlab.report.figure import (
    MAXIMUM_PANELS,
    REALISATION,
    Figure,
    Row,
    arrange,
    panel_label,
    panel_labels,
)
from virtlab.report.quantities import Display, display
from virtlab.report.tables import Block, cell, head

if TYPE_CHECKING:
    from virtlab.report.model import Cell, Factor, Gathered, Result

AT = re.compile(r"(at|rate)[\d_]+\Z")  # loads of the latency test
DOWN = re.compile(r"max[\d_]+\Z")  # loads of the frame-loss test
WIDE = 20.0  # loads further apart than this stand on a logarithmic axis
LEADS = ("mean", "ratio")
PAIR_STATISTICS = {"latency": "mean", "split_latency": "mean", "frame_loss": "ratio", "tested_load": "mean"}


def tested_roles(data: Gathered) -> list[str]:
    """Roles that were searched or tested."""
    searched = [one.role for one in data.searches]
    return list(dict.fromkeys(searched))


def benchmark_figures(data: Gathered, *, split: bool) -> list[Figure]:
    """Delay against load and loss against load of every role that has them."""
    found = []
    for role in tested_roles(data):
        combined = _series(data, role, AT, "split_latency")
        delays = combined or _series(data, role, AT, "latency")
        what = "Combined latency" if combined else "Latency"
        if delays:
            found.append(
                _figure(
                    names.latency_plot(role),
                    f"{what} of {role} by load",
                    delays,
                    role,
                    data.factors,
                    split=split,
                )
            )
        losses = _series(data, role, DOWN, "frame_loss")
        if losses:
            title = f"Frame loss rate of {role} by load"
            found.append(_figure(names.frame_loss_plot(role), title, losses, role, data.factors, split=split))
    return found


Pair = tuple["Cell", "Cell"]  # of the load, of the value


def _series(data: Gathered, role: str, part: re.Pattern[str], metric: str) -> list[tuple[Result, list[Pair]]]:
    """Cells of a metric at each load of a role with those of the load itself, from the least load up."""
    by_path = {result.quantity.path: result for result in data.results}
    found = []
    for result in data.results:
        quantity = result.quantity
        own, _, name = quantity.role.partition(".")
        if own != role or not part.match(name) or quantity.metric != metric:
            continue
        if quantity.statistic != PAIR_STATISTICS[metric]:
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


def _mean(one: Cell) -> float:
    return sum(one.present) / len(one.present)


def _figure(
    name: str,
    title: str,
    series: list[tuple[Result, list[Pair]]],
    role: str,
    factors: Sequence[Factor],
    *,
    split: bool,
) -> Figure:
    colour = main_factor(factors)
    panels = [factor.name for factor in factors if factor is not colour] + ([REALISATION] if split else [])
    unit = series[0][0].quantity.unit
    loads = [_mean(load) for _, pairs in series for load, _ in pairs]
    x_shown = display("bit/s", loads)
    y_shown = display(unit, [_mean(one) for _, pairs in series for _, one in pairs])

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
                "x": _mean(load) / x_shown.size, "y": _mean(one) / y_shown.size, "panel": label(one),
                "colour": one.point.get(colour.name, "") if colour else "runs", "runs": len(one.present),
                "at": result.quantity.role.partition(".")[2],
            }  # fmt: skip
            for key in ("low", "high"):
                end = getattr(one.estimate, key) if one.estimate is not None else None
                if end is not None and math.isfinite(end):
                    row[key] = max(0.0, end) / y_shown.size
            rows.append(row)
    wide = min(loads) > 0 and max(loads) > WIDE * min(loads)
    spec = _spec(rows, labels, colour, x_shown, y_shown, wide=wide)
    ends = sorted(rows, key=lambda row: row["x"])
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
    *,
    wide: bool,
) -> Row:
    series: Row = {"color": {"datum": "runs", "type": "nominal", "legend": None}}
    if colour is not None:
        levels = list(colour.levels)
        series = {
            "color": {
                "field": "colour", "type": "nominal", "title": colour.name, "sort": levels, "scale": {"domain": levels},
            }
        }  # fmt: skip
    x = {
        "field": "x", "type": "quantitative",
        "title": f"load ({x_shown.unit}{', logarithmic' if wide else ''})",
        "scale": {"type": "log", "nice": False} if wide else {"zero": True},
    }  # fmt: skip
    y = {"field": "y", "type": "quantitative", "title": y_shown.unit or "value", "scale": {"zero": True}}
    tooltip = [
        *([{"field": "colour", "title": colour.name, "type": "nominal"}] if colour else []),
        {"field": "at", "title": "load", "type": "nominal"},
        {"field": "x", "title": x_shown.unit or "load", "type": "quantitative", "format": ".5~g"},
        {"field": "y", "title": y_shown.unit or "value", "type": "quantitative", "format": ".5~g"},
        {"field": "runs", "title": "runs", "type": "quantitative"},
    ]
    whiskers = [row for row in rows if "low" in row and "high" in row]
    layers: list[Row] = [
        {"data": {"values": rows}, "mark": {"type": "line", "style": "curve"}, "encoding": {"x": x, "y": y, **series}},
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


def tests_table(data: Gathered, role: str) -> Block | None:
    """A row per setting, test, load and flow, loads from the least up; None where nothing was tested.

    `mean` is over runs of what each run had as its mean over trials, with the interval; smallest, largest and sd are of
    trials, averaged over runs. What no run could measure stands there too, with the reason.
    """
    by_path = {result.quantity.path: result for result in data.results}
    leads = [
        result
        for result in data.results
        if result.quantity.metric in BENCHMARKS
        and result.quantity.role.partition(".")[0] == role
        and result.quantity.statistic in LEADS
        and result.quantity.metric != "tested_load"
    ]
    numbers = ["load", "runs", "mean", "low", "high", "smallest", "largest", "sd"]
    rows: list[tuple[Any, ...]] = []
    for result in leads:
        quantity = result.quantity
        part, _, flow = quantity.role.partition(".")[2].partition(".")
        loads = _by_cell(by_path.get(f"{role}.{part}.tested_load.mean") if part else None)
        others = [
            _by_cell(by_path.get(f"{quantity.role}.{quantity.metric}.{one}")) for one in ("min", "max", "sd")
        ]
        for one in result.cells:
            load = loads.get(_key(one))
            text = display(quantity.unit, one.present).text
            cells = [
                *(cell(one.point.get(name, "")) for name in data.varying),
                *_named(quantity.metric, part, flow),
            ]
            cells += [cell(_load_text(load), "number"), cell(str(len(one.present)), "number")]
            cells += _value_cells(one, text)
            cells += [_other(found.get(_key(one)), text) for found in others]
            cells.append(
                cell("; ".join(dict.fromkeys(value.reason for value in one.values if value.reason)), "text")
            )
            rows.append(
                (
                    _order(data, one.point, quantity.metric, load, flow),
                    {"cells": cells, "out": not one.present},
                )
            )
    rows += _absent(data, role, {result.quantity.path for result in leads})
    if not rows:
        return None
    rows.sort(key=lambda row: row[0])
    return {
        "id": names.tests_table(role),
        "title": f"tests after the search ({len(rows)})",
        "caption": f"Tests of {role}: mean over runs with its interval; smallest, largest and sd over the trials of a run",
        "head": head(*data.varying, "test", "at", "flow", *numbers, "why not", numbers=numbers),
        "rows": [row for _, row in rows],
    }


def _absent(data: Gathered, role: str, present: set[str]) -> list[tuple[Any, ...]]:
    """Rows of what no run of any setting could measure, with the reason that the first run of each setting gives."""
    by_path = {result.quantity.path: result for result in data.results}
    rows: list[tuple[Any, ...]] = []
    for searched in data.searches:
        for value in searched.tests if searched.role == role else ():
            part, metric, flow = value["part"], value["metric"], value["flow"]
            name = searched.flows[flow] if flow is not None else ""
            owner = ".".join(one for one in (role, part, name) if one)
            if value["value"] is not None or value["statistic"] not in LEADS or metric == "tested_load":
                continue
            if f"{owner}.{metric}.{value['statistic']}" in present:
                continue
            loads = _by_cell(by_path.get(f"{role}.{part}.tested_load.mean") if part else None)
            load = loads.get((tuple(searched.point.items()), searched.realisation))
            cells = [
                *(cell(searched.point.get(one, "")) for one in data.varying),
                *_named(metric, part, name),
            ]
            cells += [cell(_load_text(load), "number"), cell("0", "number"), cell("no value", "absent")]
            cells += [cell("", "absent")] * 5 + [cell(value["reason"], "text")]
            rows.append((_order(data, searched.point, metric, load, name), {"cells": cells, "out": True}))
    return rows


def _key(one: Cell) -> tuple[Any, ...]:
    return tuple(one.point.items()), one.realisation


def _by_cell(result: Result | None) -> dict[tuple[Any, ...], Cell]:
    return {_key(one): one for one in (result.cells if result else ())}


def _named(metric: str, part: str, flow: str) -> list[Block]:
    return [cell(METRICS[metric].title(), "text"), cell(part or "—"), cell(flow or "—")]


def _order(data: Gathered, point: Any, metric: str, load: Cell | None, flow: str) -> tuple[Any, ...]:
    """Settings in the order of their levels, tests in that of the RFC, loads from the least up, then flows."""
    levels = tuple(
        factor.levels.index(point[factor.name]) if point.get(factor.name) in factor.levels else -1
        for factor in data.factors
    )
    at = _mean(load) if load is not None and load.present else 0.0
    return (*levels, list(BENCHMARKS).index(metric), at, flow)


def _load_text(load: Cell | None) -> str:
    return display("bit/s", load.present).text(_mean(load)) if load is not None and load.present else ""


def _other(one: Cell | None, text: Callable[[float], str]) -> Block:
    return cell(text(_mean(one)), "number") if one is not None and one.present else cell("", "absent")


def _value_cells(one: Cell, text: Callable[[float], str]) -> list[Block]:
    if not one.present:
        return [cell("no value", "absent"), cell("", "absent"), cell("", "absent")]
    ends = (one.estimate.low, one.estimate.high) if one.estimate is not None else (None, None)
    return [
        cell(text(_mean(one)), "number"),
        *(cell("not estimable", "absent") if end is None else cell(text(end), "number") for end in ends),
    ]


def section(data: Gathered, role: str, figures: Sequence[Figure], pictures: Any) -> Block:
    """The section of the page: the search trial by trial, and the tests after it."""
    from markupsafe import Markup

    from virtlab.report import theme
    from virtlab.report.searched import trials_table

    drawn = [
        figure for figure in figures if figure.group == names.search_section(role) or _is_of(figure, role)
    ]
    tested = tests_table(data, role)
    return {
        "id": names.slug(f"results {names.search_section(role)}"),
        "title": f"Search of {role}" + (", and the tests after it" if tested else ""),
        "short": f"search of {role}",
        "about": "Which loads were tried, what came of each, and how the bounds closed in. Without its goal what was found "
        "means nothing; it stands in the title of each such number.",
        "figures": [
            {
                "name": figure.name,
                "title": figure.title,
                "subtitle": figure.subtitle,
                "alt": figure.alt,
                "empty": figure.empty,
                "tab": figure.title,
                "svg": Markup(theme.themable(pictures.get(figure.name, ""))),  # noqa: S704 - Vega escapes its text
            }
            for figure in drawn
        ],
        "table": None,
        "tables": [*([tested] if tested else []), trials_table(role, data.searches, data.varying)],
        "nested": [],
    }


def _is_of(figure: Figure, role: str) -> bool:
    """An interval plot of a benchmark metric that was asked for or claimed."""
    own, _, metric = figure.group.rpartition(".")
    return metric in BENCHMARKS and own.partition(".")[0] == role
