"""`virtlab demo`: an experiment of its own, answered by the simulator and, if asked, by real packets beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.errors import ExperimentError, MachineError
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from virtlab.campaign import Ending, Interruption
    from virtlab.experiment import Experiment
    from virtlab.plan.backend import Backend
    from virtlab.report.gather.gathered import Gathered
    from virtlab.results import Dataset

app = typer.Typer(add_completion=False)
NAME = "virtlab-demo"
INTERRUPTED = 130
Answer = tuple["Dataset", "Ending", "Gathered"]


@app.command()
def demo(
    *,
    real: Annotated[
        bool,
        typer.Option("--real", help="also build the networks on this machine and send real packets"),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="folder to write, which must not exist; default: virtlab-demo, or virtlab-demo-2 and so on",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
) -> None:
    """Shows what virtlab does, in a minute: what does a second switch cost?

    The simulator plays the experiment in virtual time, within seconds. With --real, the testbed builds the same
    networks on this machine and sends real packets through them, which takes less than a minute and needs Linux, but
    no root; both answers are then shown side by side.

    The folder holds the experiment file, a dataset for each answer, and the report. Change the file, and `virtlab
    run` runs it.

    Exit code: 0 all claims hold, 1 a claim is refuted, 3 this machine cannot, 4 some claims are undecided, 130
    interrupted.

    Examples:

        virtlab demo

        virtlab demo --real
    """
    from virtlab.campaign import Interruption
    from virtlab.experiment import load
    from virtlab.report import write_report
    from virtlab.report.gather.contrasts.bounds import with_other_datasets
    from virtlab.simulator import Simulator

    folder = _folder(directory)
    experiment = load(_written(folder), runs_max=None)
    answers: dict[str, Answer] = {}
    with Interruption() as interruption:
        answers["simulator"] = _ask(experiment, Simulator(), folder, interruption, quiet=True)
        if not as_json:
            _show(experiment, answers)
        if real:
            from virtlab.testbed import Testbed

            answers["testbed"] = _ask(experiment, Testbed(), folder, interruption, quiet=as_json)
    simulated, _, data = answers["simulator"]
    dataset = simulated
    if real:
        dataset, _, measured = answers["testbed"]
        data, _ = with_other_datasets(measured, [(simulated.path.name, data)], {})
    page = write_report(dataset, folder / "report", data=data) if dataset.runs("ok") else None
    code = _exit_code(answers)
    if as_json:
        say(json_text(_json(answers, folder, page, code), indent=2, allow_nan=False))
    else:
        if real:
            _show(experiment, answers)
            _tell_spoilt(dataset)
        say(f"\nexperiment: {folder / 'experiment.yaml'}")
        if page is not None:
            say(f"report: {page}")
        if not real:
            say("real packets: virtlab demo --real")
    raise typer.Exit(code)


def _folder(given: Path | None) -> Path:
    """A folder that does not exist yet; ExperimentError where one was named that does."""
    if given is not None:
        if given.exists() or given.is_symlink():
            raise ExperimentError(
                str(given), "exists already, and nothing is overwritten", "name another --directory"
            )
        return given
    number, folder = 1, Path(NAME)
    while folder.exists() or folder.is_symlink():
        number += 1
        folder = Path(f"{NAME}-{number}")
    return folder


def _written(folder: Path) -> Path:
    """The experiment file, in the new folder."""
    from virtlab.experiment.templates import template

    file = folder / "experiment.yaml"
    try:
        folder.mkdir(parents=True)
        file.write_text(template("demo", NAME), encoding="utf-8")
    except OSError as error:
        raise ExperimentError(
            str(folder), f"cannot be written ({error.strerror})", "name a --directory of yours"
        ) from None
    return file


def _ask(
    experiment: Experiment, backend: Backend, folder: Path, interruption: Interruption, *, quiet: bool
) -> Answer:
    """One backend's answer: its dataset, how the runs ended, and what a report of them says."""
    from virtlab.campaign import CampaignObserver, play, refused
    from virtlab.campaign.progress import for_terminal
    from virtlab.report.gather.dataset import gather

    name = backend.capabilities().backend
    observer = CampaignObserver() if quiet else for_terminal(verbose=False)
    observer.cancellation = lambda: interruption.pending
    try:
        if found := refused(experiment, backend):
            count = len(experiment.points())
            what = "cannot be run here: " + " | ".join(each.text(count) for each in found)
            raise MachineError("--real", what, "see `virtlab doctor`")
        dataset, ending = play(experiment, backend, folder / f"{name}.results", observer)
    finally:
        observer.ended()
    if ending.interrupted:
        say("virtlab: interrupted; `virtlab demo` begins again", err=True)
        raise typer.Exit(INTERRUPTED)
    if ending.failure:
        raise MachineError("", ending.failure, "then `virtlab demo` begins again")
    return dataset, ending, gather(dataset)


def _exit_code(answers: dict[str, Answer]) -> int:
    """The exit code by the last answer: 1 a claim is refuted, 4 one is undecided or lacks runs, else 0."""
    _, ending, data = list(answers.values())[-1]
    rulings = {verdict.verdict for verdict in data.verdicts}
    if "refuted" in rulings:
        return 1
    return 4 if ending.lacking or "undecided" in rulings else 0


def _show(experiment: Experiment, answers: dict[str, Answer]) -> None:
    """The claims, each with the answers side by side."""
    from rich.table import Table
    from rich.text import Text

    from virtlab.analysis.claims.words import in_words
    from virtlab.report.page.verdicts import verdict_facts
    from virtlab.report.words import plural, verdict_kind

    styles = {"good": "bold green", "bad": "bold red", "open": "bold yellow"}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(experiment.title, ratio=2)
    for name, (_, _, data) in answers.items():
        used = sum(run.used for run in data.runs)
        table.add_column(f"{name}, {plural(used, 'run')}", ratio=1)
    given = [data.verdicts for _, _, data in answers.values()]
    for claim, *verdicts in zip(experiment.claims, *given, strict=True):
        row = [Text.assemble(in_words(claim.parsed()), "\n", (claim.text, "dim"))]
        for verdict in verdicts:
            facts = verdict_facts(verdict, with_published=False)
            word = (verdict.verdict, styles[verdict_kind(verdict.verdict)])
            row.append(Text.assemble(word, "\n", facts[0][1] if facts else ""))
        table.add_row(*row)
    console().print(table)


def _tell_spoilt(dataset: Dataset) -> None:
    """How many runs this machine spoilt, where that left too few."""
    every, good = len(dataset.runs()), len(dataset.runs("ok"))
    if good < every:
        say(
            f"\n{every - good} of {every} runs do not count: this machine had no time for them, or something failed."
        )
        say(f"Why: `virtlab explain tainted`, and each run's reasons: `virtlab report {dataset.path}`")


def _json(answers: dict[str, Answer], folder: Path, page: Path | None, code: int) -> dict[str, Any]:
    from virtlab.report import as_json

    return {
        "folder": str(folder),
        "report": str(page) if page else None,
        "answers": {name: as_json(dataset, None, data) for name, (dataset, _, data) in answers.items()},
        "exit_code": code,
    }
