"""The goal of a search beside every number that it gave: without its goal such a number means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from virtlab.analysis.searches.goals import Goals
from virtlab.analysis.searches.luck import Criterion, Luck, Tried, luck_of, tried_of
from virtlab.analysis.searches.searched import trials_of
from virtlab.metrics import MetricPath
from virtlab.report.gather.model import Result
from virtlab.results import RunRecord


def with_goals(results: Sequence[Result], goals: Goals) -> tuple[Result, ...]:
    """The results, those that hang on a search with its goal."""
    return tuple(
        _with_goal(result, goals.of(result.quantity.role, result.quantity.metric)) for result in results
    )


def _with_goal(result: Result, goal: str) -> Result:
    return replace(result, quantity=replace(result.quantity, goal=goal)) if goal else result


def goal_of_paths(paths: Iterable[MetricPath], goals: Goals) -> str:
    """The goals that a claim's paths hang on; empty where they hang on none."""
    found = [goals.of(path.role, path.metric) for path in paths]
    return "; ".join(dict.fromkeys(goal for goal in found if goal))


def goal_notes(goals: Goals) -> list[str]:
    """A sentence per searched metric, and one on all that a search leaves at the value it found."""
    told = [
        f"{role}.{metric} is the highest value by the goal of {goal}."
        for (role, metric), goal in goals.searched.items()
        if not metric.endswith("_rate") or metric.startswith("limit")
    ]
    last = [
        f"Metrics that name no load are of a last trial at what was found by {goal}."
        for goal in goals.first.values()
    ]
    return [*told, *last]


def luck_notes(records: Iterable[RunRecord]) -> list[str]:
    """A warning per design point and goal where luck decided what was found, by the trials of all its runs together."""
    pooled: dict[tuple[tuple[tuple[str, str], ...], str, str, Criterion], list[Tried]] = {}
    for record in records:
        header, lines, answers = trials_of(record) or ({}, [], [])
        for one in answers:
            if one.get("criterion"):
                point = tuple(sorted((name, str(level)) for name, level in record.plan.point.items()))
                key = (point, header["role"], one["goal"], Criterion(**one["criterion"]))
                pooled.setdefault(key, []).extend(tried_of(lines))
    found: dict[tuple[str, str], list[tuple[str, Luck]]] = {}
    for (point, role, goal, criterion), tried in pooled.items():
        luck = luck_of(tried, criterion)
        if luck is not None and luck.decides:
            where = ", ".join(f"{name} {level}" for name, level in point)
            found.setdefault((role, goal), []).append((where, luck))
    return [_luck(role, goal, places) for (role, goal), places in found.items()]


def _luck(role: str, goal: str, places: Sequence[tuple[str, Luck]]) -> str:
    """The worst of the places in full, and how many more there are."""
    where, luck = max(places, key=lambda place: place[1].bad_share)
    at = f" at {where}" if where else ""
    more = f" So too at {len(places) - 1} other design points." if len(places) > 1 else ""
    return f"{role}.{goal}{at}: {luck.text()}.{more}"
