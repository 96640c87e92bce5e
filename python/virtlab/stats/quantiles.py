"""Intervals of a quantile from order statistics: exact for any distribution, or honestly not there.

Of n independent values the number below the q-quantile is binomial (n, q), so order statistics bound it with
a known probability (David and Nagaraja 2003, section 7.1). With too few values even the largest does not
bound it: an upper 95 % bound of p99 needs 0.99^n <= 0.05, n >= 299.
"""

from __future__ import annotations

import math

from virtlab.lazy import ArrayLike, np, special
from virtlab.stats.estimate import Estimate

METHOD = "order statistics"


def samples_needed(quantile: float, level: float = 0.95) -> int:
    """The fewest values of which the largest is an upper bound of the quantile at this (one-sided) level.

    >>> samples_needed(0.99), samples_needed(0.95), samples_needed(0.5)
    (299, 59, 5)
    """
    return math.ceil(math.log(1.0 - level) / math.log(quantile))


def upper_rank(n: int, quantile: float, level: float) -> int | None:
    """The smallest rank r (from 1) with P(X_(r) >= quantile) >= level; None when not even the largest will
    do.

    >>> upper_rank(298, 0.99, 0.95), upper_rank(299, 0.99, 0.95)
    (None, 299)
    """
    if n == 0 or special.bdtr(n - 1, n, quantile) < level:
        return None
    # P(X_(r) >= x_q) = P(fewer than r values lie below) = P(Binomial(n, q) <= r - 1).
    rank = max(1, math.floor(float(special.bdtrik(level, n, quantile))) - 1)
    while special.bdtr(rank - 1, n, quantile) < level:
        rank += 1
    return rank


def quantile_interval(
    values: ArrayLike, quantile: float, *, level: float = 0.95, metric: str = "", unit: str = ""
) -> Estimate | None:
    """A quantile with its two-sided order-statistic interval (equal tails); each end is None where not
    estimable.

    The true level is at least the stated one. The values must be independent: run-level values, or samples
    known to be so.
    """
    array = np.sort(np.asarray(values, dtype=np.float64))
    n = int(array.size)
    if n == 0:
        return None
    side = 0.5 + level / 2
    high_rank = upper_rank(n, quantile, side)
    mirrored = upper_rank(n, 1.0 - quantile, side)
    low = None if mirrored is None else float(array[n - mirrored])
    high = None if high_rank is None else float(array[high_rank - 1])
    missing = [
        f"the {name} end needs {samples_needed(q, side)} values, there are {n}"
        for name, end, q in (("lower", low, 1.0 - quantile), ("upper", high, quantile))
        if end is None
    ]
    point = float(np.quantile(array, quantile))
    return Estimate(metric, unit, point, low, high, level, n, METHOD, "; ".join(missing))
