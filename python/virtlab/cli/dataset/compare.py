"""`virtlab compare`: two datasets, or a dataset and a baseline: what became better, worse, or stayed the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.dataset.sources import read_source
from virtlab.cli.options import AsJson
from virtlab.cli.outputs import Junit, Markdown, write_cases
from virtlab.errors import ExperimentError
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from virtlab.changes import Baseline, Changes

SCHEMA = "virtlab.compare/1"
STYLES = {
    "worse": "bold red", "different": "bold red", "undecided": "bold yellow", "better": "bold green",
    "equivalent": "green",
}  # fmt: skip
app = typer.Typer(add_completion=False)


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="a dataset, or a baseline file", show_default=False)],
    new: Annotated[
        Path | None,
        typer.Argument(
            help="what is compared with it; may be left out with --save-baseline", show_default=False
        ),
    ] = None,
    *,
    quantity: Annotated[
        list[str] | None,
        typer.Option(
            help="compare this one, e.g. probe.rtt.p99; may be repeated; default: the leading ones, and those of claims",
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="every quantity that has a better direction")] = False,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            help="which differences matter: '5 %' of the old value (the default), or 'probe.rtt.mean=100 us' for one "
            "quantity; may be repeated; of ratios such as loss: 1 percentage point",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="how sure a finding is, over all comparisons together", min=0.5, max=0.9999)
    ] = 0.95,
    save_baseline: Annotated[
        Path | None,
        typer.Option(
            help="write what later datasets are compared with into this file: the last dataset that is named",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    junit: Junit = None,
    markdown: Markdown = None,
) -> None:
    """Compares two datasets of one experiment file, or of two versions of it, as a test for regressions.

    Each quantity at each setting is better, worse, equivalent within the margin, or undecided, with about how many more
    runs would decide. All comparisons are corrected together: between two datasets of equal systems the chance of any
    alarm is 5 %. Settings are matched by their levels; what else differs (kernel, processor, backend, file) is named.

    Exit code: 0 nothing is worse, 1 something is worse, 2 a dataset, baseline or option is wrong, 4 something is
    undecided.

    Examples:

        virtlab compare before.results after.results

        virtlab compare before.results --save-baseline baseline.json

        virtlab compare baseline.json after.results --margin '3 %' --junit compare.xml
    """
    from virtlab.changes import Margins, differences

    if new is None and save_baseline is None:
        raise ExperimentError(
            "compare", "one dataset is named, and nothing to compare it with", "name a second one"
        )
    paths, margins = list(quantity or ()), Margins.parse(margin or ())
    wanted = [*paths, *margins.by_path]
    before = read_source(old, wanted, every=every)
    after = read_source(new, wanted, every=every) if new is not None else before
    if save_baseline is not None:
        after.save(save_baseline)
    if new is None:
        say(f"baseline: {save_baseline}")
        return
    if every and paths:
        raise ExperimentError("--all", "and --quantity contradict each other", "give one of them")
    changes = differences(before, after, margins, paths=paths, level=level)
    if junit is not None or markdown is not None:
        from virtlab.report.exchange.cases import of_changes

        write_cases(of_changes(changes, *_names(changes, old, new)), junit, markdown)
    if as_json:
        say(json_text(as_values(changes), indent=2, allow_nan=False))
    else:
        _show(changes, *_names(changes, old, new))
        if save_baseline is not None:
            say(f"baseline: {save_baseline}")
    raise typer.Exit(changes.exit_code)


def _names(changes: Changes, old: Path, new: Path) -> tuple[str, str]:
    """What the two are called: their names, or the paths that were given if both have the same name."""
    if changes.old.name == changes.new.name:
        return str(old), str(new)
    return changes.old.name, changes.new.name


def _show(changes: Changes, old_name: str, new_name: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from virtlab.changes.differences import words
    from virtlab.report.exchange.cases import shown

    out = console()
    old, new = changes.old, changes.new
    out.print(
        Text(
            f"{new_name} ({new.runs} runs, {new.created[:10]}) against {old_name} ({old.runs} runs, {old.created[:10]})"
        )
    )
    for note in changes.notes:
        out.print(Text(note, style="yellow"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("finding", "quantity", "old", "new", "change"):
        table.add_column(head, overflow="fold")
    for row in changes.rows:
        place = words(row.levels)
        runs = "run" if row.more_runs == 1 else "runs"
        more = f"{row.why}; about {row.more_runs} more {runs} of each" if row.more_runs else row.why
        finding = Text(row.finding, style=STYLES[row.finding])
        quantity = Text.assemble(row.path, "\n", (f"{place}{f': {more}' if more else ''}", "dim"))
        table.add_row(finding, quantity, *(Text(part) for part in shown(row)))
    out.print(table)


def as_values(changes: Changes) -> dict[str, Any]:
    """All comparisons for programs."""
    from virtlab.report.tables.comparison import numbers_of

    return {
        "schema": SCHEMA,
        "old": _source(changes.old),
        "new": _source(changes.new),
        "level": changes.level,
        "notes": list(changes.notes),
        "changes": [
            {
                "path": row.path, "unit": row.unit, "better": row.better, "levels": dict(row.levels), "links": row.links,
                "finding": row.finding, "why": row.why or None, "old": numbers_of(row.old), "new": numbers_of(row.new),
                "difference": numbers_of(row.difference), "relative": row.relative, "margin": row.margin,
                "p": row.p, "p_equivalent": row.p_equivalent, "more_runs": row.more_runs,
            }
            for row in changes.rows
        ],
        "exit_code": changes.exit_code,
    }  # fmt: skip


def _source(baseline: Baseline) -> dict[str, Any]:
    return {
        "name": baseline.name,
        "created": baseline.created,
        "backend": baseline.backend,
        "runs": baseline.runs,
        "facts": baseline.facts,
    }
