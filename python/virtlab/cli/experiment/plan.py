"""`virtlab plan`: the runs and their order; or one run's Plan and the Steps it becomes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.options import AsJson, ExperimentFile, Yes
from virtlab.errors import ExperimentError
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtlab.experiment import DesignPoint, Experiment
    from virtlab.plan import Plan

app = typer.Typer(add_completion=False)
SHOWN = 40


@app.command()
def plan(
    file: ExperimentFile,
    *,
    point: Annotated[
        int | None,
        typer.Option("--point", help="show this design point's Plan and Steps", show_default=False),
    ] = None,
    repetition: Annotated[int, typer.Option("--repetition", help="of that point, from 0", min=0)] = 0,
    everything: Annotated[
        bool, typer.Option("--all", help=f"list every run, not only the first {SHOWN}")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Shows the runs of an experiment in their order, about how long they take and what they keep; nothing is built.

    The order is drawn from the file's seed: each round holds every design point once, in another random order, so that
    a slow drift of the machine meets all points alike.

    With --point N: the full Plan of that design point as JSON, then the Steps that the testbed makes of it,
    each with the object of the Plan and the place of the file that requires it.

    Examples:

        virtlab plan experiments/switched-network/quick.yaml

        virtlab plan experiments/switched-network/quick.yaml --point 4 --repetition 2
    """
    from virtlab.experiment import load
    from virtlab.experiment.experiment import RUNS_MAX

    experiment = load(file, runs_max=None if yes else RUNS_MAX)
    if point is not None:
        _show_point(experiment, _point(experiment, point), repetition, as_json=as_json)
    elif as_json:
        _print_json(_runs_json(experiment, everything=everything))
    else:
        say("\n".join(_runs_text(file, experiment, everything=everything)))


def _point(experiment: Experiment, index: int) -> DesignPoint:
    points = experiment.points()
    if not 0 <= index < len(points):
        raise ExperimentError(
            "--point", f"there is no design point {index}", f"write a number from 0 to {len(points) - 1}"
        )
    return points[index]


def _print_json(values: Any) -> None:

    say(json_text(values, indent=2))


def _runs(experiment: Experiment) -> Iterator[tuple[int, DesignPoint]]:
    """(repetition, point) of every planned repetition, in order."""
    from virtlab.planner.order import round_order

    points = experiment.points()
    levels = [point.levels for point in points]
    for repetition in range(experiment.repeat.minimum):
        for index in round_order(experiment.seed, repetition, levels):
            yield repetition, points[index]


def _runs_json(experiment: Experiment, *, everything: bool) -> dict[str, Any]:
    from virtlab.cli.guest_commands import executed
    from virtlab.plan.seeds import run_seed
    from virtlab.planner.estimate import estimate_points

    costs = estimate_points(experiment)
    count = len(costs) * experiment.repeat.minimum
    runs = [
        {
            "run": f"p{point.index:04}-r{repetition:02}-a0", "point": point.index, "repetition": repetition,
            "levels": dict(point.levels), "seed": run_seed(experiment.seed, point.levels, repetition),
            "time_ns": costs[point.index].time_ns, "disk_bytes": costs[point.index].disk_bytes,
        }
        for repetition, point in islice(_runs(experiment), None if everything else SHOWN)
    ]  # fmt: skip
    return {
        "name": experiment.name, "points": len(costs), "runs": count,
        "runs_at_most": len(costs) * experiment.repeat.maximum,
        "time_ns": sum(cost.time_ns for cost in costs) * experiment.repeat.minimum,
        "disk_bytes": sum(cost.disk_bytes for cost in costs) * experiment.repeat.minimum,
        "commands": [each.json() for each in executed(experiment)],
        "order": runs,
    }  # fmt: skip


def _runs_text(file: Path, experiment: Experiment, *, everything: bool) -> Iterator[str]:
    from virtlab.cli.guest_commands import lines
    from virtlab.planner.estimate import about_bytes, about_time, estimate_points

    costs = estimate_points(experiment)
    repeat = experiment.repeat
    count = len(costs) * repeat.minimum
    factors = list(experiment.factors)
    widths = [
        max(len(name), *(len(level) for level in levels)) for name, levels in experiment.factors.items()
    ]
    yield f"{experiment.title}: {len(costs)} design points, {count} runs"
    yield ""
    head = "  ".join(name.ljust(width) for name, width in zip(factors, widths, strict=True))
    yield f"{'#':>5}  {'run':<9}  {head}  {'time':>10}".rstrip()
    for number, (repetition, point) in enumerate(
        islice(_runs(experiment), None if everything else SHOWN), start=1
    ):
        levels = "  ".join(
            point.levels[name].ljust(width) for name, width in zip(factors, widths, strict=True)
        )
        yield f"{number:>5}  p{point.index:04}-r{repetition:02}  {levels}  {about_time(costs[point.index].time_ns):>10}"
    if count > SHOWN and not everything:
        yield f"{'...':>5}  and {count - SHOWN} more (--all lists them)"
    if repeat.until is not None:
        yield f"       then up to {repeat.maximum} of each point, until {repeat.until.metric} is known within "
        yield f"       +-{repeat.until.relative_interval:.3g} of its value"
    yield ""
    time_ns = sum(cost.time_ns for cost in costs) * repeat.minimum
    disk_bytes = sum(cost.disk_bytes for cost in costs) * repeat.minimum
    bound = f", and begins no run after {about_time(repeat.time_ns)}" if repeat.time_ns is not None else ""
    yield f"needs about {about_time(time_ns)} and {about_bytes(disk_bytes)} on disk{bound}"
    for number, text in enumerate(lines(experiment)):
        yield f"{'' if number else 'executes':10}{text}"
    yield f"one point in full: virtlab plan {file} --point 0"


def _show_point(experiment: Experiment, point: DesignPoint, repetition: int, *, as_json: bool) -> None:
    import json

    from virtlab.planner import plan_run
    from virtlab.testbed.build.lower import lower
    from virtlab.testbed.build.ports import as_built
    from virtlab.testbed.kinds.findings import Machine

    made = plan_run(experiment, point, repetition)
    values = json.loads(made.canonical())
    steps = lower(as_built(made, Machine().link)).steps
    if as_json:
        listed = [
            {**step.op.json(), "because": step.because, "file": because_of(made, step.because)}
            for step in steps
        ]
        _print_json({"identity": made.identity(), "plan": values, "steps": listed})
        return
    _print_json(values)
    say(f"\nPlan {made.identity()[:16]} of point {point.index} ({point}), repetition {repetition}")
    say(
        f"{len(steps)} Steps build it with the soft switch; '<-' the object of the Plan, '<=' the place in the file:\n"
    )
    for step in steps:
        place = because_of(made, step.because)
        say(f"  {step}" + (f" <= {place}" if place else ""))


def because_of(plan: Plan, path: str) -> str:
    """The place of the file that requires an object of the Plan, or what contains it; '' when none is known."""
    while path:
        if path in plan.because:
            return plan.because[path]
        path = path.rpartition(".")[0]
    return ""
