"""`virtlab capacity`: the largest level of an input that keeps limits, by simulation, and what limits it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.answers import tell
from virtlab.cli.options import AsJson, Confidence, Draws, ExperimentFile, MostRuns, OtherLevels, ProfileName
from virtlab.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from virtlab.experiment import Experiment
    from virtlab.experiment.overrides import Input
    from virtlab.prediction.questions.capacity import Capacity
    from virtlab.simulator.profile import Profile

app = typer.Typer(add_completion=False)


@app.command()
def capacity(
    file: ExperimentFile,
    *,
    until: Annotated[
        list[str],
        typer.Option(help="a limit to keep, e.g. 'rtt.p99 < 5 ms'; may be repeated", show_default=False),
    ],
    vary: Annotated[
        str,
        typer.Option(
            help="the input: a factor, or a place such as host.guests or load.burst", show_default=False
        ),
    ],
    first: Annotated[str | None, typer.Option("--from", help="the lowest level", show_default=False)] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to", help="the highest level; default: a factor's own levels, else open", show_default=False
        ),
    ] = None,
    step: Annotated[str | None, typer.Option(help="from one level to the next", show_default=False)] = None,
    carrying: Annotated[
        list[str] | None,
        typer.Option(
            help="a role that every added guest carries once more, where guests vary; may be repeated",
            show_default=False,
        ),
    ] = None,
    points: OtherLevels = None,
    confidence: Confidence = 0.95,
    runs: MostRuns = 30,
    draws: Draws = 8,
    profile: ProfileName = None,
    as_json: AsJson = False,
) -> None:
    """Finds the largest level of an input that keeps all limits, once per combination of the other factors.

    The answer is an interval: the largest level shown to keep the limits, the smallest above it shown to break one.
    Exit code 4 when no level keeps them somewhere, or the order of levels does not hold.

    Example: virtlab capacity experiments/switched-network/quick.yaml --until 'rtt.p99 < 5 ms' --vary load
    """
    from virtlab.experiment import load
    from virtlab.experiment.overrides import find_input
    from virtlab.simulator.profile import chosen_profile

    costs = chosen_profile(profile)
    experiment = load(file)
    found = answers(
        experiment, costs, until=until, vary=vary, first=first, last=last, step=step, carrying=carrying or (),
        points=points or (), confidence=confidence, runs=runs, draws=draws, shown=sys.stderr.isatty() and not as_json,
    )  # fmt: skip
    tell(found, costs.identity, as_json=as_json, json_of=_json, lines_of=_lines)
    if not carrying and not as_json and _guests(find_input(experiment, vary)):
        say("note: added guests are idle; --carrying ROLE gives each of them that role")
    if any(each.largest is None or each.violations for each in found):
        raise typer.Exit(4)


def answers(
    experiment: Experiment,
    costs: Profile,
    *,
    until: Sequence[str],
    vary: str,
    first: str | None = None,
    last: str | None = None,
    step: str | None = None,
    carrying: Sequence[str] = (),
    points: Sequence[str] = (),
    confidence: float = 0.95,
    runs: int = 30,
    draws: int = 8,
    shown: bool = False,
) -> list[Capacity]:
    """One answer per combination of the other factors; `shown`: what is tried is printed on standard error."""
    from virtlab.campaign import Interruption
    from virtlab.campaign.progress import CampaignObserver
    from virtlab.errors import ExperimentError
    from virtlab.experiment.overrides import find_input
    from virtlab.prediction.questions.capacity import Question, ordered_levels
    from virtlab.prediction.questions.combinations import other_levels, present
    from virtlab.prediction.questions.limits import parse_limits, refuse_search

    refuse_search(experiment)
    limits = parse_limits(until, experiment.role_workloads(), "--until")
    one = find_input(experiment, vary)
    levels, open_end = ordered_levels(one, first=first, last=last, step=step)
    if carrying and not _guests(one):
        raise ExperimentError(
            "--carrying", f"{one.label} is not a number of guests", "write --vary host.guests"
        )
    own = one.place is None and (first, last, step) == (None, None, None)  # the file's own levels
    found: list[Capacity] = []
    with Interruption() as interruption:
        observer = CampaignObserver()
        observer.cancellation = lambda: interruption.pending
        for others in other_levels(experiment, [one.name] if one.place is None else [], points):
            some = present(experiment, one.name, levels, others) if own else levels
            question = Question(
                experiment, costs, one, some, others, limits, confidence, runs, open_end, carrying, draws, observer,
                say=lambda text: say(text, err=True) if shown else None,
            )  # fmt: skip
            found.append(question.answer())
    return found


def _guests(factor: Input) -> bool:
    return factor.place is not None and factor.place[-1] == "guests"


def _lines(capacity: Capacity) -> list[str]:
    from virtlab.prediction.questions.capacity import STATES
    from virtlab.units import show_quantity

    head = ", ".join(f"{name} = {level}" for name, level in capacity.others.items())
    limits = " and ".join(map(str, capacity.limits))
    lines = [f"{head}: {limits}" if head else limits]
    sure = f"at {capacity.confidence * 100:g} % confidence"
    if capacity.largest is None:
        lines.append(f"  no level of {capacity.input} is shown to keep it, {sure}")
    else:
        beyond = (
            f"; {capacity.smallest_broken} breaks it"
            if capacity.smallest_broken
            else "; no level was shown to break it"
        )
        lines.append(f"  largest {capacity.input}: {capacity.largest}, {sure}{beyond}")
    if capacity.undecided:
        lines.append(f"  undecided after the most runs: {', '.join(capacity.undecided)}; --runs takes more")
    if capacity.violations:
        lines.append(
            f"  not monotone: {', '.join(capacity.violations)} breaks the limit although a larger level keeps it; "
            "the answer is the largest below all that break"
        )
    for level in capacity.levels:
        texts = [str(estimate) for estimate in level.estimates if estimate is not None]
        lines.append(f"    {level.text:>12}  {STATES[level.state]:9}  {'; '.join(texts) or level.missing}")
    if capacity.saturated:
        lines.append(f"  saturated: {'; '.join(map(str, capacity.saturated[:3]))}")
    elif capacity.at_broken or capacity.at_answer:
        lines.append(f"  no line is saturated; the busiest: {(capacity.at_broken or capacity.at_answer)[0]}")
    if capacity.growth and capacity.broken is not None:
        grown = ", ".join(
            f"{term.name} +{show_quantity(term.by, capacity.broken.path.unit, 3)} ({term.share * 100:.0f} %)"
            for term in capacity.growth[:3]
        )
        lines.append(f"  what grows from {capacity.largest} to {capacity.smallest_broken}: {grown}")
    drawn = f", {capacity.drawn} with the profile's parameters drawn," if capacity.drawn else ""
    more = f" and {capacity.explaining} to explain it" if capacity.explaining else ""
    lines.append(
        f"  {capacity.simulations} simulations{drawn}{more}; {len(capacity.levels)} of {capacity.level_count} levels tried"
    )
    return lines


def _json(capacity: Capacity) -> dict[str, Any]:
    from virtlab.prediction.questions.capacity import STATES

    def estimate_json(estimate: Any) -> dict[str, Any] | None:
        return None if estimate is None else {
            "value": estimate.point, "low": estimate.low, "high": estimate.high, "unit": estimate.unit, "n": estimate.n,
        }  # fmt: skip

    def resource_json(resource: Any) -> dict[str, Any]:
        return {
            "name": resource.name, "busy_ratio": resource.busy_ratio, "wait_ns": resource.wait_ns,
            "drop_ratio": resource.drop_ratio, "saturated": resource.saturated,
        }  # fmt: skip

    return {
        "others": dict(capacity.others), "input": capacity.input, "limits": [str(limit) for limit in capacity.limits],
        "confidence": capacity.confidence, "largest": capacity.largest, "smallest_broken": capacity.smallest_broken,
        "broken": None if capacity.broken is None else str(capacity.broken),
        "undecided": list(capacity.undecided), "monotone": not capacity.violations, "violations": list(capacity.violations),
        "levels": [
            {
                "level": level.text, "state": STATES[level.state], "runs": level.runs,
                "estimates": [estimate_json(found) for found in level.estimates], "missing": level.missing,
            }
            for level in capacity.levels
        ],
        "resources": {
            "at_largest": [resource_json(each) for each in capacity.at_answer],
            "at_broken": [resource_json(each) for each in capacity.at_broken],
        },
        "growth": [{"term": term.name, "by": term.by, "share": term.share} for term in capacity.growth],
        "simulations": capacity.simulations, "drawn_simulations": capacity.drawn,
        "explaining_simulations": capacity.explaining,
    }  # fmt: skip
