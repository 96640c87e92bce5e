"""`virtlab run`: every run of an experiment that is left, then verdicts and the report."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast, runtime_checkable

import typer

from virtlab.cli.options import DesignPoints
from virtlab.cli.outputs import Junit, Markdown, refuse_unwritable, write_cases
from virtlab.cli.pushing import To, destinations, push
from virtlab.errors import LINUX, ExperimentError, MachineError
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from virtlab.campaign import CampaignObserver, Ending
    from virtlab.campaign.dispatch import Pool
    from virtlab.experiment import Experiment
    from virtlab.plan.backend import Backend
    from virtlab.report.gather.gathered import Gathered
    from virtlab.results import Dataset
    from virtlab.settings import Settings

app = typer.Typer(add_completion=False)
BACKENDS = {"testbed": "virtlab.testbed:Testbed", "simulator": "virtlab.simulator:Simulator"}
PLACES = {  # where a testbed can be built beside this machine
    "lab-vm": "virtlab.testbed.lab:LabVm",
    "xen": "virtlab.testbed.lab:XenLab",
}
INTERRUPTED = 130
RESUMES = "the same command resumes, and with --points others can be run meanwhile"
BUSY_SHARE = 0.2  # of tainted runs, beyond which the machine is too busy


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="an experiment file", show_default=False)],
    *,
    backend: Annotated[
        str | None,
        typer.Option(help="what plays the runs: testbed, simulator; default: testbed", show_default=False),
    ] = None,
    inside: Annotated[
        str | None,
        typer.Option(
            "--in",
            help="where the testbed is built: lab-vm, a virtual machine with a kernel that has all disciplines; "
            "xen, one that boots Xen (experimental); default: this machine",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="what platforms cost in the simulator: ideal, local, a file; default: ideal",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="folder of the dataset; default: NAME.results", show_default=False)
    ] = None,
    fresh_name: Annotated[
        bool, typer.Option("--fresh-name", help="begin a new dataset, NAME-2.results and so on")
    ] = False,
    points: DesignPoints = None,
    max_runs: Annotated[
        int | None,
        typer.Option(help="stop after this many runs; the same command resumes", min=0, show_default=False),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="give failed runs new attempts, once their cause is fixed"),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(help="simulated runs at once; default: one per processor", min=1, show_default=False),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="address of a Dask scheduler whose workers simulate the runs, `tls://` unless here",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait", help="wait while another run holds this machine", show_default=False
        ),
    ] = None,
    report: Annotated[
        bool | None,
        typer.Option("--report/--no-report", help="write the report after the runs", show_default=False),
    ] = None,
    anonymise: Annotated[
        bool | None,
        typer.Option(
            "--anonymise/--no-anonymise",
            help="leave the machine's name out of a new dataset",
            show_default=False,
        ),
    ] = None,
    allow_exec: Annotated[
        bool,
        typer.Option(
            "--allow-exec", help="let the file's commands run in guests that share this machine's files"
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="more than 10,000 runs are meant")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
    junit: Junit = None,
    markdown: Markdown = None,
    to: To = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="print every step; with --json as JSON lines on standard error"),
    ] = False,
) -> None:
    """Runs an experiment, or resumes it: the same command never repeats or loses a finished run.

    When the machine fails (a full disk, a host that cannot be reached), it stops with 3 and says what to fix; that
    run does not count as an attempt.

    Ctrl-C ends the current run cleanly. Options not given come from VIRTLAB_BACKEND, VIRTLAB_PROFILE, VIRTLAB_RESULTS,
    VIRTLAB_WAIT, VIRTLAB_REPORT and VIRTLAB_ANONYMISE, then from ~/.config/virtlab/settings.toml.

    Exit code: 0 all claims hold, 1 a claim is refuted, 2 the file or an option is wrong, 3 this machine
    cannot, 4 some points failed or some claims are undecided, 130 interrupted. A receiver of --to that takes no
    numbers is a warning and changes none of these.

    Example: virtlab run experiments/switched-network/quick.yaml
    """
    from virtlab.campaign import Interruption, play, select_points
    from virtlab.cli.guest_commands import refuse_unless_allowed
    from virtlab.experiment import load
    from virtlab.experiment.experiment import RUNS_MAX
    from virtlab.settings import load_settings

    refuse_unwritable(junit, markdown)
    targets = destinations(to)
    settings = load_settings(backend=backend, profile=profile, wait=wait, report=report, anonymise=anonymise)
    with Interruption() as interruption:  # from here on: trying the machine out builds worlds too
        experiment = load(file, runs_max=None if yes else RUNS_MAX)
        selected = select_points(experiment.points(), *points) if points else None
        path = _dataset_path(experiment, settings, dataset, fresh=fresh_name)
        if settings.backend == "testbed":
            _show_commands(experiment, path, quiet=as_json)
            if inside is None:  # a laboratory machine has files of its own
                refuse_unless_allowed(experiment, selected, allowed=allow_exec)
        player = made_backend(settings.backend, settings.profile, inside)
        observer = _observer(quiet=as_json, verbose=verbose)
        observer.cancellation = lambda: interruption.pending
        try:
            hands = _Hands(player, jobs, scheduler)
            _refuse(experiment, player, selected)
            opened, ending = play(
                experiment, player, path, observer, wait=settings.wait, anonymise=settings.anonymise,
                pool_of=hands.pool, points=selected, run_limit=max_runs, retry=retry,
            )  # fmt: skip
        finally:
            observer.ended()
            if isinstance(player, Closable):
                player.close()
    if ending.interrupted:
        say(f"virtlab: interrupted after {ending.made} runs; the same command resumes in {path}", err=True)
        raise typer.Exit(INTERRUPTED)
    if ending.failure:
        raise MachineError("", ending.failure, RESUMES)
    code, data, page = _conclude(opened, ending, file, write=settings.report, as_json=as_json)
    if junit is not None or markdown is not None:
        from virtlab.report.exchange.cases import of_verdicts

        lacking = [f"point {point} has too few good runs: {why}" for point, why in ending.lacking.items()]
        links = [("dataset", str(opened.path)), *([("report", str(page))] if page is not None else [])]
        write_cases(of_verdicts(data, lacking, links), junit, markdown)
    push(targets, opened, data)
    raise typer.Exit(code)


def _show_commands(experiment: Experiment, path: Path, *, quiet: bool) -> None:
    """What guests will execute, before the first run of a dataset."""
    from virtlab.cli.guest_commands import executed

    if quiet or (path / "runs").exists():
        return
    for each in executed(experiment):
        say(f"executes {each.text()}", err=True)


@runtime_checkable
class Closable(Protocol):
    """A backend that holds something between runs."""

    def close(self) -> None:
        """Lets go of it."""


class _Hands:
    """Who makes the runs: this process, a pool of processes, or the workers of a scheduler."""

    def __init__(self, backend: Backend, jobs: int | None, scheduler: str | None) -> None:
        able = backend.capabilities()
        for option, given in (("--jobs", jobs not in {None, 1}), ("--scheduler", scheduler is not None)):
            if given and able.parallel_sessions == 1:
                what = f"the {able.backend} plays one run at a time on this machine"
                raise ExperimentError(option, what, "leave it out, or use --backend simulator")
        if jobs is not None and scheduler is not None:
            raise ExperimentError(
                "--jobs", "says how many processes of this machine, --scheduler others", "give one"
            )
        self.backend, self.jobs, self.scheduler = backend, jobs, scheduler
        self.parallel = able.parallel_sessions > 1

    def pool(self, experiment: Experiment, dataset: Dataset) -> Pool | None:
        """None: this process makes them one by one, as it does for searches, whose worlds play many trials."""
        from virtlab.campaign.dispatch.local import LocalPool, portable, processors

        if not self.parallel or any(experiment.study(point).search for point in experiment.points()):
            return None
        if self.scheduler is not None:
            from virtlab.campaign.dispatch.dask import DaskPool

            return DaskPool(dataset, self.backend, self.scheduler)
        count = self.jobs or processors()
        return LocalPool(dataset, self.backend, count) if count > 1 and portable(self.backend) else None


def made_backend(name: str, profile: str, inside: str | None = None) -> Backend:
    """What plays the runs, by its name. ExperimentError for an unknown name."""
    if name not in BACKENDS:
        raise ExperimentError("--backend", f"'{name}' is not a backend", f"use one of {', '.join(BACKENDS)}")
    if inside is not None and (inside not in PLACES or name != "testbed"):
        what = f"'{inside}' is not a place" if inside not in PLACES else f"the {name} is built nowhere"
        raise ExperimentError("--in", what, f"use --backend testbed and one of {', '.join(PLACES)}")
    module, _, attribute = (PLACES[inside] if inside is not None else BACKENDS[name]).partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name in LINUX:
            raise  # every command says alike what a testbed needs
        raise MachineError(
            "--backend", f"'{name}' is not in this installation ({error})", "use another one"
        ) from error
    if name == "simulator":
        from virtlab.simulator.profile import load_profile

        return cast("Backend", made(load_profile(profile)))
    return cast("Backend", made())


def _refuse(experiment: Experiment, backend: Backend, selected: Collection[int] | None) -> None:
    """MachineError that lists everything this machine cannot do, before anything is built."""
    from virtlab.campaign import refused

    found = refused(experiment, backend, selected)
    if found:
        count = len(experiment.points()) if selected is None else len(selected)
        for each in found:
            say(f"  {each.text(count)}", err=True)
        raise MachineError(
            experiment.name,
            f"cannot be run here: {len(found)} {'reason' if len(found) == 1 else 'reasons'} above",
            "fix them, or see `virtlab doctor`",
        )


def _dataset_path(experiment: Experiment, settings: Settings, given: Path | None, *, fresh: bool) -> Path:
    """The dataset's folder: as given, else NAME.results in the folder of results; `fresh`: the next free
    name.
    """
    path = given or Path(settings.results) / f"{experiment.name}.results"
    if not fresh:
        return path
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def _observer(*, quiet: bool, verbose: bool) -> CampaignObserver:
    from virtlab.campaign import CampaignObserver
    from virtlab.campaign.progress import JsonProgress, for_terminal

    if quiet:
        return JsonProgress() if verbose else CampaignObserver()
    return for_terminal(verbose=verbose)


def _conclude(
    dataset: Dataset, ending: Ending, file: Path, *, write: bool, as_json: bool
) -> tuple[int, Gathered, Path | None]:
    """Writes the report, prints the verdicts; the exit code, and what the report says and where."""
    from virtlab.report.gather.dataset import gather

    published = next(
        (folder / "published" for folder in file.resolve().parents if (folder / "published").is_dir()), None
    )
    figures = file.resolve().parent / "figures.yaml"
    writing = write and bool(dataset.runs("ok"))
    data = gather(
        dataset,
        figures_file=figures if figures.exists() else None,
        curves=writing,
        published=published,
    )
    page = None
    if writing:
        from virtlab.report import write_report

        page = write_report(dataset, data=data)
    code = exit_code(ending, data)
    if as_json:
        say(_json(dataset, data, ending, page, code))
    else:
        _print(dataset, data, ending, page)
    return code, data, page


def exit_code(ending: Ending, data: Gathered) -> int:
    """1 a claim is refuted, 4 points lack good runs or claims are undecided, 0 otherwise."""
    rulings = {verdict.verdict for verdict in data.verdicts}
    if "refuted" in rulings:
        return 1
    return 4 if ending.lacking or "undecided" in rulings else 0


def _print(dataset: Dataset, data: Gathered, ending: Ending, page: Path | None) -> None:
    from virtlab.report.page.terminal import summary

    out = console()
    out.print(summary(dataset, data))
    if ending.why != "complete":
        out.print(f"[yellow]Stopped by the {ending.why}; the same command resumes.[/yellow]")
    elif ending.lacking:
        points = ", ".join(f"{point} ({why})" for point, why in list(ending.lacking.items())[:10])
        more = f" and {len(ending.lacking) - 10} more" if len(ending.lacking) > 10 else ""
        say(f"Points with too few good runs: {points}{more}.", err=True)
    _hint(dataset)
    say(f"\ndataset: {dataset.path}")
    if page is not None:
        say(f"report: {page}")


def _hint(dataset: Dataset) -> None:
    """Says so when the machine was too busy to measure well."""
    runs = dataset.runs()
    tainted = sum(record.status == "tainted" for record in runs)
    if tainted > len(runs) * BUSY_SHARE:
        say(
            f"{tainted} of {len(runs)} runs were tainted: probe or switch did not get the CPU in time. "
            "Stop other work on this machine; `virtlab doctor` measures how quiet it is.",
            err=True,
        )


def _json(dataset: Dataset, data: Gathered, ending: Ending, page: Path | None, code: int) -> str:

    from virtlab.report import as_json

    values: dict[str, Any] = as_json(dataset, page, data)
    values |= {
        "path": str(dataset.path),
        "ended": ending.why,
        "runs_made": ending.made,
        "lacking": {str(point): why for point, why in ending.lacking.items()},
        "exit_code": code,
    }
    return json_text(values, indent=2, allow_nan=False)
