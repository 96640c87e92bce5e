"""A grid of loads, equally spaced in the logarithm: one step is always the same ratio.

A search halves and doubles intervals many times; on whole numbers that is exact and reversible, on floats it is
not. So a search works on places 0..steps, place 0 the lowest load and place `steps` the highest, and only what is
measured is a load. The number of steps is the smallest for which every width goal is almost a whole number of them
(at least 99 %, and never quite 100 %, so that rounding cannot make an interval wider than its goal). Source:
draft-ietf-bmwg-mlrsearch (relative width); the way of choosing the steps is that of its reference implementation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

QUALITY_LOW = 0.99
QUALITY_HIGH = 0.999999


@dataclass(frozen=True)
class Grid:
    """Loads between `low` and `high` (both above 0). `widths` are relative: (high - low) / high of an interval."""

    low: float
    high: float
    widths: tuple[float, ...]
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.low < self.high:
            raise ValueError(f"no loads lie between {self.low:g} and {self.high:g}; exchange or widen them")
        if not self.widths or not all(0.0 < width < 1.0 for width in self.widths):
            raise ValueError("a width is a share between 0 and 1; write e.g. 0.005")
        object.__setattr__(self, "steps", _steps(math.log(self.high) - math.log(self.low), set(self.widths)))

    def load(self, place: int) -> float:
        """The load at a place; beyond an end, that end."""
        if place <= 0:
            return self.low
        if place >= self.steps:
            return self.high
        return self.low * math.exp((math.log(self.high) - math.log(self.low)) * place / self.steps)

    def place(self, load: float) -> int:
        """The highest place whose load is not above `load`, within the grid."""
        if load <= self.low:
            return 0
        if load >= self.high:
            return self.steps
        span = math.log(self.high) - math.log(self.low)
        found = int((math.log(load) - math.log(self.low)) / span * self.steps)
        while found > 0 and self.load(found) > load:
            found -= 1
        while self.load(found + 1) <= load:
            found += 1
        return found

    def width(self, relative: float) -> int:
        """How many steps a relative width is, rounded down."""
        return self.place(self.low / (1.0 - relative)) if relative < 1.0 else self.steps

    def relative(self, low: int, high: int) -> float:
        """The relative width of an interval of places."""
        return 1.0 - self.load(low) / self.load(high)


def _steps(span: float, widths: Iterable[float]) -> int:
    goals = [-math.log1p(-width) for width in widths]
    steps = 1
    while True:
        following = [steps + 1]
        for goal in goals:
            units = goal * steps / span
            whole = math.floor(units)
            if not QUALITY_LOW <= whole / units <= QUALITY_HIGH:
                following.append(math.ceil((whole + 1) / QUALITY_HIGH / units * steps))
        if len(following) == 1:
            return steps
        steps = max(following)
