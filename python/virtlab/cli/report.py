"""`virtlab report`: writes the report of a dataset again."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def report(
    dataset: Path = typer.Argument(..., help="folder of a dataset, NAME.results"),
    open_path: bool = typer.Option(False, "--open-path", help="print only the path of the page"),
    figures: str = typer.Option("png,svg", help="formats of the pictures beside the page: png, svg, none"),
    directory: Path | None = typer.Option(None, help="write there instead of DATASET/report"),
    figures_file: Path | None = typer.Option(
        None, help="the study's figures.yaml; else the one around the dataset"
    ),
    json_: bool = typer.Option(False, "--json", help="verdicts and estimates as JSON"),
) -> None:
    """Write the report of a dataset: one page that opens offline, and its plots as pictures."""
    from virtlab.report.gather import gather
    from virtlab.report.terminal import as_json, summary
    from virtlab.report.write import write_report
    from virtlab.results import Dataset

    opened = Dataset.open(dataset)
    formats = [name.strip() for name in figures.split(",") if name.strip() and name.strip() != "none"]
    data = gather(opened, figures_file=figures_file)
    page = write_report(opened, directory, formats=formats, data=data)
    if json_:
        import json

        typer.echo(json.dumps(as_json(opened, page, data), ensure_ascii=False, allow_nan=False))
    elif open_path:
        typer.echo(page)
    else:
        import rich

        rich.print(summary(opened, data))
        typer.echo(f"\nreport: {page}")
