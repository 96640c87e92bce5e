"""`virtlab validate`: how far predictions are from a dataset's measurements, one factor level left out at a time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.options import DatasetFolder
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.prediction.validation import Summary, Validation

app = typer.Typer(add_completion=False)


@app.command()
def validate(
    dataset: DatasetFolder,
    *,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE.METRIC.STATISTIC; may be repeated; default: delay, jitter, throughput",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="hold this profile (ideal, local, a file) instead of refitting", show_default=False
        ),
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(
            help="simulated runs per design point; default: as measured, 5 at most", min=1, show_default=False
        ),
    ] = None,
    per_level: Annotated[
        int, typer.Option(help="design points predicted of each left-out level", min=1)
    ] = 12,
    as_json: Annotated[
        bool, typer.Option("--json", help="print as JSON, every left-out cell included")
    ] = False,
) -> None:
    """Leaves one factor level out at a time, refits costs to the rest, predicts it, and prints the error.

    It also prints the error of the naive guess: the measured value at the nearest other level. The goal is a
    median error of at most 10 %; it is printed whether it is reached or missed.

    Example: virtlab validate switched-network-quick.results
    """
    import os

    from virtlab.experiment import load_text
    from virtlab.prediction.questions.limits import measuring_path
    from virtlab.prediction.validation import validate as validated
    from virtlab.results import Dataset
    from virtlab.simulator.profile import load_profile

    opened = Dataset.open(dataset)
    roles = load_text(opened.experiment_text, runs_max=None).role_workloads()
    paths = [measuring_path(text, roles, "--metric") for text in metric or ()]
    shown = sys.stderr.isatty() and not as_json
    found = validated(
        opened, profile=None if profile is None else load_profile(profile), paths=paths, repetitions=repetitions,
        per_level=per_level, processors=len(os.sched_getaffinity(0)),
        say=lambda text: say(text, err=True) if shown else None,
    )  # fmt: skip
    if as_json:
        say(json_text(_json(found), indent=2, allow_nan=False))
        return
    say("\n".join(_lines(found)))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def _row(summary: Summary) -> str:
    reaches = ", ".join(
        f"{kind} {_share(median)} of {count}" for kind, (count, median) in summary.reaches.items()
    )
    name = summary.factor or "all factors"
    return (
        f"  {name:16} {summary.path!s:32} {_share(summary.median):>8} {_share(summary.p90):>8} "
        f"{_share(summary.naive_median):>8} {_share(summary.noise):>8}  {reaches}"
    )


def _lines(validation: Validation) -> list[str]:
    from virtlab.prediction.validation import GOAL

    lines = [
        f"{validation.dataset} ({validation.backend}): one factor level left out at a time, {validation.how}"
    ]
    realisations = list(dict.fromkeys(one.realisation for one in validation.overall))
    for realisation in realisations:
        if len(realisations) > 1:
            lines.append(f"links by {realisation}:")
        lines.append(f"  {'left out':16} {'metric':32} {'error':>8} {'90 %':>8} {'nearest':>8} {'noise':>8}")
        lines += [_row(one) for one in validation.per_factor if one.realisation == realisation]
        for one in validation.overall:
            if one.realisation == realisation:
                lines.append(_row(one))
                verdict = "reached" if one.reached else "missed"
                lines.append(f"    median error {_share(one.median)}; goal {GOAL * 100:g} %: {verdict}")
    lines += [f"note: {note}" for note in validation.notes]
    lines.append(
        "error: median of |predicted - measured| / measured; nearest: the same of the nearest measured level; "
        "noise: half the width of the measured interval"
    )
    lines.append(f"{len(validation.errors)} left-out cells, {validation.simulations} simulations")
    return lines


def _json(validation: Validation) -> dict[str, Any]:
    from virtlab.prediction.validation import GOAL

    def summary(errors: Summary) -> dict[str, Any]:
        return {
            "factor": errors.factor or None, "metric": str(errors.path), "realisation": errors.realisation,
            "median_error": errors.median, "p90_error": errors.p90, "nearest_median_error": errors.naive_median,
            "noise": errors.noise, "cells": errors.cells, "goal": GOAL, "reached": errors.reached,
            "reaches": {kind: {"cells": count, "median_error": median} for kind, (count, median) in errors.reaches.items()},
        }  # fmt: skip

    return {
        "dataset": validation.dataset, "backend": validation.backend, "how": validation.how,
        "per_factor": [summary(one) for one in validation.per_factor],
        "overall": [summary(one) for one in validation.overall],
        "cells": [
            {
                "factor": one.factor, "level": one.level, "point": dict(one.point), "metric": str(one.path),
                "realisation": one.realisation, "reach": one.reach, "unit": one.path.unit, "measured": one.measured,
                "predicted": one.predicted, "nearest": one.nearest, "error": one.ratio,
                "nearest_error": one.naive_ratio,
            }
            for one in validation.errors
        ],
        "notes": list(validation.notes), "simulations": validation.simulations,
    }  # fmt: skip
