"""The claims of an experiment as the analysis judged them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from virtlab.analysis import judge
from virtlab.analysis.published import together
from virtlab.analysis.searches.goals import Goals
from virtlab.analysis.table import RunTable
from virtlab.experiment import Experiment
from virtlab.report.gather.goals import goal_of_paths
from virtlab.report.gather.model import Verdict
from virtlab.units import show_number


def verdicts_of(
    experiment: Experiment, claims: list[Any], table: RunTable, goals: Goals, published: Path | None
) -> tuple[Verdict, ...]:
    """A verdict per claim, in the file's order."""
    if not claims:
        return ()
    judged = judge(claims, table, experiment.repeat.confidence, published=published)
    names = (claim.id for claim in experiment.claims)
    return tuple(_verdict(name, verdict, goals) for name, verdict in zip(names, judged, strict=True))


def _verdict(name: str, verdict: Any, goals: Goals) -> Verdict:
    """The sentence is the analysis' own, and the goal of the search behind it."""
    decided, paths = verdict.comparison, verdict.claim.expression.paths()
    goal = goal_of_paths(paths, goals)
    effect = ""
    if decided is not None and decided.effect is not None:
        effect = f"{decided.effect_name} {show_number(decided.effect, 3)}".strip()
    return Verdict(
        name=name,
        claim=verdict.claim.text,
        verdict=verdict.ruling,
        sentence=f"{verdict.text} Goal: {goal}." if goal else verdict.text,
        because="; ".join(verdict.notes),
        estimate=verdict.estimate,
        required=decided.required if decided is not None else (None, None),
        effect=effect,
        n=" + ".join(str(count) for count in decided.runs) if decided is not None else "none",
        published=together(verdict.published),
        more_runs=verdict.more_runs,
        goal=goal,
        paths=tuple(map(str, paths)),
    )
