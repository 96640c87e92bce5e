"""Values averaged over levels of factors, repetition by repetition: what a claim `averaged over qdisc` speaks about.

Runs of one repetition are made within one round, so what drifts from round to round is in all of them. The value of a
repetition is the plain mean over all combinations of the levels, each of which counts once however many runs it has; a
repetition that lacks one of them has no value, since a mean over fewer levels would be another quantity. The averages
of different repetitions are independent, so they are judged as values of single runs are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product

from virtlab.analysis.claims.levels import matches
from virtlab.analysis.claims.nouns import Claim
from virtlab.analysis.table import Levels, RunTable

Runs = Mapping[int, float]  # repetition -> value


def averaged(
    values: Mapping[Levels, Runs], over: Sequence[str], every: Collection[Levels]
) -> dict[Levels, dict[int, float]]:
    """Design points without the factors `over` -> repetition -> mean over `every` combination of their levels.

    A point without a whole repetition is left out.

    >>> point = lambda a, q: (("a", a), ("q", q))
    >>> every = [(("q", "x"),), (("q", "y"),)]
    >>> averaged({point("1", "x"): {0: 1.0, 1: 5.0}, point("1", "y"): {0: 3.0}}, ["q"], every)
    {(('a', '1'),): {0: 2.0}}
    """
    parts: dict[Levels, dict[Levels, Runs]] = {}
    for point, runs in values.items():
        place = tuple(pair for pair in point if pair[0] in over)
        parts.setdefault(without(point, over), {})[place] = runs
    found = {}
    for rest, places in parts.items():
        if set(places) != set(every):
            continue
        whole = sorted(set.intersection(*(set(runs) for runs in places.values())))
        means = {each: sum(runs[each] for runs in places.values()) / len(places) for each in whole}
        if means:
            found[rest] = means
    return found


def combinations(claim: Claim, table: RunTable) -> list[Levels]:
    """Every combination of levels of the factors that a claim averages over, of those that the experiment declares and
    the claim does not rule out.
    """
    over = sorted(each.name for each in claim.averaged)
    levels = {}
    for name in over:
        own = [str(level) for level in table.declared.get(name, ())] or table.factors.get(name, [])
        ruling = [condition for condition in claim.where if condition.factor == name]
        levels[name] = [level for level in own if all(matches(each, {name: level}) for each in ruling)]
    return [tuple(zip(over, each, strict=True)) for each in product(*levels.values())]


def without(point: Levels, factors: Sequence[str]) -> Levels:
    """The design point without some factors."""
    return tuple(pair for pair in point if pair[0] not in factors)


def joined(texts: Mapping[Levels, str], over: Sequence[str]) -> dict[Levels, tuple[str, ...]]:
    """What is known of points, of all points that are averaged to one: each text once.

    >>> joined({(("a", "1"), ("q", "x")): "by hand", (("a", "1"), ("q", "y")): "by hand"}, ["q"])
    {(('a', '1'),): ('by hand',)}
    """
    found: dict[Levels, dict[str, None]] = {}
    for point in sorted(texts):
        found.setdefault(without(point, over), {})[texts[point]] = None
    return {rest: tuple(own) for rest, own in found.items()}
