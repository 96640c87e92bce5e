"""When enough runs have been made: sequential stopping at planned sizes, corrected for looking.

Runs are added until the interval of the mean is as narrow as asked. Looking after every run and stopping at
the first narrow interval makes intervals too narrow: one stops when the spread happens to look small. So one
looks only at planned sizes, and early looks use a raised level.

How much: for normal values the mean is independent of all spreads seen so far, so an interval that ended at
look k covers with probability 2 Phi(t s_k / sigma) - 1, where (n_k - 1) s_k^2 / sigma^2 is a sum of
independent chi-squares. `look_level` finds, by seeded simulation of those sums, the level of early looks at
which intervals cover, whatever the requested width: never less than 94.5 % where 95 % is stated, up to 96.6 %,
the stated level on average or above (plans that begin with 3 runs are held to Bonferroni's level and come
down to 94 %).

Looking biases only intervals that narrowly made it. An interval at the last planned size was not chosen for
being narrow, and one not half as wide as asked would have stopped anyway; both keep the stated level. The
correction is exact for normal values and an absolute width; a relative width adds the mean's own uncertainty.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from virtlab.lazy import ArrayLike, np, special
from virtlab.stats.estimate import Estimate
from virtlab.stats.means import TOO_FEW, mean_interval, t_quantile

PATHS = 8000
WIDTHS = 40
GROWTH = 1.5
EASILY = 0.5  # of the requested width: narrower than this did not depend on luck
TOLERANCE = 0.1  # of 1 - level: how far below the stated level the least covered width may lie


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
    """The level of early looks at which the interval reported after stopping covers as stated.

    >>> look_level((10,)), 0.95 < look_level((5, 10, 20)) < 0.99
    (0.95, True)
    """
    sizes = np.array([size for size in planned if size >= 2])
    if sizes.size <= 1:
        return level
    generator = np.random.default_rng(20231)
    sums = np.cumsum(generator.chisquare(np.diff(sizes, prepend=1), size=(PATHS, sizes.size)), axis=1)
    spread = np.sqrt(sums / (sizes - 1))  # s_k / sigma
    rows = np.arange(PATHS)
    stated = t_quantile(level, sizes - 1)
    low, high = level, 1.0 - (1.0 - level) / sizes.size
    for _ in range(12):
        middle = (low + high) / 2
        raised = t_quantile(middle, sizes - 1)
        half = raised * spread / np.sqrt(sizes)  # of the interval, in sigma
        covered = 1.0
        for width in np.quantile(half, np.linspace(0.002, 0.998, WIDTHS)):
            narrow = half <= width
            narrow[:, -1] = True
            stop = narrow.argmax(axis=1)
            plain = (stop == sizes.size - 1) | (half[rows, stop] <= EASILY * width)
            t = np.where(plain, stated[stop], raised[stop])
            covered = min(covered, float(np.mean(2 * special.ndtr(t * spread[rows, stop]) - 1)))
        enough = covered >= level - TOLERANCE * (1.0 - level)
        low, high = (low, middle) if enough else (middle, high)
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
    at the last planned size. Exactly one of the two, or none: then all planned runs are made and the interval
    needs no correction.
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

    def early_level(self) -> float:
        """The level at which an early look measures the width."""
        return look_level(self.planned, self.level) if self.sequential else self.level

    def interval(self, values: ArrayLike, *, metric: str = "", unit: str = "") -> Estimate | None:
        """The mean's interval as it is reported, corrected for looking; its `level` is the stated one."""
        plain = mean_interval(values, level=self.level, metric=metric, unit=unit)
        if plain is None or plain.half_width is None or not self.sequential or plain.n >= self.planned[-1]:
            return plain
        raised = mean_interval(values, level=self.early_level(), metric=metric, unit=unit)
        assert raised is not None
        assert raised.half_width is not None
        if raised.half_width <= EASILY * self._wanted(plain.point):
            return plain
        method = f"t, corrected for {len(self.planned)} planned looks"
        return replace(raised, level=self.level, method=method)

    def _wanted(self, point: float) -> float:
        return self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(point)

    def look(self, values: ArrayLike, *, metric: str = "", unit: str = "") -> Look:
        """Looks at the values so far. Between planned sizes it does not look, and says when it will."""
        array = np.asarray(values, dtype=np.float64)
        n = int(array.size)
        if n >= self.planned[-1]:
            estimate = self.interval(array, metric=metric, unit=unit)
            why = f"all {self.planned[-1]} planned runs are made"
            return Look(n, estimate, stop=True, why=why, next_size=None)
        upcoming = next(size for size in self.planned if size > n)
        if n not in self.planned:
            return Look(n, None, stop=False, why=f"looks again at {upcoming} runs", next_size=upcoming)
        estimate = self.interval(array, metric=metric, unit=unit)
        if not self.sequential:
            return Look(n, estimate, stop=False, why="no width was requested", next_size=upcoming)
        raised = mean_interval(array, level=self.early_level())
        half = None if raised is None else raised.half_width
        if half is None or raised is None:
            return Look(n, estimate, stop=False, why=TOO_FEW, next_size=upcoming)
        if half <= self._wanted(raised.point):
            return Look(n, estimate, stop=True, why="the interval is as narrow as asked", next_size=None)
        return Look(n, estimate, stop=False, why="the interval is still too wide", next_size=upcoming)
