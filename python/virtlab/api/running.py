"""Running an experiment from Python: in a thread of its own, so that a notebook's event loop stays free of it.

Ctrl-C (KeyboardInterrupt) asks the current run to end; the world is taken down before the exception is raised again.
The same call resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from virtlab.api.building import given
from virtlab.api.results import Results
from virtlab.errors import MachineError

if TYPE_CHECKING:
    from virtlab.campaign import Ending
    from virtlab.experiment import Experiment
    from virtlab.results import Dataset

Made = TypeVar("Made")
ASK_S = 0.2


def run(
    experiment: str | Path | Experiment,
    *,
    backend: str | None = None,
    inside: str | None = None,
    profile: str | None = None,
    dataset: str | Path | None = None,
    points: str | None = None,
    max_runs: int | None = None,
    retry: bool = False,
    wait: bool | None = None,
    anonymise: bool | None = None,
    allow_exec: bool = False,
    progress: bool = False,
) -> Results:
    """Runs an experiment, or resumes it, and returns its results: the same call never repeats or loses a finished run.

    The options are those of `virtlab run`. Where `backend`, `profile`, `wait` or `anonymise` is None, its environment
    variable counts, then the settings.

    - `experiment`: a file, or an experiment built in Python
    - `backend`: what plays the runs, `"testbed"` (the default) or `"simulator"`
    - `inside`: where the testbed is built, `"lab-vm"` or `"xen"`; None: on this machine
    - `profile`: what platforms cost in the simulator, `"ideal"`, `"local"` or a file
    - `dataset`: the folder of the dataset; None: NAME.results in the folder that `VIRTLAB_RESULTS` or the settings name
    - `points`: only these design points, `"0,3-5"` or `"load=30 kB"`
    - `max_runs`: end after so many runs; the same call resumes
    - `retry`: give failed runs new attempts, once their cause is fixed
    - `wait`: wait while another run holds this machine
    - `anonymise`: leave the machine's name out of a new dataset
    - `allow_exec`: let the file's commands run in guests that share this machine's files
    - `progress`: print a line per run on standard error

    MachineError when this machine cannot, ExperimentError for commands without `allow_exec`, KeyboardInterrupt when it
    was interrupted.
    """
    from virtlab.campaign import CampaignObserver, play, refused, select_points
    from virtlab.campaign.progress import PlainProgress
    from virtlab.cli.experiment.run import Closable, made_backend
    from virtlab.cli.guest_commands import refuse_unless_allowed
    from virtlab.settings import load_settings

    found = given(experiment)
    settings = load_settings(backend=backend, profile=profile, wait=wait, anonymise=anonymise)
    selected = select_points(found.points(), points) if points else None
    path = Path(dataset) if dataset is not None else Path(settings.results) / f"{found.name}.results"
    if settings.backend == "testbed" and inside is None:
        refuse_unless_allowed(found, selected, allowed=allow_exec)
    player = made_backend(settings.backend, settings.profile, inside)
    observer = PlainProgress() if progress else CampaignObserver()

    def made() -> tuple[Dataset, Ending]:
        try:
            if reasons := refused(found, player, selected):
                count = len(found.points()) if selected is None else len(selected)
                what = "cannot be run here: " + " | ".join(each.text(count) for each in reasons)
                raise MachineError(found.name, what, "fix that, or see `virtlab doctor`")
            return play(
                found, player, path, observer, wait=settings.wait, anonymise=settings.anonymise, points=selected,
                run_limit=max_runs, retry=retry,
            )  # fmt: skip
        finally:
            if isinstance(player, Closable):
                player.close()

    opened, ending = _interruptible(made, observer)
    if ending.interrupted:
        raise KeyboardInterrupt
    if ending.failure:
        raise MachineError("", ending.failure, "the same call resumes")
    return Results(opened, ending)


def _interruptible(act: Callable[[], Made], observer: Any) -> Made:
    """What the act returns, done in a thread; KeyboardInterrupt is handed to it by the observer, and waits for its
    end.
    """
    asked, ended, found = Event(), Event(), list[Made]()
    errors: list[BaseException] = []
    observer.cancellation = asked.is_set

    def acting() -> None:
        try:
            found.append(act())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    Thread(target=acting, name="virtlab-run").start()
    interrupted = False
    # Not `Thread.join`: interrupted, it takes a running thread for one that ended (Python 3.11 and 3.12).
    while not ended.is_set():
        try:
            ended.wait(ASK_S)
        except KeyboardInterrupt:
            interrupted = True
            asked.set()
    if interrupted:
        raise KeyboardInterrupt
    if errors:
        raise errors[0]
    return found[0]
