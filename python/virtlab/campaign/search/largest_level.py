"""The largest of ordered levels that is good, each tried by runs that scatter: pure, ask and tell.

Every level that is tried gets runs at planned sizes until it is shown to be good or to be bad, or the last size is
reached; a level that is neither is undecided and does not count as good. The error probability is shared out
(Bonferroni) over all levels that can be tried and all looks, so the level reported is good at the stated
confidence, whatever was tried on the way. Good levels are taken to lie below bad ones: a bracket of a good and a
bad level is narrowed, by where the straight line through its ends crosses zero and by halving in turn, so a smooth
response takes few steps and no response takes more than twice those of halving. `open_end` looks upward in doubling
steps instead of trying the last level first, which may be large beyond reason. Where an undecided level lies in
between, both sides are narrowed: what is reported is the largest level shown to be good and the smallest shown to
be bad.

Then the order is checked: levels spread below the answer are tried too. One that is bad below the answer breaks the
order; the answer is then the largest good level below every bad one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

State = Literal["good", "bad", "undecided", "open"]


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """So many runs in all are wanted of the level at this place."""

    place: int
    runs: int
    purpose: Literal["search", "check"]


@dataclass(slots=True)
class _Tried:
    look: int = 0
    state: State = "open"
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Places: `largest` shown to be good, `smallest_bad` above it; `violations` are bad ones below a good one.

    `undecided` were tried to the last size and are neither.
    """

    largest: int | None
    smallest_bad: int | None
    violations: tuple[int, ...]
    undecided: tuple[int, ...]


@dataclass
class LargestLevel:
    """`levels` in order; `sizes` are the planned numbers of runs, rising."""

    levels: int
    confidence: float = 0.95
    sizes: tuple[int, ...] = (4, 8, 16, 30)
    checks: int = 2
    open_end: bool = False
    _tried: dict[int, _Tried] = field(default_factory=dict, init=False)
    _halve: bool = field(default=False, init=False)
    _pick: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.levels < 1 or not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError("there is no level, or the sizes do not rise")
        if not 0.0 < self.confidence < 1.0 or self.sizes[0] < 2:
            raise ValueError("a confidence lies within 0..1, and a level needs 2 runs at least")

    @property
    def tried_at_most(self) -> int:
        """Bound on the levels that can be tried: ends, brackets narrowed on both sides, checks."""
        halvings = math.ceil(math.log2(max(self.levels, 2)))
        return min(self.levels, 2 + (4 if self.open_end else 3) * halvings + self.checks + 1)

    @property
    def alpha(self) -> float:
        """The error probability of one look at one level."""
        return (1.0 - self.confidence) / (self.tried_at_most * len(self.sizes))

    def ask(self) -> LevelRequest | None:
        """The next runs; None when the search is over. The same until `tell` was called."""
        if self._pick is None:
            self._pick = self._next()
        if self._pick is None:
            return None
        one = self._tried.setdefault(self._pick, _Tried())
        purpose: Literal["search", "check"] = "search" if self._bracket() is not None else "check"
        return LevelRequest(self._pick, self.sizes[one.look], purpose)

    def tell(self, p_bad: float, p_good: float, margin: float | None = None) -> State:
        """What the runs of the requested level show: p values of it being bad, and of it being good.

        `margin` is how far it is on the good side (below zero: on the bad one), in any unit; it only guides the search.
        """
        assert self._pick is not None, "nothing was asked"
        one = self._tried[self._pick]
        one.margin = margin
        if p_bad <= self.alpha:
            one.state = "good"
        elif p_good <= self.alpha:
            one.state = "bad"
        elif one.look + 1 == len(self.sizes):
            one.state = "undecided"
        else:
            one.look += 1
            return "open"
        self._pick = None
        return one.state

    def refuse(self) -> None:
        """The requested level is impossible: it counts as bad."""
        assert self._pick is not None, "nothing was asked"
        self._tried[self._pick].state = "bad"
        self._pick = None

    def state(self, place: int) -> State | None:
        """What is known of a level; None: it was not tried."""
        one = self._tried.get(place)
        return None if one is None else one.state

    def answer(self) -> Answer:
        """What is known now; final once `ask` gives None."""
        good = [place for place, one in self._tried.items() if one.state == "good"]
        bad = [place for place, one in self._tried.items() if one.state == "bad"]
        top, first = max(good, default=-1), min(bad, default=self.levels)
        largest = max((place for place in good if place < first), default=None)
        above = min((place for place in bad if largest is None or place > largest), default=None)
        undecided = tuple(sorted(place for place, one in self._tried.items() if one.state == "undecided"))
        return Answer(largest, above, tuple(sorted(place for place in bad if place < top)), undecided)

    def _bracket(self) -> tuple[int, int] | None:
        """Places between which the search continues: (good or -1, not good or `levels`)."""
        good = max((place for place, one in self._tried.items() if one.state == "good"), default=-1)
        worse = min(
            (
                place
                for place, one in self._tried.items()
                if one.state in {"bad", "undecided"} and place > good
            ),
            default=self.levels,
        )
        return (good, worse) if worse - good > 1 else self._between_undecided_and_bad()

    def _between_undecided_and_bad(self) -> tuple[int, int] | None:
        """The upper end, where a level that is neither lies between the answer and the bad ones."""
        good = max((place for place, one in self._tried.items() if one.state == "good"), default=-1)
        bad = min(
            (place for place, one in self._tried.items() if one.state == "bad" and place > good), default=None
        )
        neither = [place for place, one in self._tried.items() if one.state == "undecided" and place > good]
        if bad is None and neither and self.open_end and max(neither) < self.levels - 1:
            return max(neither), self.levels  # upward, until something is bad
        if bad is None or not neither:
            return None
        low = max((place for place in neither if place < bad), default=None)
        return (low, bad) if low is not None and bad - low > 1 else None

    def _next(self) -> int | None:
        bracket = self._bracket()
        if bracket is None:
            return self._check()
        low, high = bracket
        if high == self.levels:  # nothing is known to be bad
            if not self.open_end:
                return self.levels - 1
            return min(self.levels - 1, 2 * (low + 1))
        if low == -1:
            return 0
        middle = (low + high) // 2
        self._halve = not self._halve
        first = self._tried[low].margin
        last = self._tried[high].margin
        if self._halve or first is None or last is None or not first > 0 > last:
            return middle
        crossing = low + (high - low) * first / (first - last)
        return min(max(round(crossing), low + 1), high - 1)

    def _check(self) -> int | None:
        """Levels that test the order: evenly below the answer."""
        top = max((place for place, one in self._tried.items() if one.state == "good"), default=0)
        for number in range(1, self.checks + 1):
            place = top * number // (self.checks + 1)
            if place not in self._tried and place < top:
                return place
        return None
