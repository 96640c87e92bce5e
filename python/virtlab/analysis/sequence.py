"""Which packets of numbered flows arrived: once, again, out of order, never.

A packet is reordered when a larger number of its flow arrived before it (RFC 4737, Type-P-Reordered); a
further copy of a number is a duplicate and nothing else (RFC 5560). Same definitions as the probe's own
meter, over whole columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray, np


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`first` marks the first copy of each number, in the order given; counts are over all flows."""

    first: NDArray[Any]  # bool, one per arrival
    distinct: int
    duplicates: int
    reordered: int


def arrivals(seq: NDArray[Any], flow: NDArray[Any]) -> Arrivals:
    """Judges packets given in order of arrival.

    >>> import numpy as np
    >>> judged = arrivals(np.array([0, 2, 1, 2, 3]), np.zeros(5, dtype=np.int32))
    >>> judged.distinct, judged.duplicates, judged.reordered, judged.first.tolist()
    (4, 1, 1, [True, True, True, False, True])
    """
    size = int(seq.size)
    first = np.ones(size, dtype=bool)
    if size == 0:
        return Arrivals(first, 0, 0, 0)
    if (flow == flow[0]).all():
        duplicates, reordered = _of_one_flow(seq, first)
        return Arrivals(first, size - duplicates, duplicates, reordered)
    duplicates = reordered = 0
    by_flow = np.argsort(flow, kind="stable")
    for index in np.split(by_flow, np.flatnonzero(np.diff(flow[by_flow])) + 1):
        mine = np.ones(index.size, dtype=bool)
        again, late = _of_one_flow(seq[index], mine)
        first[index] = mine
        duplicates += again
        reordered += late
    return Arrivals(first, size - duplicates, duplicates, reordered)


def _of_one_flow(seq: NDArray[Any], first: NDArray[Any]) -> tuple[int, int]:
    """(duplicates, reordered) of one flow; clears `first` where a number had come before."""
    if seq.size < 2 or bool((seq[1:] > seq[:-1]).all()):
        return 0, 0
    order = np.argsort(seq, kind="stable")  # equal numbers stay in order of arrival
    again = np.zeros(seq.size, dtype=bool)
    again[order[1:]] = seq[order[1:]] == seq[order[:-1]]
    first[again] = False
    largest_before = np.maximum.accumulate(seq)[:-1]
    late = np.zeros(seq.size, dtype=bool)
    late[1:] = seq[1:] < largest_before
    return int(again.sum()), int((late & ~again).sum())
