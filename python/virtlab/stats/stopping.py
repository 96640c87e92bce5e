"""When enough runs have been made: sequential stopping at planned sizes, corrected for looking.

Runs are added until the interval of the mean is as narrow as asked. Looking after every run and stopping at
the first
narrow interval makes intervals too narrow: one stops when the spread happens to look small. So one looks only
at planned
sizes, and the level of every look is raised until the interval that is reported in the end covers the truth
at the
stated level.

How much: for normal values the mean is independent of all spreads seen so far, so an interval that stopped at
look k
covers with probability 2 Phi(t s_k / sigma) - 1, where (n_k - 1) s_k^2 / sigma^2 is a sum of independent
chi-squares.
`look_level` finds by seeded simulation of those sums the level at which the least covered width asked for is
still covered
as stated. The correction is exact for normal values and an absolute width; a relative width differs by the
mean's own
uncertainty, and skewed values as they do for t.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.stats.estimate import Estimate
from virtlab.stats.means import TOO_FEW, mean_interval, t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PATHS = 4000
WIDTHS = 48
GROWTH = 1.5


def planned_sizes(minimum: int, maximum: int) -> tuple[int, ...]:
    """Sizes at which to look: from minimum to maximum, each about half as large again as the one before.

    >>> planned_sizes(5, 30), planned_sizes(3, 3)
    ((5, 8, 12, 18, 27, 30), (3,))
    """
    if not 1 <= minimum <= maximum:
        raise ValueError(f"a minimum of {minimum} and a maximum of {maximum} runs make no plan")
    sizes = [minimum]
    while sizes[-1] < maximum:
        sizes.append(min(maximum, max(sizes[-1] + 1, math.ceil(sizes[-1] * GROWTH))))
    if len(sizes) > 2 and sizes[-1] - sizes[-2] < 2 and maximum > 10:
        del sizes[-2]
    return tuple(sizes)


@functools.lru_cache(maxsize=256)
def look_level(planned: tuple[int, ...], level: float = 0.95) -> float:
    """The level of every look at which the interval reported after stopping covers at `level`.

    >>> look_level((10,)), 0.95 < look_level((5, 10, 20)) < 0.99
    (0.95, True)
    """
    import numpy as np
    from scipy.special import ndtr

    sizes = np.array([size for size in planned if size >= 2])
    if sizes.size <= 1:
        return level
    generator = np.random.default_rng(20231)
    steps = np.diff(sizes, prepend=1)
    sums = np.cumsum(generator.chisquare(steps, size=(PATHS, sizes.size)), axis=1)
    spread = np.sqrt(sums / (sizes - 1))  # s_k / sigma
    low, high = level, 1.0 - (1.0 - level) / sizes.size / 4
    for _ in range(14):
        middle = (low + high) / 2
        t = t_quantile(middle, sizes - 1)
        half = t * spread / np.sqrt(sizes)  # of the interval, in sigma
        widths = np.quantile(half, np.linspace(0.002, 0.998, WIDTHS))
        covered = 1.0
        for width in widths:
            narrow = half <= width
            narrow[:, -1] = True
            stop = narrow.argmax(axis=1)
            rows = np.arange(PATHS)
            covered = min(covered, float(np.mean(2 * ndtr(t[stop] * spread[rows, stop]) - 1)))
        low, high = (middle, high) if covered < level else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. `next_size` is the number of runs to have before looking again; None: stop."""

    n: int
    estimate: Estimate | None
    stop: bool
    why: str
    next_size: int | None


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Stop when half the interval is at most `relative` (a share of the mean) or `absolute` (in the unit), or
    at the last
    planned size. Exactly one of the two, or none: then all planned runs are made and the interval needs no
    correction.
    """

    planned: tuple[int, ...]
    relative: float | None = None
    absolute: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        if not self.planned or any(b <= a for a, b in zip(self.planned, self.planned[1:], strict=False)):
            raise ValueError(f"planned sizes must rise, got {self.planned}")
        if self.relative is not None and self.absolute is not None:
            raise ValueError("a width is relative or absolute, not both")

    @property
    def sequential(self) -> bool:
        """Whether it may stop before the last planned size."""
        return len(self.planned) > 1 and (self.relative is not None or self.absolute is not None)

    def effective_level(self) -> float:
        """The level that each interval is computed at so that the reported one covers at `level`."""
        return look_level(self.planned, self.level) if self.sequential else self.level

    def interval(self, values: ArrayLike, *, metric: str = "", unit: str = "") -> Estimate | None:
        """The mean's interval, corrected for looking; its `level` is the stated one."""
        found = mean_interval(values, level=self.effective_level(), metric=metric, unit=unit)
        if found is None or not self.sequential:
            return found
        method = f"t, corrected for {len(self.planned)} planned looks"
        return Estimate(
            metric, unit, found.point, found.low, found.high, self.level, found.n, method, found.why
        )

    def look(self, values: ArrayLike, *, metric: str = "", unit: str = "") -> Look:
        """Looks at the values so far. Between planned sizes it does not look, and says when it will."""
        import numpy as np

        array = np.asarray(values, dtype=np.float64)
        n = int(array.size)
        if n < self.planned[-1] and n not in self.planned:
            upcoming = next(size for size in self.planned if size > n)
            return Look(n, None, stop=False, why=f"looks again at {upcoming} runs", next_size=upcoming)
        estimate = self.interval(array, metric=metric, unit=unit)
        if n >= self.planned[-1]:
            return Look(
                n, estimate, stop=True, why=f"all {self.planned[-1]} planned runs are made", next_size=None
            )
        upcoming = next(size for size in self.planned if size > n)
        if not self.sequential:
            return Look(n, estimate, stop=False, why="no width was asked for", next_size=upcoming)
        half = None if estimate is None else estimate.half_width
        if half is None or estimate is None:
            return Look(n, estimate, stop=False, why=TOO_FEW, next_size=upcoming)
        wanted = self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(estimate.point)
        if half <= wanted:
            return Look(n, estimate, stop=True, why="the interval is as narrow as asked", next_size=None)
        return Look(n, estimate, stop=False, why="the interval is still too wide", next_size=upcoming)


def stopped_at(values: Any, rule: StoppingRule) -> tuple[Any, Any, Any]:
    """For many experiments at once (rows of at least the last planned size): (runs used, low, high) of each.

    The same rule as `look`, over arrays; used to check that the intervals cover.
    """
    import numpy as np

    rows = values.shape[0]
    used, low, high = np.zeros(rows, dtype=int), np.zeros(rows), np.zeros(rows)
    open_ = np.ones(rows, dtype=bool)
    level = rule.effective_level()
    for size in rule.planned:
        part = values[:, :size]
        mean = part.mean(axis=1)
        half = t_quantile(level, size - 1) * part.std(axis=1, ddof=1) / math.sqrt(size)
        wanted = rule.absolute if rule.absolute is not None else (rule.relative or 0.0) * np.abs(mean)
        ends = open_ & ((half <= wanted) | (size == rule.planned[-1]))
        used[ends], low[ends], high[ends] = size, (mean - half)[ends], (mean + half)[ends]
        open_ &= ~ends
    return used, low, high
