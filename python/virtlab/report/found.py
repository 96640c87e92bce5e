"""The goal of a search beside every number that it gave: without its goal such a number means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from virtlab.report.model import Result

if TYPE_CHECKING:
    from virtlab.results import RunRecord

Goals = dict[tuple[str, str], str]  # (role, metric) -> the goal in words


def goals_of(records: Iterable[RunRecord]) -> Goals:
    """The goals behind every searched metric of these runs; several where design points differ in them."""
    from virtlab.analysis.searches import LIMITS, trials_of

    found: dict[tuple[str, str], list[str]] = {}
    for record in records:
        held = trials_of(record)
        if held is None:
            continue
        header, _, answers = held
        for one in answers:
            metrics = (
                [LIMITS[header["parameter"]]]
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
