"""The searches that runs made: what was tried, what came of each trial, and what was found.

One run stands for each design point, the first that counts: a search is a course of events, and courses do not add up.
A trial is good when its loss (of every flow, where the goal says so) is at most the first goal's; for MLRsearch a bound
rests on several trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.analysis.searches.searched import limit_of, tests_of, trials_of
from virtlab.catalogue.flows import flow_names
from virtlab.metrics import METRICS
from virtlab.report.gather.model import Factor
from virtlab.results import RunRecord

KINDS = ("good", "too much", "warm-up", "made again")


@dataclass(frozen=True, slots=True)
class Searched:
    """The search of one run: its header, its trials in order, what it found per goal."""

    role: str
    variable: str
    unit: str
    point: Mapping[str, str]
    realisation: str
    run: str
    allowed: float  # loss ratio of a good trial
    trials: tuple[Mapping[str, Any], ...]
    goals: tuple[Mapping[str, Any], ...]
    flows: tuple[str, ...] = ()  # their names
    tests: tuple[Mapping[str, Any], ...] = ()  # what the tests after it measured, or why they could not

    def kind(self, trial: Mapping[str, Any]) -> str:
        """In a word, the outcome of a trial of the search."""
        if trial["repeated"]:
            return "made again"
        if trial["purpose"] == "warm-up":
            return "warm-up"
        return "good" if trial["loss_ratio"] <= self.allowed else "too much"

    @property
    def own(self) -> list[Mapping[str, Any]]:
        """Trials of the search itself, without those of tests after it."""
        return [trial for trial in self.trials if trial["purpose"] in {"warm-up", "search", "confirm"}]


def searches_of(used: Iterable[RunRecord], varying: Sequence[Factor]) -> tuple[Searched, ...]:
    """One search per design point and link realisation."""
    kept: dict[tuple[int, str], Searched] = {}
    for record in sorted(used, key=lambda each: each.name):
        held = trials_of(record)
        if held is None or (record.point, record.link_realisation) in kept:
            continue
        header, trials, found = held
        allowed = 0.0 if header["until"] is not None else header["goals"][0]["loss"]
        kept[record.point, record.link_realisation] = Searched(
            header["role"], header["variable"], METRICS[limit_of(header["parameter"])].unit,
            {factor.name: record.levels[factor.name] for factor in varying if factor.name in record.levels},
            record.link_realisation, record.name, allowed, tuple(trials), tuple(found),
            tuple(flow_names(record.plan.roles[header["role"]].parameters)), tests_of(record),
        )  # fmt: skip
    return tuple(kept[key] for key in sorted(kept))


def goals_beside(searches: Sequence[Searched], *, first: bool = False) -> str:
    """What was searched for, as it stands behind a title; `first`: only the goal whose value is tested at.

    >>> one = Searched("load", "load.rate", "bit/s", {}, "none", "r", 0.0, (), ({"text": "no loss"}, {"text": "0.5 %"}))
    >>> goals_beside([one]), goals_beside([one], first=True)
    (' (no loss | 0.5 %)', ' (no loss)')
    """
    texts = [goal["text"] for one in searches for goal in one.goals[: 1 if first else None]]
    return f" ({' | '.join(dict.fromkeys(texts))})" if texts else ""
