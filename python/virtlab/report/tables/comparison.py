"""The dataset beside another source: the difference of each setting, as a table, for programs and for the terminal."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from virtlab.report import names
from virtlab.report.gather.contrasts.comparison import SOURCE, worth_drawing
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Comparison, Pair
from virtlab.report.tables.estimates import published_words
from virtlab.report.tables.table import Block, Column, number, setting_columns, table, text
from virtlab.units import Display, display, interval


def difference_table(data: Gathered, comparison: Comparison) -> Block:
    """One row per setting and source beside the reference."""
    unit = display(
        comparison.quantity.unit, [value for cell in comparison.result.cells for value in cell.present]
    )
    path = comparison.quantity.path
    own = [
        replace(each, point={k: v for k, v in each.point.items() if k != SOURCE})
        for each in comparison.result.published
    ]
    stated = replace(comparison.result, published=tuple(own))
    return table(
        [
            *setting_columns(
                data.design.varying,
                [pair.reference for pair in comparison.pairs],
                lambda pair: pair.reference,
            ),
            number(comparison.reference, lambda pair: _mean(pair.reference, unit)),
            Column("source", lambda pair: pair.label),
            number("other", lambda pair: _mean(pair.other, unit)),
            number("difference", lambda pair: _difference(pair, unit)),
            number("relative", relative_text),
            *([text("published", lambda pair: published_words(stated, pair.point))] if own else []),
        ],
        comparison.pairs,
        name=names.slug(f"differences of {path}"),
        title=f"{path}: differences",
        caption=f"{path}: means of runs with their intervals, and other less {comparison.reference}",
    )


def _mean(cell: Cell, unit: Display) -> str:
    estimate = cell.estimate
    return (
        unit.text(cell.mean)
        if estimate is None
        else interval(estimate.low, estimate.point, estimate.high, unit)
    )


def _difference(pair: Pair, unit: Display) -> str:
    found = pair.difference
    return "not estimable" if found is None else interval(found.low, found.point, found.high, unit)


def relative_text(pair: Pair) -> str:
    """The difference as a signed share."""
    if pair.relative is None:
        return "—"
    return f"{pair.relative * 100:+.1f} %"


def comparison_rows(data: Gathered) -> list[dict[str, Any]]:
    """Every pair of every quantity, for programs."""
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
        for one in data.comparisons
        for pair in one.pairs
    ]  # fmt: skip


def numbers_of(estimate: Any) -> dict[str, Any] | None:
    """An estimate as plain values; None without one."""
    fields = ("unit", "point", "low", "high", "level", "n", "method")
    return None if estimate is None else {field: getattr(estimate, field) for field in fields}


def comparison_lines(data: Gathered) -> list[str]:
    """The median relative difference of each quantity that is drawn, per source, for the terminal."""
    lines = []
    for one in worth_drawing(data):
        for label in dict.fromkeys(pair.label for pair in one.pairs):
            shares = [
                abs(pair.relative) for pair in one.pairs if pair.label == label and pair.relative is not None
            ]
            if shares:
                words = f"median difference {median(shares) * 100:.1f} % over {len(shares)} settings"
                lines.append(f"{one.quantity.path}: {label} beside {one.reference}, {words}")
    return lines
