"""`virtlab predict`: what an experiment would measure, by simulation with a platform profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False)


@app.command()
def predict(
    file: Annotated[Path, typer.Argument(help="an experiment file", show_default=False)],
    *,
    metric: Annotated[
        str | None,
        typer.Option(
            help="ROLE.METRIC.STATISTIC; default: the mean of every measuring role's first metric",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="what platforms cost: ideal, local, a file; default: ideal", show_default=False),
    ] = None,
    points: Annotated[
        str | None, typer.Option(help="only these design points: 0,3-5 or 'load=30 kB'", show_default=False)
    ] = None,
    repetitions: Annotated[int, typer.Option(help="simulated runs per point", min=2)] = 5,
    explain: Annotated[
        bool, typer.Option("--explain", help="the answer as a sum of terms that adds up")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> None:
    """Predicts what an experiment would measure; nothing is built or kept.

    The intervals are over simulated runs with other seeds. They do not hold the model's own error, nor the
    uncertainty of the profile's parameters.

    Example: virtlab predict experiments/switched-network/quick.yaml --metric probe.rtt.mean --explain
    """
    from virtlab.campaign import select_points
    from virtlab.cli.settings import load_settings
    from virtlab.errors import ExperimentError
    from virtlab.experiment import load
    from virtlab.metrics import MetricPath
    from virtlab.prediction.explain import explain as explained
    from virtlab.prediction.simulate import simulate
    from virtlab.simulator.profile import load_profile
    from virtlab.stats import mean_interval

    costs = load_profile(load_settings(profile=profile).profile)
    experiment = load(file)
    selected = sorted(select_points(experiment.points(), points)) if points else None
    chosen = [point for point in experiment.points() if selected is None or point.index in selected]
    if metric is None and explain:
        raise ExperimentError(
            "--explain", "explains one metric", "name it with --metric ROLE.METRIC.STATISTIC"
        )
    try:
        path = MetricPath.parse(metric) if metric else None
    except ValueError as error:
        raise ExperimentError("--metric", str(error), "write e.g. probe.rtt.mean") from None
    found: list[dict[str, Any]] = []
    lines: list[str] = []
    if explain and path is not None:
        for point in chosen:
            terms, total = explained(experiment, costs, path, point.index, repetitions=repetitions)
            lines.append(f"{_levels(point.levels)}{path}")
            lines += [f"  {term.name:32} {term.estimate}" for term in terms] + [f"  {'total':32} {total}"]
            parts = [{"name": term.name, **_json(term.estimate)} for term in terms]
            found.append({"point": dict(point.levels), "metric": str(path), **_json(total), "terms": parts})
    else:
        table = simulate(experiment, costs, points=selected, repetitions=repetitions)
        paths = (
            [path]
            if path
            else [one for one in table.paths() if one.statistic == "mean" and one.metric in LEADING]
        )
        for point in chosen:
            for one in paths:
                values = table.values(one, point.levels)
                estimate = mean_interval(values, metric=one.metric, unit=one.unit)
                if estimate is None:
                    raise ExperimentError(str(one), "has no value in the simulation", "name another metric")
                lines.append(f"{_levels(point.levels)}{one}: {estimate}")
                found.append({"point": dict(point.levels), "metric": str(one), **_json(estimate)})
    if as_json:
        import json

        typer.echo(json.dumps({"profile": costs.identity, "predictions": found}, indent=2, allow_nan=False))
        return
    typer.echo(f"simulated with profile {costs.identity}, {repetitions} runs per point; not measured")
    for line in lines:
        typer.echo(line)


LEADING = frozenset({"rtt", "goodput", "response_time"})


def _levels(levels: Any) -> str:
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
