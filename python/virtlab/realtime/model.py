"""The three-line model: where, without analysis, a usable VM period is expected.

In a plot of max R/T against P three lines bound the usable periods: on the left `P = X/(share - u)`, below which the
overhead eats the share; the lower line `R/T = 2(1 - share)/T_1 P + (C_1 + X)/T_1`, the first task's wait; and the limit
1. Source: 'Scheduling Tasks with Hard Deadlines in Virtualized Software Systems', section 4.8.2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThreeLines:
    """The lines, and the interval of periods they leave; both ends None: 'impossible'."""

    left: float
    slope: float
    offset: float
    low: float | None
    high: float | None

    @property
    def possible(self) -> bool:
        """Whether any period is expected to be enough."""
        return self.low is not None

    @property
    def lower_line_at_left(self) -> float:
        """R/T that the lower line predicts where the left line stands; above 1: impossible."""
        return self.slope * self.left + self.offset


def three_lines(
    *, share: float, utilisation: float, overhead: float, first_period: float, first_wcet: float
) -> ThreeLines:
    """The model's interval of VM periods, in the unit of the times given.

    >>> found = three_lines(share=0.54, utilisation=0.3, overhead=1, first_period=157, first_wcet=2)
    >>> round(found.left, 2), found.possible
    (4.17, True)
    >>> found = three_lines(share=0.2, utilisation=0.1, overhead=16, first_period=161, first_wcet=2)
    >>> round(found.left), round(found.lower_line_at_left, 2), found.possible
    (160, 1.7, False)
    """
    slope, offset = 2 * (1 - share) / first_period, (first_wcet + overhead) / first_period
    if share <= utilisation:
        return ThreeLines(float("inf"), slope, offset, None, None)
    left = overhead / (share - utilisation)
    high = (1 - offset) / slope
    return ThreeLines(left, slope, offset, *((left, high) if left <= high else (None, None)))


def period_bound(share: float) -> float:
    """Upper bound of P/T_1: `1 / (2 (1 - share))`, from the first task's wait of 2(P - B) alone.

    >>> round(period_bound(0.7), 3)
    1.667
    """
    return 1 / (2 * (1 - share))
