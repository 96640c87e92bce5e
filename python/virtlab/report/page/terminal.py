"""What a person sees at the end of a run: verdicts first, then the key estimates; and the same for programs.

Names come from files and guests, so nothing is taken as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtlab.report.gather.dataset import gather
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Result, Verdict
from virtlab.report.gather.selection import leads, primary
from virtlab.report.page.fitting import Column, Fitted
from virtlab.report.tables.comparison import numbers_of
from virtlab.report.tables.recurrence import recurrence_rows
from virtlab.report.words import plural, verdict_kind
from virtlab.units import Display, display, interval_digits

if TYPE_CHECKING:
    from rich.console import Group

    from virtlab.results import Dataset

SCHEMA = "virtlab.report/1"
ROWS = 40
COLUMNS = 4
_STYLES = {"good": "bold green", "bad": "bold red", "open": "bold yellow"}


def summary(dataset: Dataset, data: Gathered | None = None) -> Group:
    """Verdicts and key estimates of a dataset, for a console."""
    from rich.console import Group
    from rich.text import Text

    data = data or gather(dataset, curves=False)
    parts: list[Any] = [Text(data.origin.title, style="bold")]
    parts += [Text(note, style="yellow") for note in data.notes]
    if data.verdicts:
        parts.append(_verdicts(data.verdicts))
    parts.append(_estimates(data))
    out = [run for run in data.runs if not run.used]
    if out:
        parts.append(
            Text(
                f"{plural(len(out), 'run')} not counted: tainted, failed or cancelled; see the report.",
                style="yellow",
            )
        )
    return Group(*parts)


def key_results(data: Gathered) -> list[Result]:
    """The leading statistic of each role's primary metrics."""
    return [result for result in data.results if primary(result.quantity) and leads(result.quantity)]


def _verdicts(verdicts: tuple[Verdict, ...]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for verdict in verdicts:
        word = Text(verdict.verdict, style=_STYLES[verdict_kind(verdict.verdict)])
        table.add_row(word, Text.assemble(verdict.sentence, "\n", (verdict.claim, "dim")))
    return table


def _estimates(data: Gathered) -> Any:
    """One row per setting, one column per key quantity; what was the same in all runs is said below."""
    from rich.console import Group
    from rich.text import Text

    varied: list[tuple[Result, Display]] = []
    constant = []
    for result in key_results(data):
        values = [value for cell in result.cells for value in cell.present]
        shown = display(result.quantity.unit, values)
        if len(set(values)) == 1:
            runs = plural(len(values), "run")
            constant.append(
                Text(
                    f"{result.quantity.path}{result.quantity.qualifier}: {shown.text(values[0])} in all of {runs}",
                    style="dim",
                )
            )
        elif len(varied) < COLUMNS:
            varied.append((result, shown))
    if not varied:
        return Group(*constant) if constant else Text("No run has a value yet.", style="yellow")
    cells = varied[0][0].cells
    names = [
        Column(name, [cell.point.get(name, "") for cell in cells[:ROWS]]) for name in data.design.varying
    ]
    if len(data.realisations) > 1:
        names.append(Column("links", [cell.realisation for cell in cells[:ROWS]]))
    columns = [
        Column(_heading(result, shown), [_plus_minus(cell, shown) for cell in _as_many(result, cells[:ROWS])])
        for result, shown in varied
    ]
    left = len(cells) - ROWS
    table = Fitted(names, columns, f"{left} more settings are in the report" if left > 0 else "")
    counts = sorted({len(cell.values) for cell in cells})
    level = next((cell.estimate.level for cell in cells if cell.estimate), 0.95)
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    about = Text(f"mean of {runs} runs per setting with its {level * 100:.3g} % interval", style="dim")
    goals = [
        Text(f"{result.quantity.path}: {result.quantity.goal}", style="dim")
        for result, _ in varied
        if result.quantity.goal
    ]
    return Group(table, about, *goals, *constant)


def _heading(result: Result, shown: Display) -> str:
    role, _, rest = result.quantity.path.partition(".")
    return f"{role}\n{rest}\n{shown.unit}"


def _as_many(result: Result, rows: Sequence[Cell]) -> list[Cell | None]:
    """A cell for each row; None where it has none of its own."""
    return [result.cells[at] if at < len(result.cells) else None for at in range(len(rows))]


def _plus_minus(cell: Cell | None, shown: Display) -> str:
    """'0.548 ± 0.009', with the digits that the interval supports."""
    if cell is None:
        return ""
    estimate = cell.estimate
    if estimate is None:
        return "no value"
    half = estimate.half_width
    if half is None or estimate.low is None or estimate.high is None:
        return f"{shown.number(estimate.point)} (one run)"
    digits = interval_digits(estimate.low, estimate.high)
    return f"{shown.number(estimate.point, digits)} ± {shown.number(half, 2)}"


def as_json(dataset: Dataset, page: Path | None = None, data: Gathered | None = None) -> dict[str, Any]:
    """The same for programs: verdicts, every estimate with unit, interval, number of runs and realisation, and how well
    single values recur where the data were gathered with curves.
    """
    data = data or gather(dataset, curves=False)
    return {
        "schema": SCHEMA,
        "title": data.origin.title,
        "dataset": data.origin.dataset,
        "report": str(page) if page else None,
        "backend": data.origin.backend,
        "runs": {"used": sum(run.used for run in data.runs), "all": len(data.runs)},
        "factors": {factor.name: list(factor.levels) for factor in data.design.factors},
        "notes": list(data.notes),
        "verdicts": [_verdict_json(verdict) for verdict in data.verdicts],
        "estimates": [row for result in data.results for row in _estimate_rows(result)],
        "recurrence": recurrence_rows(data.samples.recurring),
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    estimate = verdict.estimate
    return {
        "id": verdict.name,
        "claim": verdict.claim,
        "verdict": verdict.verdict,
        "sentence": verdict.sentence,
        "estimate": numbers_of(estimate),
        "required": list(verdict.required),
        "effect": verdict.effect or None,
        "runs": verdict.n,
        "published": verdict.published or None,
        "goal": verdict.goal or None,
        "more_runs": verdict.more_runs,
    }


def _estimate_rows(result: Result) -> list[dict[str, Any]]:
    quantity = result.quantity
    return [
        {
            "path": quantity.path,
            "unit": quantity.unit,
            "goal": quantity.goal or None,
            "point": dict(cell.point),
            "links": cell.realisation,
            "runs": len(cell.present),
            "estimate": numbers_of(cell.estimate),
        }
        for cell in result.cells
    ]
