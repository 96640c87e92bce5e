"""The order of runs and their seeds: pure functions of the experiment's seed.

Repetitions are blocks: round r holds repetition r of every design point once, shuffled anew. So a slow drift
of the machine meets every point alike instead of the points that happen to stand last in the file. A point's
place is the hash of (seed, round, levels), so a point that is added or left out changes neither the order nor
the seeds of the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).digest()


def round_order(seed: int, round_index: int, points: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
    """Indices of all points in the order of round `round_index`; `points` are factor -> level.

    >>> points = [{"load": "0 B"}, {"load": "30 kB"}, {"load": "65 kB"}]
    >>> round_order(7, 0, points), round_order(7, 1, points)
    ((1, 2, 0), (2, 0, 1))
    """
    places = [_hash(seed, "order", round_index, dict(levels)) for levels in points]
    return tuple(sorted(range(len(points)), key=lambda index: (places[index], index)))


def run_seed(seed: int, levels: Mapping[str, str], repetition: int) -> int:
    """The seed of one run, 0 <= seed < 2**63, from the experiment's seed and what the run is, not when it
    runs.
    """
    return int.from_bytes(_hash(seed, "run", dict(levels), repetition)[:8], "big") >> 1
