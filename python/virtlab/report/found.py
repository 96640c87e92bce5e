"""The goal of a search beside every number that it gave: without its goal such a number means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from virtlab.report.model import Result

if TYPE_CHECKING:
    from virtlab.analysis.luck import Luck
    from virtlab.results import RunRecord

Goals = dict[tuple[str, str], str]  # (role, metric) -> the goal in words


def goals_of(records: Iterable[RunRecord]) -> Goals:
    """The goals behind every searched metric of these runs; several where design points differ in them."""
    from virtlab.analysis.searches import limit_of, trials_of

    found: dict[tuple[str, str], list[str]] = {}
    for record in records:
        held = trials_of(record)
        if held is None:
            continue
        header, _, answers = held
        for one in answers:
            metrics = (
                [limit_of(header["parameter"])]
                if header["until"] is not None
                else [one["goal"], f"{one['goal']}_rate"]
            )
            for metric in metrics:
                texts = found.setdefault((header["role"], metric), [])
                text = f"{header['variable']}: {one['text']}"
                if text not in texts:
                    texts.append(text)
    return {key: " | ".join(texts) for key, texts in found.items()}


def with_goals(results: Sequence[Result], records: Iterable[RunRecord]) -> tuple[Result, ...]:
    """The results, those of searches with their goal in the title."""
    goals = goals_of(records)

    def titled(result: Result) -> Result:
        quantity = result.quantity
        goal = goals.get((quantity.role, quantity.metric))
        if goal is None:
            return result
        return replace(result, quantity=replace(quantity, title=f"{quantity.title} ({goal})"))

    return tuple(titled(result) for result in results)


def goal_notes(records: Iterable[RunRecord]) -> list[str]:
    """A sentence per searched metric."""
    return [
        f"{role}.{metric} is the highest value by the goal of {goal}."
        for (role, metric), goal in goals_of(records).items()
        if not metric.endswith("_rate") or metric.startswith("limit")
    ]


def luck_notes(records: Iterable[RunRecord]) -> list[str]:
    """A warning per design point and goal where luck decided what was found, by the trials of all its runs together."""
    from virtlab.analysis.luck import Criterion, Tried, luck_of, tried_of
    from virtlab.analysis.searches import trials_of

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
