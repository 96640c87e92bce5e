"""The results as sections of the page: what the workloads are for first, then what else they say, then the
measuring itself.

A section is a deck of plots (one visible, tabs for the others) with the tables behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.figures import load, theme
from virtlab.report.figures.classes import GROUP as CLASSES
from virtlab.report.figures.cores import GROUP as CORES
from virtlab.report.figures.figure import Figure
from virtlab.report.figures.selection import HEALTH, LEADING, PRIMARY, lead
from virtlab.report.gather.histograms import buckets_table
from virtlab.report.gather.model import Gathered, Result
from virtlab.report.gather.recurrence import components_table
from virtlab.report.quantities import display
from virtlab.report.tables import benchmarks
from virtlab.report.tables.estimates import settings_table, values_table
from virtlab.report.tables.table import Block, cell, head
from virtlab.report.words import plural

Groups = dict[str, list[Result]]  # ROLE.METRIC -> its results by statistic


def metric_sections(data: Gathered, figures: Sequence[Figure], pictures: Mapping[str, str]) -> list[Block]:
    """Every section of results, in the order of the page."""
    groups: Groups = {}
    for result in data.results:
        if result.quantity.metric in BENCHMARKS and data.searches:
            continue  # they stand with their search
        groups.setdefault(f"{result.quantity.role}.{result.quantity.metric}", []).append(result)
    tiers: dict[str, Groups] = {"primary": {}, "further": {}, "health": {}}
    for path, results in groups.items():
        tiers[_tier(results[0], any(figure.group == path for figure in figures))][path] = results
    blocks = [
        _section(data, path, {path: results}, figures, pictures) for path, results in tiers["primary"].items()
    ]
    for role in dict.fromkeys(results[0].quantity.role for results in tiers["further"].values()):
        mine = {path: found for path, found in tiers["further"].items() if found[0].quantity.role == role}
        blocks.append(_section(data, role, mine, figures, pictures))
    blocks += [benchmarks.section(data, role, figures, pictures) for role in load.tested_roles(data)]
    queued = _drawn([one for one in figures if one.group == CLASSES], pictures, several=False)
    if queued:
        blocks.append(_classes(queued))
    if tiers["health"]:
        drawn = _drawn([one for one in figures if one.group == CORES], pictures, several=False)
        blocks.append(_health(data, tiers["health"], drawn))
    return blocks


def _tier(result: Result, drawn: bool) -> str:
    metric = METRICS[result.quantity.metric]
    if metric.of == "entity" or (metric.key in HEALTH and not drawn):
        return "health" if not drawn else "further"
    return "primary" if metric.key in PRIMARY else "further"


def _section(
    data: Gathered, key: str, groups: Groups, figures: Sequence[Figure], pictures: Mapping[str, str]
) -> Block:
    several = len(groups) > 1 or next(iter(groups)) != key
    drawn = [figure for path in groups for figure in figures if figure.group == path]
    tables = []
    for path, results in groups.items():
        wanted = {figure.statistic for figure in drawn if figure.group == path} | set(LEADING)
        prefix = f"{path.removeprefix(key + '.')}: " if several else ""
        shown = [
            one for one in results if one.quantity.statistic in wanted or one.quantity.path in data.claimed
        ]
        for one in shown if not several else [one for one in shown if _is_lead(one)]:
            tables.append(_titled(settings_table(data, one), prefix))
        tables += [
            _titled(components_table(data, one), prefix)
            for one in data.recurring
            if f"{one.role}.{one.metric}" == path
        ]
        tables += [
            _titled(buckets_table(data, one), prefix)
            for one in data.histograms
            if f"{one.role}.{one.metric}" == path
        ]
        tables.append(_titled(values_table(data, path, results), prefix))
    first = next(iter(groups.values()))[0].quantity
    title = (
        f"More on {key}"
        if several
        else f"{_capital(first.title or first.metric)} of {first.role}{first.beside}"
    )
    return {
        "id": names.slug(f"results {key}"),
        "title": title,
        "short": f"{key}, more" if several else key,
        "about": " ".join(
            part
            for part in (_about(groups, {figure.group for figure in drawn}), data.wire.get(first.role))
            if part
        ),
        "figures": _drawn(drawn, pictures, several=several),
        "table": None,
        "tables": tables,
        "nested": [],
    }


def _drawn(figures: Sequence[Figure], pictures: Mapping[str, str], *, several: bool) -> list[Block]:
    from markupsafe import Markup

    return [
        {
            "name": figure.name,
            "title": figure.title,
            "subtitle": figure.subtitle,
            "alt": figure.alt,
            "empty": figure.empty,
            "tab": _tab(figure, several=several),
            "svg": Markup(theme.themable(pictures.get(figure.name, ""))),  # noqa: S704 - Vega escapes its text
        }
        for figure in figures
    ]


def _is_lead(result: Result) -> bool:
    return result.quantity.statistic == lead(METRICS[result.quantity.metric].statistics)


def _titled(block: Block, prefix: str) -> Block:
    return {**block, "title": prefix + block["title"]}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tab(figure: Figure, *, several: bool) -> str:
    by = f" by {figure.x}" if figure.x else ""
    if not several:
        return figure.statistic + by
    return f"{METRICS[figure.group.rpartition('.')[2]].title()}, {figure.statistic}{by}"


def _about(groups: Groups, drawn: set[str]) -> str:
    """The definition, and in words what is not drawn because it never changed."""
    definition = (
        METRICS[next(iter(groups.values()))[0].quantity.metric].definition if len(groups) == 1 else ""
    )
    same = [
        says for path, results in groups.items() if path not in drawn and (says := _constant(path, results))
    ]
    return " ".join(part for part in (definition, *same) if part)


def _constant(path: str, results: Sequence[Result]) -> str:
    leading = next((one for one in results if _is_lead(one)), results[0])
    values = {value for one in leading.cells for value in one.present}
    runs = sum(len(one.present) for one in leading.cells)
    if not values:
        return f"No run has a value of `{path}`; that is not zero."
    if len(values) == 1:
        shown = display(leading.quantity.unit, values)
        return f"`{path}` was {shown.text(values.pop())} in all of {plural(runs, 'run')}."
    return ""


def _classes(drawn: list[Block]) -> Block:
    """Waits and drops by class; their table stands with the conditions."""
    return {
        "id": "queues",
        "title": "Classes of queues",
        "short": "classes",
        "about": "How long frames of each class waited and which share was dropped, in the directions in which it was "
        "worst. Every direction is in the table under the conditions.",
        "figures": drawn,
        "table": None,
        "tables": [],
        "nested": [],
    }


def _health(data: Gathered, groups: Groups, drawn: list[Block]) -> Block:
    """What the measuring says of itself: one row per path, the spread over runs; roles' values per run below.

    Counters of hosts, guests and links that stayed zero are told in a sentence.
    """
    rows, zero = [], 0
    for results in groups.values():
        for one in results:
            values = sorted(value for each in one.cells for value in each.present)
            if not values:
                continue
            if METRICS[one.quantity.metric].of == "entity" and values[0] == values[-1] == 0:
                zero += 1
                continue
            ends = (values[0], values[len(values) // 2], values[-1])
            numbers = [display(one.quantity.unit, [value]).text(value) for value in ends]
            cells = [cell(one.quantity.path, "text"), cell(f"{one.quantity.title}{one.quantity.beside}")]
            cells += [cell(text, "number") for text in (*numbers, str(len(values)))]
            rows.append({"cells": cells, "out": False})
    heads = ["smallest", "median", "largest", "runs"]
    caption = "Values of runs: smallest, median and largest over all settings"
    quiet = f" {plural(zero, 'counter')} of hosts, guests and links stayed zero in every run." if zero else ""
    of_roles = {
        path: found for path, found in groups.items() if METRICS[found[0].quantity.metric].of == "role"
    }
    return {
        "id": "health",
        "title": "Health of the measurement",
        "short": "health",
        "about": "What probes, machine and queues say of the measuring itself: late packets, stalls, drops at the "
        f"probe's own buffers, CPU. They say whether the numbers above may be believed.{quiet}",
        "figures": drawn,
        "table": {"head": head("what", "meaning", *heads, numbers=heads), "rows": rows, "caption": caption},
        "tables": [],
        "nested": [
            _titled(values_table(data, path, results), f"{path}: ") for path, results in of_roles.items()
        ],
    }
