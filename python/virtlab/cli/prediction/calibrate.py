"""`virtlab calibrate`: measures what this machine's platforms cost, and writes the profile."""

from __future__ import annotations

import dataclasses
import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.options import AsJson, ProfileName
from virtlab.folders import put
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.prediction.calibration.calibrate import Calibrated
    from virtlab.results import Dataset

app = typer.Typer(add_completion=False)


@app.command()
def calibrate(
    dataset: Annotated[
        Path | None,
        typer.Argument(
            help="a dataset with services in pools: their costs are fitted to it, and nothing is measured",
            show_default=False,
        ),
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option(help="the profile; default: that of `--profile local`", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="fewer, shorter runs: about two minutes")] = False,
    profile: ProfileName = None,
    as_json: AsJson = False,
) -> None:
    """Runs echoes and floods on the testbed, over a bridge and over switches, and fits the costs to them.

    Costs that the runs cannot tell apart are named: only their sum is known. Tainted runs are repeated; what this
    machine cannot play is left out.

    With a dataset, what services cost in its pools of processors is fitted to its runs; all other costs are those of
    --profile.

    Example: virtlab calibrate --quick
    """
    if dataset is not None:
        _to_dataset(dataset, output, profile, quick=quick, as_json=as_json)
        return
    if profile is not None:
        from virtlab.errors import ExperimentError

        cure = "name a dataset with services in pools to fit to, or leave it out"
        raise ExperimentError("--profile", "all costs are measured without a dataset", cure)
    import datetime
    import os

    from virtlab.campaign import CampaignObserver, Interruption, MachineLock, run_campaign
    from virtlab.campaign.progress import for_terminal
    from virtlab.errors import MachineError
    from virtlab.experiment import load_text
    from virtlab.planner import plan_run
    from virtlab.planner.queues.default_pushback import default_pushback
    from virtlab.prediction.calibration.calibrate import calibrate as fitted
    from virtlab.prediction.calibration.designs import designs
    from virtlab.prediction.calibration.rows import usable
    from virtlab.results import Dataset
    from virtlab.simulator.profile import local_file
    from virtlab.testbed import Testbed

    target = output or local_file()
    with _written(target), tempfile.TemporaryFile(dir=_folder_of(target)):
        pass  # that nothing can be written there is said before minutes of runs, not after them
    count = len(os.sched_getaffinity(0))
    backend = Testbed()
    able = backend.capabilities()
    with (
        Interruption() as interruption,
        tempfile.TemporaryDirectory(prefix="virtlab-calibrate-") as folder,
        MachineLock("calibrate") as lock,
    ):
        observer = CampaignObserver() if as_json else for_terminal(verbose=False)
        observer.cancellation = lambda: interruption.pending
        if not lock.acquire(wait=True, waiting=observer.waiting, cancelled=observer.cancelled):
            raise KeyboardInterrupt
        made: list[Dataset] = []
        left_out: dict[str, str] = {}
        pushback: set[str] = set()
        try:
            for name, text in designs(quick=quick, processors=count).items():
                experiment = load_text(text)
                if refusals := backend.check(plan_run(experiment, experiment.points()[0], 0)):
                    left_out[name] = refusals[0].reason
                    continue
                one = Dataset.create(
                    Path(folder) / f"{name}.results", text, name=experiment.name, seed=experiment.seed,
                    backend=able.backend, fingerprint=able.fingerprint, anonymise=True,
                )  # fmt: skip
                with one:
                    ending = run_campaign(experiment, one, backend, observer)
                    if ending.interrupted:
                        raise KeyboardInterrupt
                    if ending.failure:
                        raise MachineError("", ending.failure, "then calibrate again")
                made.append(one)
                pushback.add(default_pushback(experiment))
        finally:
            observer.ended()
        records = [record for one in made for record in usable(one)]
        every = sum(len(one.runs()) for one in made)
        provenance = {
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": ", ".join(f"{key} {value}" for key, value in sorted(able.fingerprint.items())),
            "runs": len(records),
            "runs_set_aside": every - len(records),
            "design": "quick" if quick else "full",
            "pushback": " and ".join(sorted(pushback)),
            "left_out": [f"{name}: {reason}" for name, reason in left_out.items()],
        }
        result = fitted(records, processors=count, provenance=provenance, name="local")
    with _written(target):
        put(target, result.profile.text().encode())
    _print(result, target, as_json=as_json)


def _to_dataset(folder: Path, target: Path | None, base: str | None, *, quick: bool, as_json: bool) -> None:
    import os

    from virtlab.errors import ExperimentError
    from virtlab.prediction.calibration.pools import of_dataset
    from virtlab.results import Dataset
    from virtlab.simulator.profile import chosen_profile

    if quick:
        raise ExperimentError("--quick", "with a dataset nothing is measured", "leave it out")
    if target is None:
        what = "the profile holds what services cost there, and would replace this machine's"
        raise ExperimentError("--output", what, "name a file, e.g. --output service.profile.toml")
    with _written(target), tempfile.TemporaryFile(dir=_folder_of(target)):
        pass
    found = of_dataset(
        Dataset.open(folder), chosen_profile(base), processors=len(os.sched_getaffinity(0)),
        name=target.name.partition(".")[0],
    )  # fmt: skip
    with _written(target):
        put(target, found.profile.text().encode())
    if as_json:
        about = {"profile": found.profile.identity, "file": str(target), **found.profile.fit}
        costs = [{"name": one, **dataclasses.asdict(found.profile.parameters[one])} for one in found.fitted]
        say(json_text({**about, "simulations": found.simulations, "parameters": costs}, indent=2))
        return
    say(f"{'cost':38} {'value':>10}  95 % interval")
    for name in found.fitted:
        one = found.profile.parameters[name]
        says = "" if one.identified else f"  not identified: {one.why}"
        say(f"{name:38} {one.value:10.4g}  {one.low:.4g} to {one.high:.4g}{says}")
    for metric, count, median, p90 in found.residuals():
        say(f"errors of {count} {metric}: median {median * 100:.1f} %, 90 % below {p90 * 100:.1f} %")
    say(f"{found.runs} runs, {found.simulations} simulations")
    if found.disturbed:
        say(
            f"{found.disturbed} runs in which other processes had much of a pool's processors: see `virtlab validate`"
        )
    say(f"profile {found.profile.identity}: {target}")


def _folder_of(target: Path) -> Path:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.parent


@contextmanager
def _written(target: Path) -> Iterator[None]:
    """MachineError where the profile cannot be written."""
    from virtlab.errors import MachineError

    try:
        yield
    except OSError as error:
        raise MachineError(
            str(target), f"cannot be written ({error.strerror})", "name another --output"
        ) from error


def _print(result: Calibrated, target: Path, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": one.name, "value": one.value, "low": one.low, "high": one.high, "unit": "ns",
            "identified": one.identified, "together": list(one.together), "seen": one.seen,
        }
        for one in result.fit.costs
    ]  # fmt: skip
    if as_json:
        about = {
            "profile": result.profile.identity,
            "file": str(target),
            "runs": result.runs,
            **result.profile.fit,
        }
        say(json_text({**about, "parameters": rows}, indent=2))
        return
    say(f"{'cost':38} {'ns':>10}  95 % interval")
    for row in rows:
        says = "" if row["identified"] else "  not identified: "
        if says:
            says += (
                f"only the sum with {', '.join(row['together'])}" if row["seen"] else "no run depends on it"
            )
        say(f"{row['name']:38} {row['value']:10.4g}  {row['low']:.4g} to {row['high']:.4g}{says}")
    for kind, (count, median, p90) in result.residuals.items():
        say(f"residuals of {count} {kind} rows: median {median:.4g} ns, 90 % below {p90:.4g} ns")
    for line in (*_busy(result), *_pinned(result)):
        say(line)
    for text in result.profile.provenance.get("left_out", ()):
        say(f"not measured: {text}")
    say(f"profile {result.profile.identity}: {target}")


def _busy(result: Calibrated) -> list[str]:
    """What busy neighbours add to an echo, and whether that could be measured."""
    found = result.contention
    if found.table is None or found.crossing is None:
        return [f"busy neighbours: {found.why}"]
    lines = [
        f"beside {pairs} busy pair{'s' if pairs > 1 else ''}: process {process / 1000:+.1f} us, path {path / 1000:+.1f} us"
        for pairs, (process, path) in (found.excess or {}).items()
    ]
    low, high = found.crossing.low, found.crossing.high
    interval = f" ({low:.4g} to {high:.4g})" if low is not None and high is not None else ""
    says = "" if found.crossing.identified else f"; {found.crossing.why}"
    return [
        *lines,
        f"a crossing while all processors are busy: {found.crossing.value:.4g} ns more{interval}{says}",
    ]


def _pinned(result: Calibrated) -> list[str]:
    """What being pinned to a processor adds to an echo over a router, and whether that could be measured."""
    found = result.steering
    if found.cost is None or found.added_ns is None:
        return [f"pinned routers: {found.why}"]
    low, high = found.cost.low, found.cost.high
    interval = f" ({low:.4g} to {high:.4g})" if low is not None and high is not None else ""
    says = "" if found.cost.identified else f"; {found.cost.why}"
    lines = [
        f"over a pinned router: path {found.added_ns / 1000:+.1f} us",
        f"steering a frame to a pinned router: {found.cost.value:.4g} ns{interval}{says}",
    ]
    if found.loaded_ns is not None:
        model = "" if found.modelled_ns is None else f", {found.modelled_ns / 1000:+.1f} us in the model"
        lines.append(f"and beside a load that it forwards: path {found.loaded_ns / 1000:+.1f} us{model}")
    return lines
