"""Weighted sums of means of independent cells: the one test behind every comparison.

A difference is (1, -1), a ratio against r is (1, -r), a difference of differences (1, -1, -1, 1). Variances
are not
taken to be equal: degrees of freedom by Welch (1947) and Satterthwaite (1946),
    se^2 = sum w_i^2 s_i^2 / n_i,   df = se^4 / sum (w_i^2 s_i^2 / n_i)^2 / (n_i - 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray, special


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of means: its value, standard error, degrees of freedom, and runs per cell.

    `se` is None when a cell has one run only; 0 when no cell varies, and then the value is taken as exact.
    """

    value: float
    se: float | None
    df: float
    runs: tuple[int, ...]

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """(low, high) at a two-sided level."""
        if self.se is None:
            return None, None
        half = self.se * float(special.stdtrit(self.df, 0.5 + level / 2)) if self.se > 0 else 0.0
        return self.value - half, self.value + half

    def p_above(self, limit: float) -> float:
        """One-sided p of the hypothesis that the sum is not above the limit: small when it is clearly
        above."""
        return self._tail(self.value - limit)

    def p_below(self, limit: float) -> float:
        """One-sided p of the hypothesis that the sum is not below the limit: small when it is clearly
        below."""
        return self._tail(limit - self.value)

    def _tail(self, distance: float) -> float:
        if self.se is None or math.isnan(distance):
            return 1.0
        if self.se == 0:
            return 0.0 if distance > 0 else (0.5 if distance == 0 else 1.0)
        return float(special.stdtr(self.df, -distance / self.se))

    def widened(self, shifts: Sequence[float]) -> Contrast:
        """The same sum, with what an unsure model adds: `shifts` are how far it moves in each of K drawn models.

            se^2 = se_runs^2 + sum d_k^2 / K,

        the model's part with K degrees of freedom, combined by Welch and Satterthwaite as independent ones are (GUM,
        JCGM 100:2008, 5.1 and G.4). It does not shrink with runs. A shift that is no number (a model without a value)
        leaves nothing to be shown: `se` is None then.

        >>> Contrast(10.0, 3.0, 9.0, (10,)).widened([4.0, -4.0]).se
        5.0
        """
        if not len(shifts):
            return self
        spread2 = sum(shift * shift for shift in shifts) / len(shifts)
        if math.isnan(spread2) or self.se is None:
            return Contrast(self.value, None, 0.0, self.runs)
        if spread2 == 0:
            return self
        whole = self.se**2 + spread2
        freedom = whole**2 / ((self.se**4 / self.df if self.se else 0.0) + spread2**2 / len(shifts))
        return Contrast(self.value, math.sqrt(whole), freedom, self.runs)

    def runs_to_decide(
        self, distance: float, *, alpha: float, power: float = 0.8, most: int = 10_000
    ) -> int | None:
        """About how many more runs per cell would show a true distance of this size at one-sided `alpha`.

        None when the distance is nothing, the spread is unknown, or more than `most` would be needed. The
        search takes the spread as it is seen now; like every such figure it is rough.
        """
        if self.se is None or distance <= 0:
            return None
        if self.se == 0:
            return 1
        now = min(self.runs)
        low, high = now, now
        while self._power(high, distance, alpha) < power:
            low, high = high, high * 2
            if high > 2 * (most + now):
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._power(middle, distance, alpha) >= power else (middle, high)
        more = max(1, high - now)
        return more if more <= most else None

    def _power(self, n: int, distance: float, alpha: float) -> float:
        """Chance (shifted t) that n runs per cell show a true distance, with the spread seen now."""
        assert self.se is not None
        now = min(self.runs)
        df = self.df * (n - 1) / max(now - 1, 1)
        shift = distance * math.sqrt(n / now) / self.se
        return float(special.stdtr(df, shift - special.stdtrit(df, 1 - alpha)))


def contrast(cells: Sequence[NDArray[Any]], weights: Sequence[float]) -> Contrast:
    """The weighted sum of the cells' means; each cell holds one value per run, at least one.

    >>> import numpy as np
    >>> found = contrast([np.array([3.0, 5.0]), np.array([1.0, 1.0])], [1, -1])
    >>> found.value, found.se, found.df
    (3.0, 1.0, 1.0)
    """
    value = sum(weight * float(cell.mean()) for cell, weight in zip(cells, weights, strict=True))
    runs = tuple(int(cell.size) for cell, weight in zip(cells, weights, strict=True) if weight != 0)
    used = [(cell, weight) for cell, weight in zip(cells, weights, strict=True) if weight != 0]
    if any(cell.size < 2 for cell, _ in used):
        return Contrast(value, None, 0.0, runs)
    parts = [(weight**2 * float(cell.var(ddof=1)) / cell.size, cell.size - 1) for cell, weight in used]
    variance = sum(part for part, _ in parts)
    below = sum(part**2 / freedom for part, freedom in parts)
    largest = max((abs(weight * float(cell.mean())) for cell, weight in used), default=0.0)
    if below == 0 or math.sqrt(variance) < 1e-12 * largest:
        return Contrast(value, 0.0, float(min(freedom for _, freedom in parts)), runs)
    return Contrast(value, math.sqrt(variance), variance**2 / below, runs)
