"""A claim in words, for readers who do not know its grammar: its title, or else the formula spelled out.

`probe.rtt.p99: qdisc fq_codel < fifo where load = 30 kB` becomes "P99 of RTT of probe is lower with qdisc fq_codel than
with fifo where load is 30 kB". Units and conditions stay; nothing here knows an experiment or its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from virtlab.analysis.claims.nouns import (
    Bounds,
    Centre,
    Claim,
    Condition,
    Constant,
    Difference,
    Equivalent,
    Expression,
    Linear,
    Margin,
    Near,
    Onset,
    Operand,
    Ordering,
    Place,
    PublishedOrder,
    Term,
    Threshold,
    Trend,
)
from virtlab.metrics import STATISTICS, MetricPath
from virtlab.units import WANTED_DIGITS, show_interval, show_quantity

_LIMITS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}
_ORDERS = {"<": "lower", "<=": "no higher", ">": "higher", ">=": "no lower"}
_CONDITIONS = {"=": "is", "!=": "is not", **{sign: f"is {words}" for sign, words in _LIMITS.items()}}
_PLAIN = frozenset({"mean", "ratio", "count", "found", "final"})  # statistics that go without saying


def in_words(claim: Claim) -> str:
    """The claim as a sentence without its full stop."""
    if claim.title:
        return claim.title
    sentence = _RELATIONS[type(claim.relation)](claim, _expression(claim.expression))
    if claim.averaged:
        sentence += f", averaged over {' and '.join(each.name for each in claim.averaged)}"
    conditions = " and ".join(_condition(claim, at) for at in range(len(claim.where)))
    if conditions:
        sentence = f"{sentence}{',' if ',' in sentence else ''} where {conditions}"
    return sentence[:1].upper() + sentence[1:]


def _expression(expression: Expression) -> str:
    words = ""
    for at, term in enumerate(expression.terms):
        sign = " minus " if term.sign < 0 else " plus "
        words += (
            _term(term)
            if at == 0 and term.sign > 0
            else f"{sign}{_term(term)}".lstrip(" " if at == 0 else "")
        )
    return words


def _term(term: Term) -> str:
    path = _path(term.path)
    if term.over_path is not None:
        return f"{path} divided by {_path(term.over_path)}"
    return (
        path
        if term.over_value is None
        else f"{path} divided by {show_quantity(term.over_value, term.path.unit)}"
    )


def _path(path: MetricPath) -> str:
    metric = path.declaration.title()
    statistic = (
        STATISTICS[path.statistic].label or path.statistic if path.statistic in STATISTICS else path.statistic
    )
    return (
        f"{metric} of {path.role}" if path.statistic in _PLAIN else f"{statistic} of {metric} of {path.role}"
    )


def _condition(claim: Claim, at: int) -> str:
    """A condition, with the levels that all members of a list have there."""
    found: list[Condition] = [each.where[at] for each in claim.members or (claim,)]
    levels = dict.fromkeys(level for each in found for level in each.levels)
    return f"{found[0].factor} {_CONDITIONS[found[0].op]} {' or '.join(levels)}"


def _operands(claim: Claim, pick: Callable[[Any], Sequence[Operand]]) -> list[str]:
    """Levels as written, at each place those of all members of a list."""
    every = [pick(each.relation) for each in claim.members or (claim,)]
    return [" or ".join(dict.fromkeys(each.text for each in at)) for at in zip(*every, strict=True)]


def _margin(margin: Margin, unit: str) -> str:
    if margin.relative is not None:
        return f"{100 * margin.relative:g} %"
    return show_quantity(margin.absolute or 0.0, unit)


def _target(target: Threshold | Centre | Bounds, unit: str) -> str:
    if isinstance(target, Threshold):
        return f"{_LIMITS[target.comparator]} {show_quantity(target.limit, unit)}"
    if isinstance(target, Bounds):
        return (
            f"between {show_interval(target.low, target.high, unit, WANTED_DIGITS).replace(' to ', ' and ')}"
        )
    centre = "the published value" if target.value is None else show_quantity(target.value, unit)
    return f"{centre}, give or take {_margin(target.margin, unit)}"


def _place(place: Place) -> str:
    if place.level is not None:
        return f"at {place.factor} {place.level}"
    return f"at the {place.which or 'same'} {place.factor}" + (" of each" if place.which == "worst" else "")


def _ordering(claim: Claim, quantity: str) -> str:
    relation: Ordering = claim.relation  # type: ignore[assignment]
    first, *rest = _operands(claim, lambda each: each.operands)
    subject = f"the growth of {quantity} over {relation.growth_over}" if relation.growth_over else quantity
    by = f" by at least {_margin(relation.by, claim.expression.unit)}" if relation.by else ""
    steps, before = [], first
    for sign, level in zip(relation.comparators, rest, strict=True):
        steps.append(f"{_ORDERS[sign]}{by} with {before} than with {level}")
        before = level
    sentence = f"{subject} is {', and '.join(steps)}"
    if relation.at is not None:
        sentence += f" {_place(relation.at)}"
    if relation.then is not None:
        sentence += f", and {_ORDERS[relation.then[0]]} {_place(relation.then[1])}"
    return sentence


def _equivalent(claim: Claim, quantity: str) -> str:
    relation: Equivalent = claim.relation  # type: ignore[assignment]
    levels = _operands(claim, lambda each: each.operands)
    within = _margin(relation.margin, claim.expression.unit)
    where = f"at every {levels[0]}" if len(levels) == 1 else f"with {', '.join(levels[:-1])} and {levels[-1]}"
    return f"{quantity} is the same {where}, within {within}"


def _difference(claim: Claim, quantity: str) -> str:
    relation: Difference = claim.relation  # type: ignore[assignment]
    left, right = _operands(claim, lambda each: (each.left, each.right))
    unit = "ratio" if relation.quotient else claim.expression.unit
    sentence = (
        f"{quantity} with {left}, {'divided by' if relation.quotient else 'less'} that with {right}, is "
    )
    if relation.constant_over is not None:
        margin = f", within {_margin(relation.margin, unit)}" if relation.margin else ""
        return f"{sentence}constant over {relation.constant_over}{margin}"
    return sentence + (_target(relation.against, unit) if relation.against is not None else "as published")


def _of(words: Callable[[Any, str], str]) -> Callable[[Claim, str], str]:
    """A relation that speaks of one value: words of it, behind the expression."""
    return lambda claim, quantity: f"{quantity} {words(claim.relation, claim.expression.unit)}"


_RELATIONS: dict[type, Callable[[Claim, str], str]] = {
    Threshold: _of(lambda relation, unit: f"is {_target(relation, unit)}"),
    Near: _of(lambda relation, unit: f"is {_target(relation.target, unit)}"),
    Trend: _of(
        lambda relation, _: (
            f"{relation.direction} {'steadily ' if relation.steadily else ''}with {relation.factor}"
        )
    ),
    Linear: _of(
        lambda relation, _: f"is linear in {relation.factor}, within {100 * relation.margin_ratio:g} %"
    ),
    Constant: _of(
        lambda relation, unit: f"is constant over {relation.factor}, within {_margin(relation.margin, unit)}"
    ),
    Onset: _of(
        lambda relation, unit: (
            f"exceeds {show_quantity(relation.limit, unit)} from {relation.factor} {relation.first} to {relation.last} on"
        )
    ),
    PublishedOrder: _of(lambda relation, _: f"is ordered over {relation.factor} as published"),
    Ordering: _ordering,
    Equivalent: _equivalent,
    Difference: _difference,
}
