"""A result is never a naked number: point, interval, level, number of runs, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from virtlab.units import show_interval, show_quantity


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of one quantity from `n` independent runs, in `unit`.

    `low` and `high` bound it at `level` (0.95 = 95 %); an end is None where it is not estimable, and `why`
    says why.

    >>> print(Estimate("rtt", "ns", 244_000.0, 239_000.0, 251_500.0, 0.95, 10, "t"))
    244 µs (239 to 252 µs, 95 %, n = 10)
    """

    metric: str
    unit: str
    point: float
    low: float | None
    high: float | None
    level: float
    n: int
    method: str
    why: str = ""

    def named(self, metric: str, unit: str) -> Estimate:
        """The same numbers as those of another metric and unit."""
        return replace(self, metric=metric, unit=unit)

    @property
    def half_width(self) -> float | None:
        """Half the interval's width; None where an end is missing."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float | None:
        """Half the width as a share of the point; None where an end is missing or the point is zero."""
        half = self.half_width
        return None if half is None or self.point == 0 else half / abs(self.point)

    def __str__(self) -> str:
        shown = show_quantity(self.point, self.unit)
        if self.low is None and self.high is None:
            return f"{shown} (interval not estimable: {self.why}; n = {self.n})"
        return (
            f"{shown} ({show_interval(self.low, self.high, self.unit)}, {self.level * 100:g} %, n = {self.n})"
        )
