"""`virtlab report`: writes the report of a dataset again, with other datasets beside it when asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from virtlab.cli.options import DatasetFolder
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from virtlab.report.gather.model import Gathered
    from virtlab.results import Dataset

app = typer.Typer(add_completion=False)


@app.command()
def report(
    dataset: DatasetFolder,
    open_path: bool = typer.Option(False, "--open-path", help="print only the path of the page"),
    figures: str = typer.Option("png,svg", help="formats of the pictures beside the page: png, svg, none"),
    directory: Path | None = typer.Option(None, help="write there instead of DATASET/report"),
    figures_file: Path | None = typer.Option(
        None, help="the study's figures.yaml; else the one around the dataset"
    ),
    with_: list[Path] = typer.Option(
        [], "--with", help="another dataset beside this one, e.g. a simulated one; may be repeated"
    ),
    bound: bool = typer.Option(
        False, "--bound", help="the computed worst case of echoes on an ideal platform beside them"
    ),
    json_: bool = typer.Option(False, "--json", help="verdicts and estimates as JSON"),
) -> None:
    """Writes the report of a dataset: one page that opens offline, and its plots as pictures.

    With --with, one report shows measured and simulated values, setting by setting with the difference; never pooled.

    Example: virtlab report switched-network-quick.results
    """
    from virtlab.report.gather.dataset import gather
    from virtlab.report.page.terminal import as_json, summary
    from virtlab.report.page.writer import write_report
    from virtlab.report.tables.comparison import beside_json, beside_lines
    from virtlab.results import Dataset

    opened = Dataset.open(dataset)
    formats = [name.strip() for name in figures.split(",") if name.strip() and name.strip() != "none"]
    data = gather(opened, figures_file=figures_file)
    if with_ or bound:
        data = _with_others(data, [Dataset.open(path) for path in with_], opened if bound else None)
    page = write_report(opened, directory, formats=formats, data=data)
    if json_:
        values = as_json(opened, page, data)
        if with_ or bound:
            values["beside"] = beside_json(data)
        say(json_text(values, allow_nan=False))
    elif open_path:
        say(page)
    else:
        console().print(summary(opened, data))
        for line in beside_lines(data):
            say(line)
        say(f"\nreport: {page}")


def _with_others(data: Gathered, others: list[Dataset], bounded: Dataset | None) -> Gathered:
    """The report's content with other datasets, and worst cases of the dataset's own Plans, beside it."""
    from dataclasses import replace

    from virtlab.errors import ExperimentError
    from virtlab.report.gather.bounds import bounds_beside
    from virtlab.report.gather.comparison import beside, label_of, other_goals, others_of
    from virtlab.report.gather.dataset import gather

    taken = {label_of(data, realisation) for realisation in data.realisations}
    found = []
    for other in others:
        found += others_of(gather(other, curves=False), other.path.name, data, taken)
    reasons: list[str] = []
    if bounded is not None:
        one, reasons = bounds_beside(data, {record.point: record.plan for record in bounded.runs("ok")})
        found += [one] if one is not None else []
    pairs = beside(data, found)
    if not pairs:
        what = "; ".join(
            ["no quantity has a value at the same levels in both", *other_goals(data, found), *reasons]
        )
        raise ExperimentError("--with", what, "name a dataset of the same experiment")
    differs = [one.label for one in found if one.file_differs]
    notes = (
        [f"The experiment file of {', '.join(differs)} is not this one's; compare with care."]
        if differs
        else []
    )
    return replace(data, beside=pairs, notes=(*data.notes, *notes, *other_goals(data, found), *reasons))
