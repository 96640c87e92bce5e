"""Two samples of runs: how far apart, how sure, how large in terms of the spread; or equal within a margin.

`Comparison` says one of: different, equivalent (only when a margin was given), undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from virtlab.lazy import ArrayLike, NDArray, np, special
from virtlab.stats.contrasts import Contrast, contrast
from virtlab.stats.estimate import Estimate

Finding = Literal["different", "equivalent", "undecided"]
ONE_RUN = "a sample of one run has no spread; each needs at least 2"


@dataclass(frozen=True, slots=True)
class Comparison:
    """First sample against second. `difference` is first minus second, `ratio` first over second.

    `p` is the two-sided Welch p value; `p_equivalent` that of the two one-sided tests, None without a margin.
    """

    difference: Estimate
    ratio: Estimate | None
    hedges_g: float | None
    cliffs_delta: float
    p: float
    p_equivalent: float | None
    finding: Finding
    more_runs: int | None


def compare(
    first: ArrayLike,
    second: ArrayLike,
    *,
    level: float = 0.95,
    margin: float | None = None,
    relative_margin: float | None = None,
    metric: str = "",
    unit: str = "",
) -> Comparison | None:
    """Compares two samples of run-level values; None when one is empty.

    `margin` (in the unit) or `relative_margin` (a share of the second mean) asks for equivalence too. With
    one, samples that differ clearly yet within the margin are equivalent: the margin says which differences
    matter.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.size == 0 or b.size == 0:
        return None
    difference = contrast([a, b], [1.0, -1.0])
    low, high = difference.interval(level)
    p = min(1.0, 2.0 * min(difference.p_above(0.0), difference.p_below(0.0)))
    alpha = 1.0 - level
    p_equivalent: float | None = None
    if margin is not None or relative_margin is not None:
        p_equivalent = equivalence_p(a, b, margin=margin, relative_margin=relative_margin)
    finding: Finding = "undecided"
    if p_equivalent is not None and p_equivalent <= alpha:
        finding = "equivalent"
    elif p <= alpha:
        finding = "different"
    more = None
    if finding == "undecided":
        more = difference.runs_to_decide(abs(difference.value), alpha=alpha / 2)
    n = int(a.size + b.size)
    why = "" if low is not None else ONE_RUN
    return Comparison(
        Estimate(metric, unit, difference.value, low, high, level, n, "Welch t", why),
        ratio_interval(a, b, level=level, metric=metric),
        hedges_g(a, b),
        cliffs_delta(a, b),
        p,
        p_equivalent,
        finding,
        more,
    )


def equivalence_p(
    first: NDArray[Any], second: NDArray[Any], *, margin: float | None, relative_margin: float | None = None
) -> float:
    """p of two one-sided tests (Schuirmann 1987) that the means differ by less than the margin.

    Twice the larger one-sided p: below 1 - level exactly when the interval at that level lies inside the
    margin. A relative margin m asks mean1 < (1 + m) mean2 and mean1 > (1 - m) mean2, which are contrasts of
    the two means, so the reference's own uncertainty counts.
    """
    above, below = margin_contrasts(first, second, margin=margin, relative_margin=relative_margin)
    return min(1.0, 2.0 * max(above.p_above(0.0), below.p_below(0.0)))


def margin_contrasts(
    first: NDArray[Any], second: NDArray[Any], *, margin: float | None, relative_margin: float | None = None
) -> tuple[Contrast, Contrast]:
    """(what is above zero when first is not too low, what is below zero when first is not too high)."""
    if relative_margin is not None:
        reach = relative_margin if float(second.mean()) >= 0 else -relative_margin
        return contrast([first, second], [1.0, -(1.0 - reach)]), contrast(
            [first, second], [1.0, -(1.0 + reach)]
        )
    assert margin is not None, "an equivalence needs a margin"
    found = contrast([first, second], [1.0, -1.0])
    return (
        Contrast(found.value + margin, found.se, found.df, found.runs),
        Contrast(found.value - margin, found.se, found.df, found.runs),
    )


def ratio_interval(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95, metric: str = "", unit: str = "ratio"
) -> Estimate | None:
    """First mean over second mean with Fieller's interval (1954); None when the second mean is zero or a
    sample empty.

    Symbols: a, b means, u, v their squared standard errors, t Student's quantile at Welch's degrees of
    freedom of a - r b: the interval is all r with (a - r b)^2 <= t^2 (u + r^2 v). It is not estimable when b
    may be zero.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.size == 0 or b.size == 0 or float(b.mean()) == 0:
        return None
    mean_a, mean_b = float(a.mean()), float(b.mean())
    ratio, n, method = mean_a / mean_b, int(a.size + b.size), "Fieller"
    if a.size < 2 or b.size < 2:
        return Estimate(metric, unit, ratio, None, None, level, n, method, ONE_RUN)
    u, v = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    found = contrast([a, b], [1.0, -ratio])
    t = float(special.stdtrit(found.df, 0.5 + level / 2)) if found.se else 0.0
    square = mean_b**2 - t**2 * v
    if square <= 0:
        why = "the second mean may be zero, so the ratio is unbounded"
        return Estimate(metric, unit, ratio, None, None, level, n, method, why)
    root = math.sqrt(max(0.0, (mean_a * mean_b) ** 2 - square * (mean_a**2 - t**2 * u)))
    ends = sorted(((mean_a * mean_b - root) / square, (mean_a * mean_b + root) / square))
    return Estimate(metric, unit, ratio, ends[0], ends[1], level, n, method)


def hedges_g(first: ArrayLike, second: ArrayLike) -> float | None:
    """Difference of means in units of the pooled standard deviation, corrected for few runs (Hedges 1981).

    J = 1 - 3 / (4 df - 1). None when neither sample varies by more than rounding makes, or one has a single
    run.

    >>> round(hedges_g([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]), 3)
    0.8
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.size < 2 or b.size < 2:
        return None
    df = a.size + b.size - 2
    pooled = math.sqrt(((a.size - 1) * float(a.var(ddof=1)) + (b.size - 1) * float(b.var(ddof=1))) / df)
    still = pooled <= 1e-12 * max(abs(float(a.mean())), abs(float(b.mean())))
    return None if still else (1 - 3 / (4 * df - 1)) * float(a.mean() - b.mean()) / pooled


def cliffs_delta(first: ArrayLike, second: ArrayLike) -> float:
    """P(first > second) - P(first < second) over all pairs of runs (Cliff 1993): -1 to 1, no shape assumed.

    >>> cliffs_delta([3, 4], [1, 2]), cliffs_delta([1, 2], [1, 2])
    (1.0, 0.0)
    """
    a, b = np.asarray(first, dtype=np.float64), np.sort(np.asarray(second, dtype=np.float64))
    above = int(np.searchsorted(b, a, side="left").sum())
    below = int((b.size - np.searchsorted(b, a, side="right")).sum())
    return (above - below) / (a.size * b.size)
