"""`virtlab predict`: what an experiment would measure, by simulation with a platform profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.options import AsJson, DesignPoints, ExperimentFile, ProfileName
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.experiment import DesignPoint, Experiment
    from virtlab.metrics import MetricPath
    from virtlab.simulator.profile import Profile

app = typer.Typer(add_completion=False)


@app.command()
def predict(
    file: ExperimentFile,
    *,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE.METRIC.STATISTIC, may be repeated; default: the means of rtt, goodput and response_time",
            show_default=False,
        ),
    ] = None,
    profile: ProfileName = None,
    points: DesignPoints = None,
    repetitions: Annotated[int, typer.Option(help="simulated runs per point", min=2)] = 5,
    draws: Annotated[
        int,
        typer.Option(
            help="runs per point with the profile's parameters drawn from their intervals; 0: none", min=0
        ),
    ] = 20,
    explain: Annotated[
        bool, typer.Option("--explain", help="the answer as a sum of terms that adds up")
    ] = False,
    effects: Annotated[
        bool,
        typer.Option("--effects", help="what one more switch, and one more guest on every host, would do"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predicts what an experiment would measure; nothing is built or kept.

    The intervals are over simulated runs with other seeds, and over the profile's parameters where it has intervals.
    They do not hold the model's own error: `virtlab validate` says how large that is.

    Example: virtlab predict experiments/switched-network/quick.yaml --metric probe.rtt.mean --explain
    """
    from virtlab.campaign import select_points
    from virtlab.errors import ExperimentError
    from virtlab.experiment import load
    from virtlab.prediction.questions.limits import measuring_path, refuse_search
    from virtlab.simulator.profile import chosen_profile

    costs = chosen_profile(profile)
    experiment = load(file)
    selected = sorted(select_points(experiment.points(), *points)) if points else None
    chosen = [point for point in experiment.points() if selected is None or point.index in selected]
    refuse_search(experiment)
    if not metric and explain:
        raise ExperimentError(
            "--explain", "explains a metric that is named", "name it with --metric ROLE.METRIC.STATISTIC"
        )
    if explain and effects:
        raise ExperimentError("--effects", "and --explain are two questions", "ask one at a time")
    workloads = experiment.role_workloads()
    paths = [measuring_path(one, workloads, "--metric") for one in dict.fromkeys(metric or ())]
    moves: list[dict[str, Any]] = []
    if effects:
        wanted: list[MetricPath | None] = [*paths] or [None]
        answers = [_effects(experiment, costs, path, chosen, repetitions) for path in wanted]
    elif explain:
        answers = [_explained(experiment, costs, path, chosen, repetitions, draws) for path in paths]
    else:
        answers = [predicted(experiment, costs, paths, chosen, repetitions, draws)]
        moves, told = moving(experiment, costs, chosen)
        answers.append(([], told))
    found = [one for each, _ in answers for one in each]
    lines = [line for _, each in answers for line in each]
    if as_json:
        answer = {"profile": costs.identity, "predictions": found} | ({"moves": moves} if moves else {})
        say(json_text(answer, indent=2, allow_nan=False))
        return
    say(f"simulated with profile {costs.identity}, {repetitions} runs per point; not measured")
    for line in lines:
        say(line)


LEADING = frozenset({"rtt", "goodput", "response_time"})
Answer = tuple[list[dict[str, Any]], list[str]]


def predicted(
    experiment: Experiment, costs: Profile, chosen: Sequence[MetricPath], points: Sequence[DesignPoint],
    repetitions: int, draws: int,
) -> Answer:  # fmt: skip
    """Every prediction as plain values, and a line for each; of the leading means where no metric is asked of."""
    from virtlab.errors import ExperimentError
    from virtlab.planner import plan_run
    from virtlab.prediction.bound import Bound, bounds_of
    from virtlab.prediction.simulation.simulate import simulate
    from virtlab.prediction.simulation.uncertainty import combined, drawn_values, has_intervals
    from virtlab.units import show_quantity

    table = simulate(experiment, costs, points=[point.index for point in points], repetitions=repetitions)
    paths = chosen or [one for one in table.paths() if one.statistic == "mean" and one.metric in LEADING]
    indices = {point.index for point in points}
    for one in chosen:
        if not any(row.value is not None for row in table.of(one).values() if row.point in indices):
            raise ExperimentError(str(one), "has no value in the simulation", "name another metric")
    found, lines = [], []
    for point in points:
        unsure: list[Mapping[MetricPath, float]] = []
        if draws >= 2 and has_intervals(costs):
            unsure = drawn_values(experiment, point, costs, draws=draws, repetitions=repetitions)
        plan = plan_run(experiment, point, 0)
        bounds = bounds_of(plan, costs)
        for one in paths:
            by_repetition = {
                row.repetition: row.value for row in table.of(one).values() if row.point == point.index
            }
            values = [value for _, value in sorted(by_repetition.items()) if value is not None]
            if not values:  # of a role that is not there at this point: a load of zero
                lines += [f"{_levels(point.levels)}{one}: no value"] if one in chosen else []
                continue
            shifts = [
                each[one] - nominal
                for at, each in enumerate(unsure)
                if one in each and (nominal := by_repetition.get(at % repetitions)) is not None
            ]
            whole = combined(values, shifts, level=0.95, metric=one.metric, unit=one.unit)
            line = f"{_levels(point.levels)}{one}: {whole.estimate}"
            if whole.parameters_half is not None and whole.runs_half is not None:
                parts = (
                    show_quantity(half, one.unit, 3) for half in (whole.runs_half, whole.parameters_half)
                )
                line += "; runs ± {}, parameters ± {}".format(*parts)
            bound = bounds.get(one.role) if one.metric == "rtt" else None
            if isinstance(bound, Bound):
                line += f"; no echo above {show_quantity(bound.ns, 'ns')} ({bound.words})"
            lines.append(line)
            found.append(
                {
                    "point": dict(point.levels), "metric": str(one), **_json(whole.estimate),
                    "runs_half_width": whole.runs_half, "parameters_half_width": whole.parameters_half,
                    "bound_ns": bound.ns if isinstance(bound, Bound) else None,
                    "bound_quantile": bound.quantile if isinstance(bound, Bound) else None,
                    "no_bound": bound if isinstance(bound, str) else "",
                }
            )  # fmt: skip
    return found, lines


def moving(experiment: Experiment, costs: Profile, points: Sequence[DesignPoint]) -> Answer:
    """What would be enough for each guest that moves, as plain values, and a line for each."""
    from virtlab.planner import plan_run
    from virtlab.prediction.migration.enough import enough

    found, lines = [], []
    for point in points:
        for move in enough(plan_run(experiment, point, 0), costs):
            lines.append(f"{_levels(point.levels)}{move.line()}")
            found.append(
                {
                    "point": dict(point.levels), "move": move.action, "guest": move.guest,
                    "enough": None if move.least is None else asdict(move.least),
                }
            )  # fmt: skip
    return found, lines


def _explained(
    experiment: Experiment, costs: Profile, path: MetricPath, points: Sequence[DesignPoint], repetitions: int,
    draws: int,
) -> Answer:  # fmt: skip
    from virtlab.prediction.questions.explain import explain

    found, lines = [], []
    for point in points:
        terms, total = explain(experiment, costs, path, point.index, repetitions=repetitions, draws=draws)
        lines.append(f"{_levels(point.levels)}{path}")
        lines += [f"  {term.name:32} {term.estimate}" for term in terms] + [f"  {'total':32} {total}"]
        parts = [{"name": term.name, **_json(term.estimate)} for term in terms]
        found.append({"point": dict(point.levels), "metric": str(path), **_json(total), "terms": parts})
    return found, lines


def _effects(
    experiment: Experiment,
    costs: Profile,
    path: MetricPath | None,
    points: Sequence[DesignPoint],
    repetitions: int,
) -> Answer:
    from virtlab.prediction.questions.effects import predicted_effects

    found, lines = [], []
    for point in points:
        lines.append(_levels(point.levels).removesuffix(": ") or "the only point")
        for one in predicted_effects(experiment, costs, point.levels, repetitions=repetitions):
            if path is not None and one.path not in {None, path}:
                continue
            what = (
                "one more switch"
                if one.added == "switch"
                else f"one more guest on every host ({one.how or 'idle'})"
            )
            shown = str(one.estimate) if one.estimate is not None else one.why
            sign = "+" if one.estimate is not None and one.estimate.point > 0 else ""
            lines.append(f"  {what}: {one.path or ''} {sign}{shown}".replace(":  ", ": "))
            found.append(
                {
                    "point": dict(point.levels), "one_more": one.added, "how": one.how,
                    "metric": None if one.path is None else str(one.path),
                    "effect": None if one.estimate is None else _json(one.estimate),
                    "before": None if one.base is None else _json(one.base), "why": one.why,
                }
            )  # fmt: skip
    return found, lines


def _levels(levels: Mapping[str, str]) -> str:
    text = ", ".join(f"{name} = {level}" for name, level in levels.items())
    return f"{text}: " if text else ""


def _json(estimate: Any) -> dict[str, Any]:
    return {
        "unit": estimate.unit,
        "value": estimate.point,
        "low": estimate.low,
        "high": estimate.high,
        "level": estimate.level,
        "n": estimate.n,
    }
