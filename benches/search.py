"""How far answers of independent searches differ, and what they cost in traffic, beside the authors' own MLRsearch.

Thirty searches each of a device made of numbers (`tests/theory/test_searches_on_a_synthetic_device.py`: noise per
trial, a buffer of 1000 packets, stalls): the coefficient of variation of what they find, and the mean of their traffic.
`peer` is the authors' implementation at its own defaults (two preceding targets, where ours has one), `same_goal` the
same with our goal, which must find the same. Bisection in trials of 60 s without loss stands beside. `make bench`
installs the peer.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.theory.test_searches_on_a_synthetic_device import CAPACITY, FAST, answer, loss_ratio, variation

from virtlab.campaign.search import Bisection, Goal, MlrSearch

SEARCHES = 30
CAPACITIES_PPS = (10_000.0, 100_000.0, CAPACITY, FAST)
NOISES = (0.005, 0.01)
AUTHORS = Goal(preceding=2)

Answers = list[tuple[float, float]]  # (load found, seconds of traffic)


def bench() -> Iterator[dict[str, Any]]:
    """Variation and traffic per capacity and noise."""
    peer = authors() if importlib.util.find_spec("MLRsearch") is not None else None
    for capacity in CAPACITIES_PPS:
        for noise in NOISES:
            low, high = capacity / 100, 2 * capacity
            made = [
                answer(MlrSearch(low, high), random.Random(seed), noise, capacity) for seed in range(SEARCHES)
            ]
            figure = {
                "name": f"search.variation at {capacity:,.0f} packet/s, noise {noise:.1%}", "unit": "ratio",
                **_told(made), "goal": "<= 0.03",
            }  # fmt: skip
            yield {
                "name": f"search.traffic at {capacity:,.0f} packet/s, noise {noise:.1%}", "unit": "s",
                "value": figure["traffic_s"], "goal": "<= 100",
            }  # fmt: skip
            if peer is None:
                yield figure | {"missing": "MLRsearch is not installed"}
                continue
            theirs = [peer(low, high, AUTHORS, capacity, noise, seed) for seed in range(SEARCHES)]
            same = [peer(low, high, Goal(), capacity, noise, seed) for seed in range(SEARCHES)]
            yield figure | {
                "peer": round(variation([value for value, _ in theirs]), 4),
                "peer_traffic_s": round(statistics.mean(traffic_s for _, traffic_s in theirs), 1),
                "ratio": round(variation([value for value, _ in made]) / variation([value for value, _ in theirs]), 3),
                "same_goal": round(variation([value for value, _ in same]), 4),
                "largest_difference": max(abs(one - two) / two for (one, _), (two, _) in zip(made, same, strict=True)),
            }  # fmt: skip
    made = [
        answer(Bisection(CAPACITY / 100, 2 * CAPACITY), random.Random(seed), 0.01) for seed in range(SEARCHES)
    ]
    yield {
        "name": f"search.variation of bisections at {CAPACITY:,.0f} packet/s, trials of 60 s", "unit": "ratio",
        **_told(made),
    }  # fmt: skip


def _told(made: Answers) -> dict[str, Any]:
    return {
        "value": round(variation([value for value, _ in made]), 4),
        "traffic_s": round(statistics.mean(traffic_s for _, traffic_s in made), 1),
    }


def authors() -> Callable[[float, float, Goal, float, float, int], tuple[float, float]]:
    """The authors' implementation on the same device, as one search: (load found, seconds of traffic)."""
    from tests.parity.test_mlr_search import theirs

    def search(
        low: float, high: float, goal: Goal, capacity: float, noise: float, seed: int
    ) -> tuple[float, float]:
        draw = random.Random(seed)
        made, values, _ = theirs(
            low,
            high,
            [goal],
            lambda load: loss_ratio(load, goal.final_trial_s, draw, noise, capacity),
        )
        assert values[0] is not None
        return values[0], sum(seconds for _, seconds in made)

    return search
