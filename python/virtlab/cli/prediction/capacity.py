"""`virtlab capacity`: the largest level of an input that keeps limits, by simulation, and what limits it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.answers import tell
from virtlab.cli.options import AsJson, Draws, ExperimentFile, OtherLevels, ProfileName
from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.prediction.capacity import Capacity

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
    confidence: Annotated[float, typer.Option(help="of the answer, e.g. 0.95", min=0.5, max=0.9999)] = 0.95,
    runs: Annotated[int, typer.Option(help="most simulated runs of one level", min=2, max=1000)] = 30,
    draws: Draws = 8,
    profile: ProfileName = None,
    as_json: AsJson = False,
) -> None:
    """Finds the largest level of an input that keeps all limits, once per combination of the other factors.

    The answer is an interval: the largest level shown to keep the limits, the smallest above it shown to break one.
    Exit code 4 when no level keeps them somewhere, or the order of levels does not hold.

    Example: virtlab capacity experiments/switched-network/quick.yaml --until 'rtt.p99 < 5 ms' --vary load
    """
    from virtlab.campaign import Interruption
    from virtlab.campaign.progress import CampaignObserver
    from virtlab.errors import ExperimentError
    from virtlab.experiment import load
    from virtlab.experiment.overrides import find_input
    from virtlab.prediction.capacity import Question, ordered_levels
    from virtlab.prediction.combinations import other_levels, present
    from virtlab.prediction.limits import parse_limits, refuse_search
    from virtlab.settings import load_settings
    from virtlab.simulator.profile import load_profile

    costs = load_profile(load_settings(profile=profile).profile)
    experiment = load(file)
    refuse_search(experiment)
    limits = parse_limits(until, experiment.role_workloads(), "--until")
    one = find_input(experiment, vary)
    levels, open_end = ordered_levels(one, first=first, last=last, step=step)
    guests = one.place is not None and one.place[-1] == "guests"
    if carrying and not guests:
        raise ExperimentError(
            "--carrying", f"{one.label} is not a number of guests", "write --vary host.guests"
        )
    own = one.place is None and (first, last, step) == (None, None, None)  # the file's own levels
    shown = sys.stderr.isatty() and not as_json
    found: list[Capacity] = []
    with Interruption() as interruption:
        observer = CampaignObserver()
        observer.asked = lambda: interruption.asked
        for others in other_levels(experiment, [one.name] if one.place is None else [], points):
            some = present(experiment, one.name, levels, others) if own else levels
            question = Question(
                experiment, costs, one, some, others, limits, confidence, runs, open_end, carrying or (),
                draws, observer,
                say=lambda text: say(text, err=True) if shown else None,
            )  # fmt: skip
            found.append(question.answer())
    tell(found, costs.identity, as_json=as_json, json_of=_json, lines_of=_lines)
    if guests and not carrying and not as_json:
        say("note: added guests are idle; --carrying ROLE gives each of them that role")
    if any(each.largest is None or each.violations for each in found):
        raise typer.Exit(4)


def _lines(one: Capacity) -> list[str]:
    from virtlab.prediction.capacity import STATES
    from virtlab.units import show_quantity

    head = ", ".join(f"{name} = {level}" for name, level in one.others.items())
    limits = " and ".join(map(str, one.limits))
    lines = [f"{head}: {limits}" if head else limits]
    sure = f"at {one.confidence * 100:g} % confidence"
    if one.largest is None:
        lines.append(f"  no level of {one.input} is shown to keep it, {sure}")
    else:
        beyond = (
            f"; {one.smallest_broken} breaks it"
            if one.smallest_broken
            else "; no level was shown to break it"
        )
        lines.append(f"  largest {one.input}: {one.largest}, {sure}{beyond}")
    if one.undecided:
        lines.append(f"  undecided after the most runs: {', '.join(one.undecided)}; --runs takes more")
    if one.violations:
        lines.append(
            f"  not monotone: {', '.join(one.violations)} breaks the limit although a larger level keeps it; "
            "the answer is the largest below all that break"
        )
    for level in one.levels:
        texts = [str(estimate) for estimate in level.estimates if estimate is not None]
        lines.append(f"    {level.text:>12}  {STATES[level.state]:9}  {'; '.join(texts) or level.missing}")
    if one.saturated:
        lines.append(f"  saturated: {'; '.join(map(str, one.saturated[:3]))}")
    elif one.at_broken or one.at_answer:
        lines.append(f"  no line is saturated; the busiest: {(one.at_broken or one.at_answer)[0]}")
    if one.growth and one.broken is not None:
        grown = ", ".join(
            f"{term.name} +{show_quantity(term.by, one.broken.path.unit, 3)} ({term.share * 100:.0f} %)"
            for term in one.growth[:3]
        )
        lines.append(f"  what grows from {one.largest} to {one.smallest_broken}: {grown}")
    drawn = f", {one.drawn} with the profile's parameters drawn," if one.drawn else ""
    more = f" and {one.explaining} to explain it" if one.explaining else ""
    lines.append(
        f"  {one.simulations} simulations{drawn}{more}; {len(one.levels)} of {one.level_count} levels tried"
    )
    return lines


def _json(one: Capacity) -> dict[str, Any]:
    from virtlab.prediction.capacity import STATES

    def estimate(found: Any) -> dict[str, Any] | None:
        return None if found is None else {
            "value": found.point, "low": found.low, "high": found.high, "unit": found.unit, "n": found.n,
        }  # fmt: skip

    def resource(found: Any) -> dict[str, Any]:
        return {
            "name": found.name, "busy_ratio": found.busy_ratio, "wait_ns": found.wait_ns,
            "drop_ratio": found.drop_ratio, "saturated": found.saturated,
        }  # fmt: skip

    return {
        "others": dict(one.others), "input": one.input, "limits": [str(limit) for limit in one.limits],
        "confidence": one.confidence, "largest": one.largest, "smallest_broken": one.smallest_broken,
        "broken": None if one.broken is None else str(one.broken),
        "undecided": list(one.undecided), "monotone": not one.violations, "violations": list(one.violations),
        "levels": [
            {
                "level": level.text, "state": STATES[level.state], "runs": level.runs,
                "estimates": [estimate(found) for found in level.estimates], "missing": level.missing,
            }
            for level in one.levels
        ],
        "resources": {
            "at_largest": [resource(found) for found in one.at_answer],
            "at_broken": [resource(found) for found in one.at_broken],
        },
        "growth": [{"term": term.name, "by": term.by, "share": term.share} for term in one.growth],
        "simulations": one.simulations, "drawn_simulations": one.drawn, "explaining_simulations": one.explaining,
    }  # fmt: skip
