"""`virtlab report`: writes the report of a dataset again, with other datasets beside it when asked."""

from __future__ import annotations

from pathlib import Path

import typer

from virtlab.cli.options import DatasetFolder
from virtlab.cli.outputs import Junit, Markdown, write_cases
from virtlab.drawing import EXTRA, can_draw
from virtlab.terminal import console, json_text, say

app = typer.Typer(add_completion=False)


@app.command()
def report(
    dataset: DatasetFolder,
    open_path: bool = typer.Option(False, "--open-path", help="print only the path of the page"),
    figures: list[str] = typer.Option(
        [],
        help=f"formats of the pictures beside the page: png, svg, none (else both, with {EXTRA}); may be repeated",
    ),
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
    junit: Junit = None,
    markdown: Markdown = None,
) -> None:
    """Writes the report of a dataset: one page that opens offline, and its plots as pictures.

    With --with, one report shows measured and simulated values, setting by setting with the difference; never pooled.

    Example: virtlab report switched-network-quick.results
    """
    from virtlab.report.gather.contrasts.bounds import compared
    from virtlab.report.gather.dataset import gather
    from virtlab.report.page.terminal import as_json, summary
    from virtlab.report.page.writer import write_report
    from virtlab.report.tables.comparison import comparison_lines, comparison_rows
    from virtlab.results import Dataset

    opened = Dataset.open(dataset)
    formats = None
    if figures:
        named = [name.strip() for text in figures for name in text.split(",")]
        formats = [name for name in dict.fromkeys(named) if name and name != "none"]
    data = gather(opened, figures_file=figures_file)
    if with_ or bound:
        plans = {record.point: record.plan for record in opened.runs("ok")} if bound else {}
        data = compared(
            data, [(path.name, gather(Dataset.open(path), curves=False)) for path in with_], plans
        )
    page = write_report(opened, directory, formats=formats, data=data)
    if junit is not None or markdown is not None:
        from virtlab.report.exchange.cases import of_verdicts

        write_cases(of_verdicts(data, links=[("report", str(page))]), junit, markdown)
    if json_:
        values = as_json(opened, page, data)
        if with_ or bound:
            values["beside"] = comparison_rows(data)
        say(json_text(values, allow_nan=False))
    elif open_path:
        say(page)
    else:
        console().print(summary(opened, data))
        for line in comparison_lines(data):
            say(line)
        say(f"\nreport: {page}")
        if formats is None and not can_draw():
            say(f"the page draws its plots itself; for PNG and SVG beside it: pip install '{EXTRA}'")
