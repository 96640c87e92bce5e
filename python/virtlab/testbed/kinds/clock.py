"""A guest's clock against ours.

A guest with a kernel of its own has its own CLOCK_MONOTONIC_RAW. A question for it that leaves at a, is answered
with g, and whose answer is here at b, says that the guest's clock was g at an instant between a and b of ours: its
offset is g - (a + b) / 2, within (b - a) / 2 (the bound of Cristian, 1989). Of several questions the one with the
least b - a is kept. Two such readings, before and after a run, give the drift; between them the offset is drawn on
a straight line.

While a run continues only the reading before it is known: its bound grows by what two quartz clocks may drift.

The clock of a guest that is paused stands still. So from then on it is another line: an epoch of its own, with readings
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from virtlab.agents.conversation import LARGEST
from virtlab.errors import AgentError

QUESTIONS = 32
DRIFT_RATIO = 50e-6  # of two clocks that count the same machine's ticks by different routes


class Clock(Protocol):
    """Converts instants, ns, between our clock and another."""

    def to_ours(self, t_ns: int) -> int:
        """An instant of the other clock as one of ours."""

    def from_ours(self, t_ns: int) -> int:
        """An instant of our clock as one of the other."""

    def bound_ns(self, t_ns: int) -> int:
        """How far `to_ours` may be off around an instant of ours."""


@dataclass(frozen=True, slots=True)
class OurClock:
    """The same clock."""

    def to_ours(self, t_ns: int) -> int:
        """The same instant: the clock is ours."""
        return t_ns

    def from_ours(self, t_ns: int) -> int:
        """The same instant: the clock is ours."""
        return t_ns

    def bound_ns(self, t_ns: int) -> int:
        """Nothing."""
        del t_ns
        return 0


@dataclass(frozen=True, slots=True)
class Reading:
    """At `at_ns` of our clock the other was ahead by `offset_ns`, within `bound_ns`."""

    at_ns: int
    offset_ns: int
    bound_ns: int


def read(ask: Callable[[], int], now: Callable[[], int], questions: int = QUESTIONS) -> Reading:
    """Compares clocks: `ask` fetches the other's time, `now` is ours.

    >>> times = iter([0, 100, 200, 220])
    >>> read(iter([1050, 1212]).__next__, times.__next__, questions=2)
    Reading(at_ns=210, offset_ns=1002, bound_ns=10)
    """
    best: Reading | None = None
    for _ in range(questions):
        before = now()
        theirs = ask()
        after = now()
        middle = (before + after) // 2
        bound = (after - before + 1) // 2
        if best is None or bound < best.bound_ns:
            best = Reading(middle, theirs - middle, bound)
    assert best is not None
    return best


@dataclass(slots=True)
class GuestClock:
    """A guest's clock by readings in the order in which they were taken; the last two count."""

    readings: list[Reading] = field(default_factory=list)
    wander_ratio: float = DRIFT_RATIO
    earlier: list[tuple[int, GuestClock]] = field(
        default_factory=list
    )  # until when by its own clock, and what it was

    def stood_still(self, until_ns: int, reading: Reading) -> None:
        """It stood still until that instant of ours, and has been read since: what it showed before stays as it was."""
        before = GuestClock(self.readings, self.wander_ratio)
        self.readings = [reading]
        self.earlier.append((self.from_ours(until_ns), before))

    def forget(self) -> None:
        """It begins again: nothing is known of it."""
        self.readings.clear()
        self.earlier.clear()

    @property
    def breaks_ns(self) -> list[int]:
        """Its own instants at which it stood still."""
        return [at_ns for at_ns, _ in self.earlier]

    def _at(self, t_ns: int) -> GuestClock:
        """What it was at an instant of its own."""
        return next((before for at_ns, before in self.earlier if t_ns <= at_ns and before.readings), self)

    def add(self, reading: Reading) -> None:
        """One more."""
        self.readings.append(reading)

    @property
    def drift_ratio(self) -> float:
        """How much faster than ours it goes; 0 with less than two readings."""
        if len(self.readings) < 2:
            return 0.0
        first, last = self.readings[-2:]
        return (last.offset_ns - first.offset_ns) / max(last.at_ns - first.at_ns, 1)

    def _offset_ns(self, ours_ns: int) -> int:
        last = self.readings[-1]
        return last.offset_ns + round((ours_ns - last.at_ns) * self.drift_ratio)

    def to_ours(self, t_ns: int) -> int:
        """An instant of the guest as one of ours. AgentError for one that our clock never shows."""
        if (epoch := self._at(t_ns)) is not self:
            return epoch.to_ours(t_ns)
        # Each step leaves the drift's part of the error before it: after three nothing is left of an hour's drift.
        ours = t_ns - self.readings[-1].offset_ns
        for _ in range(3):
            ours = t_ns - self._offset_ns(ours)
        if not 0 <= ours < LARGEST:
            raise AgentError("agent protocol", f"its instant {t_ns} ns is beyond all that our clock shows")
        return ours

    def from_ours(self, t_ns: int) -> int:
        """An instant of ours as the guest's."""
        return t_ns + self._offset_ns(t_ns)

    def bound_ns(self, t_ns: int) -> int:
        """Between two readings the larger of theirs; beyond the last one it grows."""
        last = self.readings[-1]
        known = max(reading.bound_ns for reading in self.readings[-2:])
        return known + round(max(t_ns - last.at_ns, 0) * self.wander_ratio)
