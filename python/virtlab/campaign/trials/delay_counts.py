"""Delays of many frames as counts in bins of equal ratio, from which quantiles of several trials together follow.

A trial of 120 s has more frames than a journal should hold, and quantiles of trials cannot be put together again.
Counts can: 128 bins per doubling, so a quantile is known to 0.3 %. Frames of no time or less (clocks that differ by
less than their bound) are in bin 0 with those of up to 1 ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.lazy import NDArray, np

PER_DOUBLING = 128


@dataclass
class DelayCounts:
    """The number of delays in each bin."""

    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, trials: Iterable[Sequence[Sequence[int]]]) -> DelayCounts:
        """Several trials' pairs together."""
        whole = cls()
        for pairs in trials:
            for place, count in pairs:
                whole.counts[place] = whole.counts.get(place, 0) + count
        return whole

    def add(self, delay_ns: NDArray[Any]) -> None:
        """Counts them."""
        places = np.floor(np.log2(np.maximum(delay_ns.astype(np.float64), 1.0)) * PER_DOUBLING).astype(
            np.int64
        )
        seen, counts = np.unique(places, return_counts=True)
        for place, count in zip(seen.tolist(), counts.tolist(), strict=True):
            self.counts[place] = self.counts.get(place, 0) + count

    def pairs(self) -> list[list[int]]:
        """(bin, count) in order, for a journal."""
        return [[place, self.counts[place]] for place in sorted(self.counts)]

    @property
    def size(self) -> int:
        """The number of delays."""
        return sum(self.counts.values())

    def quantile_ns(self, share: float) -> float | None:
        """The middle of the bin that holds the delay of rank share (n - 1); None of no delays.

        >>> import numpy as np
        >>> counts = DelayCounts()
        >>> counts.add(np.array([1000] * 98 + [10**6] * 2))
        >>> round(counts.quantile_ns(0.5), -1), round(counts.quantile_ns(0.99), -4)
        (1000.0, 1000000.0)
        """
        rank, seen = share * (self.size - 1), 0
        for place in sorted(self.counts):
            seen += self.counts[place]
            if seen > rank:
                return float(2.0 ** ((place + 0.5) / PER_DOUBLING))
        return None
