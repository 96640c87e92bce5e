"""`virtlab recommend`: the best level of one or several inputs, those as good, and those out of the question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.answers import tell
from virtlab.cli.options import AsJson, Confidence, Draws, ExperimentFile, MostRuns, OtherLevels, ProfileName
from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.prediction.questions.recommend import Recommendation

app = typer.Typer(add_completion=False)


@app.command()
def recommend(
    file: ExperimentFile,
    *,
    best: Annotated[
        str,
        typer.Option(
            help="what shall be best, e.g. 'rtt.mean'; 'max ...' or 'min ...' says which way",
            show_default=False,
        ),
    ],
    vary: Annotated[
        list[str],
        typer.Option(
            help="an input: a factor, or INPUT=LEVEL,LEVEL,... ; may be repeated", show_default=False
        ),
    ],
    subject_to: Annotated[
        list[str] | None,
        typer.Option(help="a limit to keep, e.g. 'loss <= 0.1 %'; may be repeated", show_default=False),
    ] = None,
    margin: Annotated[
        str, typer.Option(help="a difference that does not matter, as a share of the best")
    ] = "5 %",
    points: OtherLevels = None,
    confidence: Confidence = 0.95,
    runs: MostRuns = 30,
    draws: Draws = 8,
    profile: ProfileName = None,
    as_json: AsJson = False,
) -> None:
    """Finds the best level by simulation, once per combination of the other factors.

    Levels that fall behind get no more runs. Says of each whether it is equivalent to the best within the margin,
    worse, undecided, or breaks a limit. Exit code 4 when no candidate is shown to keep the limits.

    Example: virtlab recommend experiments/switched-network/qos.yaml --vary queues --best 'rtt.mean'
    """
    from virtlab.campaign import Interruption
    from virtlab.campaign.progress import CampaignObserver
    from virtlab.errors import ExperimentError
    from virtlab.experiment import load
    from virtlab.experiment.overrides import find_input
    from virtlab.prediction.questions.combinations import other_levels
    from virtlab.prediction.questions.limits import parse_limits, refuse_search
    from virtlab.prediction.questions.recommend import Choice, parse_goal
    from virtlab.simulator.profile import chosen_profile
    from virtlab.units import parse_quantity

    costs = chosen_profile(profile)
    experiment = load(file)
    refuse_search(experiment)
    roles = experiment.role_workloads()
    goal = parse_goal(best, roles, "--best")
    limits = parse_limits(subject_to or (), roles, "--subject-to")
    try:
        share = parse_quantity(margin, "ratio")
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise ExperimentError("--margin", what, cure) from None
    if not 0 <= share < 1:
        raise ExperimentError("--margin", f"'{margin}' is not a share", "write e.g. '5 %'")
    varied = {}
    for text in vary:
        name, _, written = text.partition("=")
        one = find_input(experiment, name.strip())
        levels = [" ".join(level.split()) for level in written.split(",")] if written else list(one.levels)
        if not levels:
            raise ExperimentError(
                f"--vary {name}", "is not a factor", f"write its levels: --vary '{name}=1,2,4'"
            )
        varied[one] = list(dict.fromkeys(levels))
    names = [one.name for one in varied if one.place is None]
    shown = sys.stderr.isatty() and not as_json
    found: list[Recommendation] = []
    with Interruption() as interruption:
        observer = CampaignObserver()
        observer.cancellation = lambda: interruption.pending
        for others in other_levels(experiment, names, points or ()):
            choice = Choice(
                experiment, costs, varied, others, goal, limits, confidence, share, runs, draws, observer,
                say=lambda text: say(text, err=True) if shown else None,
            )  # fmt: skip
            found.append(choice.answer())
    tell(found, costs.identity, as_json=as_json, json_of=_json, lines_of=_lines)
    if any(each.best is None for each in found):
        raise typer.Exit(4)


def _levels(levels: Any) -> str:
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def _lines(recommendation: Recommendation) -> list[str]:
    from virtlab.units import show_quantity

    subject = f", subject to {' and '.join(map(str, recommendation.limits))}" if recommendation.limits else ""
    head = f"{_levels(recommendation.others)}: " if recommendation.others else ""
    lines = [f"{head}{recommendation.goal}{subject}"]
    sure = f"at {recommendation.confidence * 100:g} % confidence"
    if recommendation.best is None:
        lines.append(f"  no candidate is shown to keep the limits, {sure}")
    else:
        alike = sum(each.standing == "equivalent" for each in recommendation.candidates)
        also = f"; {alike} equivalent within {recommendation.margin * 100:g} %" if alike else ""
        open_ = sum(each.standing == "undecided" for each in recommendation.candidates)
        more = f"; {open_} not distinguished from it" if open_ else ""
        lines.append(f"  best: {_levels(recommendation.best.levels)}, {sure}{also}{more}")
    wide = max(len(_levels(each.levels)) for each in recommendation.candidates)
    for each in recommendation.candidates:
        text = str(each.estimate) if each.estimate is not None else f"no value: {each.missing}"
        if each.difference is not None:
            way = "+" if each.difference.point > 0 else ""
            text += f"; {way}{show_quantity(each.difference.point, each.difference.unit, 3)} to the best"
        why = f"; breaks {', '.join(map(str, each.broken))}" if each.broken else ""
        if each.standing == "not shown feasible":
            seen = ", ".join(
                f"{limit} ({estimate})"
                for limit, estimate in zip(recommendation.limits, each.constraints, strict=True)
                if estimate
            )
            why = f"; not shown: {seen}"
        lines.append(f"    {_levels(each.levels):{wide}}  {each.standing:18} {text}{why}")
    drawn = f" and {recommendation.drawn} with the profile's parameters drawn" if recommendation.drawn else ""
    lines.append(
        f"  {recommendation.simulations} simulations{drawn}, of {len(recommendation.candidates)} candidates"
    )
    return lines


def _json(recommendation: Recommendation) -> dict[str, Any]:
    def estimate_json(estimate: Any) -> dict[str, Any] | None:
        return None if estimate is None else {
            "value": estimate.point, "low": estimate.low, "high": estimate.high, "unit": estimate.unit, "n": estimate.n,
        }  # fmt: skip

    return {
        "others": dict(recommendation.others), "goal": str(recommendation.goal), "better": recommendation.goal.better,
        "limits": [str(limit) for limit in recommendation.limits],
        "confidence": recommendation.confidence, "margin": recommendation.margin,
        "best": None if recommendation.best is None else dict(recommendation.best.levels),
        "candidates": [
            {
                "levels": dict(each.levels), "standing": each.standing, "runs": each.runs,
                "estimate": estimate_json(each.estimate), "difference": estimate_json(each.difference),
                "constraints": [estimate_json(found) for found in each.constraints],
                "broken": [str(limit) for limit in each.broken], "missing": each.missing,
            }
            for each in recommendation.candidates
        ],
        "simulations": recommendation.simulations, "drawn_simulations": recommendation.drawn,
    }  # fmt: skip
