"""How far a share may be from what was counted: Clopper and Pearson's exact interval.

It is what remains to be said when no run differs from another: no packet lost in 400 does not show a loss below 0.1 %.
Packets of a run are not independent, so the interval is the least uncertainty there is, not all of it.
"""

from __future__ import annotations

import math

from virtlab.lazy import special
from virtlab.stats.estimate import Estimate

METHOD = "Clopper-Pearson over what was counted (no run differs)"


def proportion_interval(
    hits: int, count: int, *, level: float = 0.95, metric: str = "", unit: str = "ratio", runs: int = 1
) -> Estimate | None:
    """A share with its exact two-sided interval (Clopper and Pearson 1934); None when nothing was counted.

    >>> found = proportion_interval(0, 400)
    >>> round(found.high, 4)
    0.0092
    """
    if count <= 0:
        return None
    tail = (1.0 - level) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, count - hits + 1, tail))
    high = 1.0 if hits == count else float(special.betaincinv(hits + 1, count - hits, 1.0 - tail))
    return Estimate(metric, unit, hits / count, low, high, level, runs, METHOD)


def p_share_below(hits: int, count: int, limit: float) -> float:
    """One-sided p of the hypothesis that the true share is not below the limit.

    >>> round(p_share_below(0, 400, 0.001), 2), p_share_below(0, 400, 0.0)
    (0.67, 1.0)
    """
    return 1.0 if limit <= 0 else 0.0 if limit > 1 else float(special.bdtr(hits, count, min(limit, 1.0)))


def p_share_above(hits: int, count: int, limit: float) -> float:
    """One-sided p of the hypothesis that the true share is not above the limit."""
    if limit >= 1:
        return 1.0
    if limit < 0 or (limit == 0 and hits > 0):
        return 0.0
    return 1.0 if hits == 0 else float(1.0 - special.bdtr(hits - 1, count, limit))


def count_needed(share: float, limit: float, alpha: float) -> int | None:
    """About how many must be counted to show, one-sided at alpha, that a share seen lies beside the limit.

    Exact for a share of 0 or 1; else by the normal approximation. None when the share is at the limit.

    >>> count_needed(0.0, 0.001, 0.025)
    3688
    """
    if share == limit or not 0 < limit < 1:
        return None
    if share in {0.0, 1.0}:
        return math.ceil(math.log(alpha) / math.log(1.0 - limit if share == 0 else limit))
    return math.ceil((float(special.ndtri(1.0 - alpha)) / (share - limit)) ** 2 * limit * (1.0 - limit))
