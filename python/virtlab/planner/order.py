"""The order of runs, a pure function of the experiment's seed.

Repetitions are blocks: round r holds repetition r of every design point once, in another random order. So a slow drift
of the machine meets every point alike instead of the points that happen to stand last in the file. A point's
place is the hash of (seed, round, levels), so a point that is added or left out does not change the order of
the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtlab.plan.seeds import digest


def round_order(seed: int, round_index: int, points: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
    """Indices of all points in the order of round `round_index`; `points` are factor -> level.

    >>> points = [{"load": "0 B"}, {"load": "30 kB"}, {"load": "65 kB"}]
    >>> round_order(7, 0, points), round_order(7, 1, points)
    ((1, 2, 0), (2, 0, 1))
    """
    places = [digest(seed, "order", round_index, dict(levels)) for levels in points]
    return tuple(sorted(range(len(points)), key=lambda index: (places[index], index)))
