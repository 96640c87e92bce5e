"""Bisection: one trial decides each load; the interval between the last good and the last bad one is halved.

This is throughput as RFC 2544, 26.1 has it, with trials of 60 s and no loss allowed: the highest load is tried
first and is the answer when it is good; else the lowest, and the search has none when that is bad. A single stall of
the machine under a trial makes a good load bad for good, so between searches the answer varies far more than its
width says; MLRsearch exists for that reason. It also finds where a condition on any other metric begins to hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.campaign.search.protocol import GoalBounds, TrialRequest, TrialResult


@dataclass(slots=True)
class Bisection:
    """Ask and tell. The interval ends relative to its upper end at `width`, or at an absolute `resolution`.

    `low_trial` False takes the lowest load as good without trying it (RFC 2544 knows no lowest load).
    """

    low: float
    high: float
    trial_s: float = 60.0
    loss_ratio: float = 0.0
    width: float = 0.005
    resolution: float | None = None
    warmup_s: float = 0.0
    low_trial: bool = True
    goal: str = "ndr"
    good: float | None = field(default=None, init=False)
    bad: float | None = field(default=None, init=False)
    _warm: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high:
            raise ValueError(f"nothing lies between {self.low:g} and {self.high:g}; exchange or widen them")
        if not 0.0 <= self.loss_ratio < 1.0 or not 0.0 < self.width < 1.0 or self.trial_s <= 0:
            raise ValueError("a loss ratio lies in 0..1, a width within, and a trial takes time")

    def ask(self) -> TrialRequest | None:
        """The next trial; None when the interval is narrow enough."""
        if self.warmup_s > 0 and not self._warm:
            return TrialRequest(self.high, self.warmup_s, "warm-up")
        if self.bad is None:
            return TrialRequest(self.high, self.trial_s) if self.good is None else None
        low = self.good
        if low is None:
            if self.low_trial and self.bad > self.low:
                return TrialRequest(self.low, self.trial_s)
            if self.bad <= self.low:
                return None
            low = self.low
        if self._narrow(low, self.bad):
            return None
        return TrialRequest(self._between(low, self.bad), self.trial_s)

    def _narrow(self, low: float, high: float) -> bool:
        return high - low <= (self.resolution if self.resolution is not None else self.width * high)

    def _between(self, low: float, high: float) -> float:
        """The middle; with a resolution, a whole number of them above the lowest load."""
        half = (low + high) / 2.0
        if self.resolution is None:
            return half
        units = round((half - self.low) / self.resolution)
        place = self.low + units * self.resolution
        return place if low < place < high else half

    def tell(self, result: TrialResult) -> None:
        """Takes the result of the trial that `ask` gave."""
        wanted = self.ask()
        assert wanted is not None, "the search is over"
        assert result.load == wanted.load, "another trial than requested"
        if wanted.purpose == "warm-up":
            self._warm = True
        elif result.loss_ratio <= self.loss_ratio:
            self.good = result.load
        else:
            self.bad = result.load

    def bounds(self) -> tuple[GoalBounds, ...]:
        """The last good load and the last bad one."""
        return (GoalBounds(self.goal, self.good, self.bad, self.good),)

    def traffic_left_s(self) -> float:
        """Trials that halving still takes."""
        if self.ask() is None:
            return 0.0
        low, high, trials = self.low if self.good is None else self.good, self.bad or self.high, 1
        while not self._narrow(low, high) and trials < 64:
            low, trials = (low + high) / 2.0, trials + 1
        return trials * self.trial_s
