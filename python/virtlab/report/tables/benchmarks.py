"""What the tests after a search measured, as one table, and the section of the page that holds it; pictures: `by_load`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.figures.load import mean_of
from virtlab.report.gather.searches import goals_beside
from virtlab.report.quantities import display
from virtlab.report.tables.table import Block, cell, head

if TYPE_CHECKING:
    from virtlab.report.figures.figure import Figure
    from virtlab.report.gather.model import Cell, Gathered, Result

LEADS = ("mean", "ratio")
SPREAD = {  # statistic -> its column in the table
    "min": "smallest", "max": "largest", "sd": "sd", "median": "median", "p90": "p90", "p99": "p99",
}  # fmt: skip


def tests_table(data: Gathered, role: str) -> Block | None:
    """A row per setting, test, load and flow, loads from the least up; None where nothing was tested.

    `mean` is over runs of what each run had as its mean over trials, with the interval; smallest, largest and sd are of
    trials, quantiles of the frames of all trials, averaged over runs. What no run could measure stands there too, with the
    reason.
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
    numbers = ["load", "runs", "mean", "low", "high", *SPREAD.values()]
    hows = {
        (value["metric"], value["part"], tuple(searched.point.items()), searched.realisation): value.get(
            "how", ""
        )
        for searched in data.searches
        if searched.role == role
        for value in searched.tests
    }
    rows: list[tuple[Any, ...]] = []
    for result in leads:
        quantity = result.quantity
        part, _, flow = quantity.role.partition(".")[2].partition(".")
        loads = _by_cell(by_path.get(f"{role}.{part}.tested_load.mean") if part else None)
        others = [_by_cell(by_path.get(f"{quantity.role}.{quantity.metric}.{one}")) for one in SPREAD]
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
            notes = [value.reason for value in one.values if value.reason]
            notes += [how] if (how := hows.get((quantity.metric, part, *_key(one)))) else []
            cells.append(cell("; ".join(dict.fromkeys(notes)), "text"))
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
    found = goals_beside([one for one in data.searches if one.role == role], first=True)
    return {
        "id": names.of_search("tests", role),
        "title": f"tests after the search ({len(rows)})",
        "caption": f"Tests of {role}: mean over runs with its interval; smallest, largest and sd over the trials of a run, "
        f"quantiles over the frames of all its trials. Loads at... are shares of what was found{found}",
        "head": head(*data.varying, "test", "at", "flow", *numbers, "note", numbers=numbers),
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
            cells += [cell("", "absent")] * (2 + len(SPREAD)) + [cell(value["reason"], "text")]
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
    at = mean_of(load) if load is not None and load.present else 0.0
    return (*levels, list(BENCHMARKS).index(metric), at, flow)


def _load_text(load: Cell | None) -> str:
    return display("bit/s", load.present).text(mean_of(load)) if load is not None and load.present else ""


def _other(one: Cell | None, text: Callable[[float], str]) -> Block:
    return cell(text(mean_of(one)), "number") if one is not None and one.present else cell("", "absent")


def _value_cells(one: Cell, text: Callable[[float], str]) -> list[Block]:
    if not one.present:
        return [cell("no value", "absent"), cell("", "absent"), cell("", "absent")]
    ends = (one.estimate.low, one.estimate.high) if one.estimate is not None else (None, None)
    return [
        cell(text(mean_of(one)), "number"),
        *(cell("not estimable", "absent") if end is None else cell(text(end), "number") for end in ends),
    ]


def section(data: Gathered, role: str, figures: Sequence[Figure], pictures: Any) -> Block:
    """The section of the page: the search trial by trial, and the tests after it."""
    from markupsafe import Markup

    from virtlab.report.figures import theme
    from virtlab.report.gather.searches import trials_table

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
