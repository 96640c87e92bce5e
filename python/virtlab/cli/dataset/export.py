"""`virtlab export`: a dataset's values, samples or list of runs as CSV, JSON or Parquet; its times as histograms; or
its estimates to a receiver.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from virtlab.cli.options import DatasetFolder
from virtlab.cli.pushing import To, destinations, push
from virtlab.errors import ExperimentError
from virtlab.folders import Folder

if TYPE_CHECKING:
    from virtlab.results import Dataset
    from virtlab.results.export import Format

app = typer.Typer(add_completion=False)
SUFFIXES = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


@app.command()
def export(
    dataset: DatasetFolder,
    *,
    what: Annotated[
        Literal["values", "samples", "runs", "histograms"],
        typer.Option(
            help="values: one number per run and metric; samples: every packet; runs: the list of runs; histograms: "
            "times as an HdrHistogram log"
        ),
    ] = "values",
    form: Annotated[
        Literal["csv", "json", "parquet"] | None,
        typer.Option(
            "--format", help="csv, json or parquet; by default what the output's name says, else csv"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="file, or folder for several kinds; default: standard output"),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="kind of samples: rtt, packet, sent, series, ...; may be repeated; default: all",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(help="only this role's or source's samples; may be repeated", show_default=False),
    ] = None,
    all_runs: Annotated[
        bool, typer.Option("--all-runs", help="samples of tainted and failed runs too")
    ] = False,
    interval: Annotated[
        str | None,
        typer.Option(help="of histograms: how long each is, e.g. '1 s'; default: a run", show_default=False),
    ] = None,
    threads: Annotated[
        bool, typer.Option("--threads", help="of histograms: each thread of a client by itself")
    ] = False,
    to: To = None,
) -> None:
    """Writes values, samples or the list of runs of a dataset as CSV, JSON or Parquet, or times as histograms.

    With --to, it pushes estimates and verdicts instead, to every receiver named. A receiver that is absent, slow or
    refuses is a warning; the exit code stays 0.

    Examples:

        virtlab export switched-network-quick.results --what samples --kind rtt --output rtt.parquet

        virtlab export switched-network-quick.results --what histograms --interval '1 s' --output times.hlog

        virtlab export switched-network-quick.results --to prometheus-textfile=virtlab.prom
    """
    from virtlab.results import Dataset

    if to:
        if what != "values" or all_runs or threads or any((form, output, kind, stream, interval)):
            raise ExperimentError(
                "--to",
                "pushes estimates and verdicts, and writes no other file",
                "leave the other options out",
            )
        _push(dataset, to)
        return
    if what == "histograms":
        for option, given in (("--format", form), ("--kind", kind), ("--all-runs", all_runs)):
            if given:
                wrong = "is not for histograms: they are a log of the times of good runs"
                raise ExperimentError(option, wrong, "leave it out")
        _histograms(dataset, output, stream or [], interval, threads=threads)
        return
    for option, has_value in (("--interval", interval), ("--threads", threads)):
        if has_value:
            raise ExperimentError(option, "is of histograms alone", "leave it out, or add --what histograms")
    chosen: Format = form or SUFFIXES.get(output.suffix if output else "", "csv")  # type: ignore[assignment]
    if chosen == "parquet" and output is None:
        raise ExperimentError(
            "--format", "Parquet is not written to a terminal", "name a file: --output FILE.parquet"
        )
    opened = Dataset.open(dataset)
    if what == "samples":
        _samples(opened, chosen, output, list(dict.fromkeys(kind or ())), stream or [], all_runs=all_runs)
    elif what == "runs":
        from virtlab.results.export import write_runs

        write_runs(opened, output, chosen)
    else:
        _values(opened, chosen, output)


def _push(folder: Path, to: list[str]) -> None:
    from virtlab.report.gather.dataset import gather
    from virtlab.results import Dataset

    targets, dataset = destinations(to), Dataset.open(folder)
    push(targets, dataset, gather(dataset, curves=False))


def _samples(
    dataset: Dataset,
    form: Format,
    output: Path | None,
    chosen: list[str],
    streams: list[str],
    *,
    all_runs: bool,
) -> None:
    from virtlab.results.export import kinds, write_samples

    status = None if all_runs else "ok"
    there = kinds(dataset, streams)
    for each in streams:
        if not kinds(dataset, [each]):
            raise ExperimentError(
                "--stream", f"the dataset has no samples of '{each}'", "use the name of a role"
            )
    wanted = chosen or there
    if len(wanted) == 1:
        write_samples(dataset, wanted[0], output, form, streams=streams, status=status)
        return
    if output is None or output.suffix in SUFFIXES:
        raise ExperimentError(
            "--kind",
            f"{', '.join(wanted) or 'no samples'} are several tables"
            if chosen
            else f"the dataset holds {', '.join(wanted) or 'no samples'}",
            "name one kind, or a folder: --output FOLDER",
        )
    with Folder.open(output, make=True) as folder:
        for each in wanted:
            with folder.writing(f"{each}.{form}") as file:
                place = Path(f"/dev/fd/{file.fileno()}")
                write_samples(dataset, each, place, form, streams=streams, status=status)


def _histograms(
    folder: Path, output: Path | None, streams: list[str], interval: str | None, *, threads: bool
) -> None:
    from virtlab.report.gather.distributions.interval_histograms import write_histograms
    from virtlab.results import Dataset
    from virtlab.results.export import placed
    from virtlab.units import Duration

    width_ns = None
    if interval is not None:
        try:
            width_ns = Duration.parse(interval).ns
        except ValueError as error:
            raise ExperimentError("--interval", str(error)) from None
        if width_ns <= 0:
            raise ExperimentError("--interval", "is not above zero", "write a time, e.g. '1 s'")
    with placed(output) as place, Path(place).open("w", encoding="ascii") as file:
        write_histograms(Dataset.open(folder), file, roles=streams, width_ns=width_ns, threads=threads)


def _values(dataset: Dataset, form: Format, output: Path | None) -> None:
    from virtlab.results.export import write_rows

    write_rows(*value_rows(dataset), output, form)


def value_rows(dataset: Dataset) -> tuple[dict[str, str], list[list[Any]]]:
    """Columns with their SQL types, and a row per good run, role, metric and statistic."""
    from virtlab.analysis import run_values
    from virtlab.analysis.searches.goals import Goals

    table = list(run_values(dataset))
    goals = {record.name: Goals.of_runs([record]) for record in dataset.runs("ok")}
    factors = sorted({factor for row in table for factor in row.levels})
    columns: dict[str, str] = {
        "run": "VARCHAR", "point": "INTEGER", "repetition": "INTEGER", "link_realisation": "VARCHAR",
        **{f"factor_{factor}" if factor.lower() in FIXED else factor: "VARCHAR" for factor in factors},
        "role": "VARCHAR", "metric": "VARCHAR", "statistic": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR",
        "samples": "BIGINT", "reason": "VARCHAR", "goal": "VARCHAR",
    }  # fmt: skip
    rows: list[list[Any]] = [
        [
            row.run, row.point, row.repetition, row.realisation, *(row.levels.get(factor) for factor in factors),
            row.role, row.metric, row.statistic, row.value, row.unit, row.samples, row.reason or None,
            goals[row.run].of(row.role, row.metric) or None,
        ]
        for row in table
    ]  # fmt: skip
    return columns, rows


FIXED = frozenset(
    [
        "run",
        "point",
        "repetition",
        "link_realisation",
        "role",
        "metric",
        "statistic",
        "value",
        "unit",
        "samples",
        "reason",
        "goal",
    ]
)
