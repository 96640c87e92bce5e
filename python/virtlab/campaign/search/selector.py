"""Which load to try next for one goal: the rules of MLRsearch in their order.

Given the bounds that ended the preceding target (`from_low`, `from_high`) and the bounds of the current one:

1. halve what the preceding target left, when it is one to two widths;
2. refine: try the preceding lower bound, then the upper one, at this target's length;
3. extend down or up while one bound is missing, in steps that grow with every miss;
4. bisect between both bounds, or extend from the nearer one when that stays closer to where the preceding target
   ended.

A target is reached when no rule has a load. Source: draft-ietf-bmwg-mlrsearch and its reference implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.campaign.search.intervals import middle, within
from virtlab.campaign.search.targets import Bounds, Target, Trials


@dataclass(slots=True)
class Step:
    """The width of the latest step outwards, shared by all goals: they move outwards together."""

    width: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A load that a goal wants tried. `grows`: which bound, if it becomes that, makes the next step larger."""

    place: int
    trial_s: float
    width: int
    grows: str = ""  # 'low', 'high' or ''


@dataclass(slots=True)
class Selector:
    """The state of one goal. `chain`: its targets, the coarsest first."""

    chain: tuple[Target, ...]
    trials: Trials
    shared: Step
    steps: int
    from_low: int | None
    from_high: int | None
    at: int = 0
    _next_width: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._begin()

    @property
    def target(self) -> Target:
        """The current target."""
        return self.chain[self.at]

    def _begin(self) -> None:
        width = self.target.width
        if self.from_low is not None and self.from_high is not None:
            width = max(width, self.from_high - self.from_low)
        self._next_width = width * self.target.expansion

    def _limit(self, width: int) -> None:
        self._next_width = max(width, self.target.width) * self.target.expansion

    def _outwards(self) -> int:
        return max(self._next_width, self.shared.width)

    def nominate(self) -> Candidate | None:
        """The goal's next trial; None when its last target is reached."""
        while True:
            bounds = self.trials.bounds(self.target)
            candidate = (
                self._halve(bounds)
                or self._refine(bounds, self.from_low)
                or self._refine(bounds, self.from_high)
                or self._extend(bounds)
                or self._bisect(bounds)
            )
            if candidate is not None:
                return candidate
            assert bounds.low is not None or bounds.high is not None, "a target ends with a bound"
            if self.at + 1 == len(self.chain):
                return None
            self.at += 1
            self.from_low, self.from_high = bounds.low, bounds.high
            self._begin()

    def won(self, candidate: Candidate) -> None:
        """Its candidate was tried: a step outwards that found no end makes the next one larger."""
        bounds = self.trials.bounds(self.target)
        reached = {"low": bounds.low, "high": bounds.high}.get(candidate.grows)
        if reached is not None and reached == candidate.place:
            self._next_width *= self.target.expansion
            self.shared.width = self._next_width

    def _candidate(self, place: int, width: int, grows: str = "") -> Candidate:
        return Candidate(place, self.target.criterion.trial_s, width, grows)

    def _halve(self, bounds: Bounds) -> Candidate | None:
        if self.from_low is None or self.from_high is None:
            return None
        width = self.target.width
        low, high = min(self.from_low, self.from_high), max(self.from_low, self.from_high)
        if not width < high - low <= 2 * width:
            return None
        place = middle(low, high, width)
        if not bounds.improves(place, width):
            return None
        self._limit(width)
        return self._candidate(place, width)

    def _refine(self, bounds: Bounds, place: int | None) -> Candidate | None:
        width = self.target.width
        if place is None or not bounds.improves(place, width):
            return None
        self._limit(width)
        return self._candidate(place, width)

    def _extend(self, bounds: Bounds) -> Candidate | None:
        width = self._outwards()
        if bounds.low is None and bounds.high is not None and bounds.high > 0:
            place = within(bounds.high - width, self.target.width, None, bounds.high, self.steps)
            grows = "high"
        elif bounds.high is None and bounds.low is not None and bounds.low < self.steps:
            place = within(bounds.low + width, self.target.width, bounds.low, None, self.steps)
            grows = "low"
        else:
            return None
        if place is None or not bounds.improves(place, self.target.width):
            return None
        return self._candidate(place, width, grows)

    def _bisect(self, bounds: Bounds) -> Candidate | None:
        low, high, width = bounds.low, bounds.high, self.target.width
        if low is None or high is None or high - low <= width:
            return None
        half = middle(low, high, width)
        outwards = self._outwards()
        if self.from_high is not None and half < self.from_high:
            place = within(high - outwards, width, low, high, self.steps)
            if place is not None and half < place < self.from_high:
                return self._candidate(place, outwards, "high")
        if self.from_low is not None and half > self.from_low:
            place = within(low + outwards, width, low, high, self.steps)
            if place is not None and self.from_low < place < half:
                return self._candidate(place, outwards, "low")
        smaller = min(half - low, high - half)
        self._limit(smaller)
        return self._candidate(half, smaller)
