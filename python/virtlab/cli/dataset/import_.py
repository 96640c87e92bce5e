"""`virtlab import`: results that other tools made elsewhere, as a dataset beside measured ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.imported import Sources

app = typer.Typer(add_completion=False)


@app.command()
def import_(
    files: Annotated[
        list[Path], typer.Argument(help="a mapping file; with --role, a tool's outputs, one per repetition")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="the dataset to make, NAME.results")],
    experiment: Annotated[Path | None, typer.Option(help="with --role: the experiment file")] = None,
    role: Annotated[str | None, typer.Option(help="the role that the files are results of")] = None,
    level: Annotated[
        list[str], typer.Option(help="FACTOR=LEVEL of their design point; may be repeated")
    ] = [],  # noqa: B006 - typer's way
    tool: Annotated[str | None, typer.Option(help="where it cannot be recognised: ping, iperf3, ...")] = None,
    source: Annotated[str | None, typer.Option(help="with --role: what they were made on, in words")] = None,
) -> None:
    """Makes a dataset of outputs of ping, psping, iperf, netperf, JMeter, Vegeta, and of tools that watch hosts and
    guests.

    Example: virtlab import esxi.import.yaml --output esxi.results
    """
    from virtlab.imported import import_results, read_mapping

    sources = read_mapping(files[0]) if role is None else _flags(files, experiment, role, level, tool, source)
    if role is None and (len(files) > 1 or experiment or level or tool or source):
        from virtlab.errors import ExperimentError

        raise ExperimentError(
            "import", "a mapping file says all", "remove the other arguments, or name a --role"
        )
    made = import_results(sources, output, say)
    for words in made.differences:
        say(f"note: {words}", err=True)
    say(f"{made.runs} runs, {made.samples} samples: {output}")


def _flags(
    files: list[Path],
    experiment: Path | None,
    role: str,
    level: list[str],
    tool: str | None,
    source: str | None,
) -> Sources:
    from virtlab.errors import ExperimentError
    from virtlab.imported import ImportFile, ImportRun, Sources
    from virtlab.imported.readers import READERS

    if experiment is None or not source:
        raise ExperimentError(
            "import", "--role needs --experiment and --source", "say both, or name a mapping file"
        )
    if tool is not None and tool not in READERS:
        raise ExperimentError("--tool", f"'{tool}' is not a tool", f"there are {', '.join(READERS)}")
    levels = {}
    for words in level:
        name, found, value = words.partition("=")
        if not found:
            raise ExperimentError("--level", f"'{words}' has no '='", "write FACTOR=LEVEL")
        if name.strip() in levels:
            raise ExperimentError("--level", f"'{name.strip()}' has two levels", "say one of them")
        levels[name.strip()] = value.strip()
    runs = tuple(ImportRun(f"--role {role}", levels, {role: ImportFile(path, tool)}) for path in files)
    return Sources(experiment, source, runs)
