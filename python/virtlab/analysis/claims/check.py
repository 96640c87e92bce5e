"""A claim against an experiment: do its roles, metrics, factors and levels exist, and can it ever be
judged?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from virtlab.analysis.claims.levels import find_level, find_operand, ordered
from virtlab.analysis.claims.nouns import (
    Claim,
    Constant,
    Difference,
    Equivalent,
    Linear,
    Onset,
    Operand,
    Ordering,
    Place,
    PublishedOrder,
    Trend,
)
from virtlab.catalogue import WORKLOADS
from virtlab.metrics import METRICS, MetricPath
from virtlab.units import did_you_mean, level_number


class Mistake(NamedTuple):
    """What is wrong at a column of the claim's text (from 1), and the cure."""

    column: int
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.what}; {self.cure}"


Factors = Mapping[str, Sequence[str]]
PLACES = ("guests", "hosts", "pools")  # kinds of entities of which a file has all


def mistakes(
    claim: Claim,
    factors: Factors,
    roles: Mapping[str, str] | Iterable[str],
    entities: Iterable[str] | None = None,
    parts: Mapping[str, Set[str]] | None = None,
) -> list[Mistake]:
    """Every mistake of a claim against an experiment's factors (name -> levels as written) and roles (name ->
    workload); empty when it can be judged.

    `entities` are the guests, hosts and pools of the world as series and counters call them, e.g. `guests.h1.a`; what
    has a name below one is part of it. None accepts any, and what is of no such kind is accepted always. `parts`: by
    role, the names of its parts that have values of their own; of a role that is absent, any is accepted.
    """
    workloads = dict(roles) if isinstance(roles, Mapping) else dict.fromkeys(roles, "")
    parts = parts or {}
    known = None if entities is None else set(entities)
    if claim.members:
        each = (mistakes(member, factors, workloads, known, parts) for member in claim.members)
        every = (found for one in each for found in one)
        return list(dict.fromkeys(every))
    found: list[Mistake] = []
    for term in claim.expression.terms:
        for path in (term.path, term.over_path):
            if path is not None:
                found += _path_mistakes(path, term.column, workloads, known, parts)
    for condition in claim.where:
        wrong = _factor_mistake(condition.factor, condition.column, factors)
        if wrong:
            found.append(wrong)
            continue
        for level in condition.levels:
            if condition.op in {"=", "!="}:
                if find_level(level, factors[condition.factor]) is None:
                    found.append(_no_level(level, condition.factor, condition.column, factors))
            elif level_number(level) is None:
                what = f"'{level}' is not a number, so '{condition.op}' cannot compare it"
                found.append(Mistake(condition.column, what, "use = or != here"))
    wrong_relation = _relation_mistakes(claim, factors)
    for factor in claim.averaged:
        wrong = _factor_mistake(factor.name, factor.column, factors)
        if wrong:
            found.append(wrong)
        elif not wrong_relation and _relation_mistakes(claim, _without(factors, factor.name)):
            what = f"the claim compares levels of {factor.name}, over which it averages"
            found.append(Mistake(factor.column, what, "average over another factor"))
    return found + wrong_relation


def _without(factors: Factors, name: str) -> Factors:
    return {factor: levels for factor, levels in factors.items() if factor != name}


def _entity_mistakes(name: str, column: int, entities: Set[str]) -> list[Mistake]:
    kind = name.partition(".")[0]
    if kind not in PLACES or any(f"{name}.".startswith(f"{each}.") for each in entities):
        return []
    alike = sorted(each for each in entities if each.startswith(f"{kind}."))
    cure = did_you_mean(name, alike) if alike else f"the file has no {kind}; add some, or remove the claim"
    return [Mistake(column, f"there is no '{name}' at any design point", cure)]


def _path_mistakes(
    path: MetricPath,
    column: int,
    workloads: Mapping[str, str],
    entities: set[str] | None,
    parts: Mapping[str, Set[str]],
) -> list[Mistake]:
    if path.declared is not None:
        return []  # of a role that declares it
    metric = METRICS[path.metric]
    if metric.of == "entity":
        return [] if entities is None else _entity_mistakes(path.role, column, entities)
    role, _, part = path.role.partition(".")
    if part and (declared := WORKLOADS.get(workloads.get(role, ""))) and declared.parts:
        if role in parts and part not in parts[role]:
            return [_no_part(role, part, column, parts[role])]
        return _path_mistakes(replace(path, role=role), column, workloads, entities, parts)
    if path.role not in workloads:
        cure = did_you_mean(role, workloads) if workloads else "declare the role"
        return [Mistake(column, f"'{path.role}' is not a role", cure)]
    workload = workloads[path.role]
    if workload and path.metric not in WORKLOADS[workload].metrics:
        measured = [key for key in METRICS if key in WORKLOADS[workload].metrics]
        what = f"{metric.key} is not measured by {workload}, the workload of '{path.role}'"
        return [Mistake(column, what, f"it measures {', '.join(measured)}")]
    return []


def _no_part(role: str, part: str, column: int, parts: Set[str]) -> Mistake:
    if not parts:
        what = f"no part of '{role}' has values of its own"
        return Mistake(column, what, f"write '{role}' without '{part}'")
    return Mistake(column, f"'{role}' does no '{part}'", did_you_mean(part, sorted(parts)))


def _factor_mistake(factor: str, column: int, factors: Factors) -> Mistake | None:
    if factor in factors:
        return None
    cure = did_you_mean(factor, factors) if factors else "declare the factor under 'factors'"
    return Mistake(column, f"'{factor}' is not a factor", cure)


def _no_level(level: str, factor: str, column: int, factors: Factors) -> Mistake:
    return Mistake(
        column,
        f"'{level}' is not a level of {factor}",
        did_you_mean(level, [str(x) for x in factors[factor]]),
    )


def _ordered_factor(factor: str, column: int, factors: Factors, least: int, why: str) -> list[Mistake]:
    wrong = _factor_mistake(factor, column, factors)
    if wrong:
        return [wrong]
    if ordered(factors[factor]) is None:
        return [Mistake(column, f"the levels of {factor} are not numbers, so they have no order", why)]
    if len(factors[factor]) < least:
        what = f"{factor} has {len(factors[factor])} levels, this needs {least}"
        return [Mistake(column, what, "add levels to the factor")]
    return []


def _place_mistakes(place: Place, factors: Factors) -> list[Mistake]:
    if place.which in {"low", "high"}:
        return _ordered_factor(place.factor, place.column, factors, 2, "name the level: 'at FACTOR LEVEL'")
    wrong = _factor_mistake(place.factor, place.column, factors)
    if wrong:
        return [wrong]
    if place.which == "worst":
        return []
    if find_level(place.level or "", factors[place.factor]) is None:
        return [_no_level(place.level or "", place.factor, place.column, factors)]
    return []


def _worst_mistakes(claim: Claim, place: Place) -> list[Mistake]:
    """`worst` needs a single metric, and one that has a better direction."""
    terms = claim.expression.terms
    if len(terms) == 1 and terms[0].over_path is None and terms[0].path.declaration.better != "neither":
        return []
    what = f"which level of {place.factor} is the worst is not known of '{claim.expression}'"
    return [Mistake(place.column, what, "name one metric that has a better direction, or 'at FACTOR LEVEL'")]


def _relation_mistakes(claim: Claim, factors: Factors) -> list[Mistake]:
    relation = claim.relation
    match relation:
        case Ordering():
            found = _operand_mistakes(relation.operands, factors)
            for place in (relation.at, relation.then[1] if relation.then else None):
                found += _place_mistakes(place, factors) if place else []
                if place and place.which == "worst":
                    found += _worst_mistakes(claim, place)
            if relation.growth_over is not None:
                found += _ordered_factor(
                    relation.growth_over, 1, factors, 2, "growth needs a factor of numbers"
                )
            return found
        case Equivalent() if len(relation.operands) == 1:
            only = relation.operands[0]
            wrong = _factor_mistake(only.text, only.column, factors)
            return [wrong] if wrong else []
        case Equivalent():
            return _operand_mistakes(relation.operands, factors)
        case Difference():
            found = _operand_mistakes((relation.left, relation.right), factors)
            if relation.constant_over is not None:
                wrong = _factor_mistake(relation.constant_over, 1, factors)
                found += [wrong] if wrong else []
            return found
        case Trend():
            return _ordered_factor(relation.factor, relation.column, factors, 2, "use a chain: ': A < B < C'")
        case Linear():
            return _ordered_factor(
                relation.factor, relation.column, factors, 3, "a line needs a factor of numbers"
            )
        case Constant() | PublishedOrder():
            wrong = _factor_mistake(relation.factor, relation.column, factors)
            return [wrong] if wrong else []
        case Onset():
            found = _ordered_factor(
                relation.factor, relation.column, factors, 2, "an onset needs a factor of numbers"
            )
            for level in dict.fromkeys((relation.first, relation.last)):
                if not found and find_level(level, factors[relation.factor]) is None:
                    found.append(_no_level(level, relation.factor, relation.column, factors))
            return found
        case _:
            return []


def _operand_mistakes(operands: Sequence[object], factors: Factors) -> list[Mistake]:
    found: list[Mistake] = []
    factor: str | None = None
    named: list[tuple[str, str]] = []
    for operand in operands:
        assert isinstance(operand, Operand)
        try:
            factor, level = find_operand(operand, factors, factor)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            found.append(Mistake(operand.column, what, cure))
            continue
        if (factor, level) in named:
            found.append(
                Mistake(operand.column, f"'{operand.text}' is named twice", "compare different levels")
            )
        elif named and named[-1][0] != factor:
            what = f"{named[-1][0]} and {factor} are different factors"
            found.append(
                Mistake(operand.column, what, "compare levels of one factor, fix others with 'where'")
            )
        named.append((factor, level))
    return found
