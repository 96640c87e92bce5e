"""The section of a report that puts sources beside each other: plots coloured by source, and the differences as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report import names
from virtlab.report.figures import theme
from virtlab.report.figures.distributions import main_factor
from virtlab.report.figures.figure import Figure
from virtlab.report.figures.intervals import interval_figure
from virtlab.report.figures.selection import LEADING, PRIMARY, lead
from virtlab.report.gather.comparison import Beside, Pair, source_factor
from virtlab.report.gather.model import Gathered
from virtlab.report.quantities import Display, display, interval
from virtlab.report.tables.estimates import published_words
from virtlab.report.tables.table import Block, cell, head

GROUP = "beside"
BOUND = "bound"
JITTER = frozenset({("rtt", "mdev"), ("jitter_rfc3550", "final")})


def plot_name(one: Beside) -> str:
    """The name of a plot of several sources."""
    return names.slug(f"beside {one.quantity.path}")


def shown(data: Gathered) -> list[Beside]:
    """What is drawn: delay, jitter, throughput and whatever a claim speaks about; the rest is in tables nowhere."""
    from virtlab.metrics import METRICS

    found = []
    for one in data.beside:
        quantity = one.quantity
        metric = METRICS.get(quantity.metric)
        if metric is None or metric.of == "entity":
            continue
        leading = quantity.statistic == lead(metric.statistics) or quantity.statistic in LEADING
        delay = (quantity.metric in PRIMARY and leading) or (quantity.metric, quantity.statistic) in JITTER
        bounded = any(label == BOUND for label in one.labels)
        if delay or bounded or quantity.path in data.claimed:
            found.append(one)
    return found


def beside_figures(data: Gathered) -> list[Figure]:
    """An interval plot per quantity: source is the colour, the main factor the axis, the rest panels."""
    from dataclasses import replace

    main = main_factor(data.factors)
    found = []
    for one in shown(data):
        factors = [source_factor(one), *data.factors]
        x = main.name if main is not None else None
        figure = interval_figure(plot_name(one), one.result, factors, x, split=False)
        title = f"{figure.title}, several sources"
        found.append(replace(figure, group=GROUP, title=title))
    return found


def beside_section(data: Gathered, figures: Sequence[Figure], pictures: Mapping[str, str]) -> Block | None:
    """The section; None where nothing stands beside."""
    from markupsafe import Markup

    if not data.beside:
        return None
    drawn = [figure for figure in figures if figure.group == GROUP]
    chosen = shown(data)
    sources = list(dict.fromkeys(label for one in chosen for label in one.labels))
    return {
        "id": "beside",
        "title": "Several sources beside each other",
        "short": "several sources",
        "about": f"{', '.join(sources)}{' and published numbers' if _published(chosen) else ''}: setting by setting, never "
        "pooled. A difference is the other source less the first, with Welch's interval over independent runs.",
        "figures": [
            {
                "name": figure.name, "title": figure.title, "subtitle": figure.subtitle, "alt": figure.alt,
                "empty": figure.empty,
                "tab": one.quantity.path,
                "svg": Markup(theme.themable(pictures.get(figure.name, ""))),  # noqa: S704 - Vega escapes its text
            }
            for figure, one in zip(drawn, chosen, strict=True)
        ],
        "table": None,
        "tables": [difference_table(data, one) for one in chosen],
        "nested": [],
    }  # fmt: skip


def _published(chosen: Sequence[Beside]) -> bool:
    return any(one.result.published for one in chosen)


def difference_table(data: Gathered, one: Beside) -> Block:
    """One row per setting and source beside the reference."""
    values = [value for each in one.result.cells for value in each.present]
    unit = display(one.quantity.unit, values)
    published = bool(one.result.published)
    split = len({pair.reference.realisation for pair in one.pairs}) > 1
    numbers = [one.reference, "other", "difference", "relative"]
    columns = [
        *data.varying,
        *(["links"] if split else []),
        one.reference,
        "source",
        "other",
        "difference",
        "relative",
    ]
    rows = []
    for pair in one.pairs:
        cells = [cell(pair.point.get(name, "")) for name in data.varying]
        cells += [cell(pair.reference.realisation)] if split else []
        cells += [
            cell(_mean(pair.reference, unit), "number"),
            cell(pair.label),
            cell(_mean(pair.other, unit), "number"),
        ]
        cells += [cell(_difference(pair, unit), "number"), cell(relative_text(pair), "number")]
        if published:
            cells.append(cell(published_words(_own(one), pair.point), "text"))
        rows.append({"cells": cells, "out": False})
    return {
        "id": names.slug(f"differences of {one.quantity.path}"),
        "title": f"{one.quantity.path}: differences",
        "caption": f"{one.quantity.path}: means of runs with their intervals, and other less {one.reference}",
        "head": head(*columns, *(["published"] if published else []), numbers=numbers),
        "rows": rows,
    }


def _own(one: Beside) -> Any:
    from dataclasses import replace

    from virtlab.report.gather.comparison import SOURCE

    plain = tuple(
        replace(number, point={key: level for key, level in number.point.items() if key != SOURCE})
        for number in one.result.published
    )
    return replace(one.result, published=plain)


def _mean(one: Any, unit: Display) -> str:
    estimate = one.estimate
    if estimate is None:
        return unit.text(sum(one.present) / len(one.present))
    return interval(estimate.low, estimate.point, estimate.high, unit)


def _difference(pair: Pair, unit: Display) -> str:
    found = pair.difference
    return "not estimable" if found is None else interval(found.low, found.point, found.high, unit)


def relative_text(pair: Pair) -> str:
    """The difference as a signed share."""
    if pair.relative is None:
        return "—"
    return f"{pair.relative * 100:+.1f} %".replace("-", "\N{MINUS SIGN}")


def beside_json(data: Gathered) -> list[dict[str, Any]]:
    """Every pair of every quantity, for programs."""
    from virtlab.report.page.terminal import numbers_of

    return [
        {
            "path": one.quantity.path, "unit": one.quantity.unit, "goal": one.quantity.goal or None,
            "point": dict(pair.point),
            "reference": one.reference if len({each.reference.realisation for each in one.pairs}) == 1
            else pair.reference.realisation,
            "source": pair.label,
            "reference_estimate": numbers_of(pair.reference.estimate),
            "estimate": numbers_of(pair.other.estimate), "difference": numbers_of(pair.difference),
            "relative": pair.relative,
        }
        for one in data.beside
        for pair in one.pairs
    ]  # fmt: skip


def beside_lines(data: Gathered) -> list[str]:
    """The median relative difference of each quantity that is drawn, per source, for the terminal."""
    from statistics import median

    lines = []
    for one in shown(data):
        for label in dict.fromkeys(pair.label for pair in one.pairs):
            mine = [pair for pair in one.pairs if pair.label == label]
            shares = [abs(pair.relative) for pair in mine if pair.relative is not None]
            if shares:
                text = f"median difference {median(shares) * 100:.1f} % over {len(shares)} settings"
                lines.append(f"{one.quantity.path}: {label} beside {one.reference}, {text}")
    return lines
