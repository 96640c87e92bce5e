"""Values averaged over levels of factors, repetition by repetition: what a claim `averaged over qdisc` speaks about.

Runs of one repetition are made within one round, so what drifts from round to round is in all of them. The value of a
repetition is the plain mean over all combinations of the levels, each of which counts once however many runs it has; a
repetition that lacks one of them has no value, since a mean over fewer levels would be another quantity. The averages of
different repetitions are independent, so they are judged as values of single runs are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtlab.analysis.table import Levels

Runs = Mapping[int, float]  # repetition -> value


def averaged(values: Mapping[Levels, Runs], over: Sequence[str]) -> dict[Levels, dict[int, float]]:
    """Design points without the factors `over` -> repetition -> mean; a point without a whole repetition is left out.

    >>> point = lambda a, q: (("a", a), ("q", q))
    >>> averaged({point("1", "x"): {0: 1.0, 1: 5.0}, point("1", "y"): {0: 3.0}}, ["q"])
    {(('a', '1'),): {0: 2.0}}
    """
    parts: dict[Levels, dict[Levels, Runs]] = {}
    for point, runs in values.items():
        place = tuple(pair for pair in point if pair[0] in over)
        parts.setdefault(without(point, over), {})[place] = runs
    every = {place for places in parts.values() for place in places}
    found = {}
    for rest, places in parts.items():
        if set(places) != every:
            continue
        whole = sorted(set.intersection(*(set(runs) for runs in places.values())))
        means = {each: sum(runs[each] for runs in places.values()) / len(every) for each in whole}
        if means:
            found[rest] = means
    return found


def without(point: Levels, factors: Sequence[str]) -> Levels:
    """The design point without some factors."""
    return tuple(pair for pair in point if pair[0] not in factors)


def joined(texts: Mapping[Levels, str], over: Sequence[str]) -> dict[Levels, str]:
    """What is known of each point, of all points that are averaged to one: the same text, or all of them.

    >>> joined({(("a", "1"), ("q", "x")): "netem", (("a", "1"), ("q", "y")): "netem"}, ["q"])
    {(('a', '1'),): 'netem'}
    """
    found: dict[Levels, list[str]] = {}
    for point in sorted(texts):
        found.setdefault(without(point, over), []).append(texts[point])
    return {rest: own[0] if len(set(own)) == 1 else ", ".join(own) for rest, own in found.items()}
