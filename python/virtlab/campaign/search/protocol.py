"""What a search and its caller say to each other: a trial to make, what came of it, what was found.

A search never measures. It names the next trial and receives the outcome. The same outcomes give the same
next trial, so an interrupted search resumes by receiving again what is already known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Purpose = Literal["warm-up", "search", "confirm"]


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A trial to make: at which load, for how long. What came of a warm-up counts for nothing."""

    load: float
    trial_s: float
    purpose: Purpose = "search"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a trial. `loss_ratio` holds unsent packets too; a condition that held is a loss of 1."""

    load: float
    trial_s: float
    loss_ratio: float


@dataclass(frozen=True, slots=True)
class GoalBounds:
    """The end of a search for one goal. None: no load that was tried is such a bound.

    `value` is what is reported: the conditional throughput for MLRsearch, the lower bound for the other methods.
    """

    goal: str
    lower: float | None
    upper: float | None
    value: float | None


class Search(Protocol):
    """A search. `ask` is the same until `tell` was called; None when it is over."""

    def ask(self) -> TrialRequest | None:
        """The next trial."""

    def tell(self, result: TrialResult) -> None:
        """The outcome of the trial that `ask` gave."""

    def bounds(self) -> tuple[GoalBounds, ...]:
        """What is known now, per goal; final once `ask` gives None."""

    def traffic_left_s(self) -> float:
        """About how many seconds of traffic are still to come."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What makes a load good; shown beside every number that a search gives.

    One preceding target, where the authors' implementation has two: a target between the first trials and the last
    duration sum judges by few trials, and each load that a stall makes it judge bad sends the search further down.
    """

    loss_ratio: float = 0.0
    exceed_ratio: float = 0.5
    initial_trial_s: float = 1.0
    final_trial_s: float = 1.0
    duration_sum_s: float = 21.0
    width: float = 0.005
    preceding: int = 1
    expansion: int = 2
    name: str = "ndr"

    def __post_init__(self) -> None:
        if not (0.0 <= self.loss_ratio < 1.0 and 0.0 <= self.exceed_ratio < 1.0 and 0.0 < self.width < 1.0):
            raise ValueError(
                "loss and exceed ratios lie in 0..1 and a width within; see docs/reference/search.md"
            )
        if not 0.0 < self.initial_trial_s <= self.final_trial_s <= self.duration_sum_s:
            raise ValueError("the duration sum must hold a final trial, and that an initial one; lengthen it")
        if self.expansion < 2 or self.preceding < 0:
            raise ValueError("an expansion is at least 2, and preceding targets at least 0")
        if self.preceding == 0 and self.initial_trial_s < self.duration_sum_s:
            raise ValueError("a goal of several trials needs a preceding target; write at least 1")

    def text(self, whose: str = "") -> str:
        """The goal for people; `whose` loss, where that is not the whole stream's.

        >>> Goal().text(" of every flow")
        'loss of every flow ≤ 0 % in at least 50 % of 21 s, trials of 1 s, width 0.5 %'
        """
        held = f"{100 * (1 - self.exceed_ratio):g} % of {self.duration_sum_s:g} s"
        return (
            f"loss{whose} ≤ {100 * self.loss_ratio:g} % in at least {held}, "
            f"trials of {self.final_trial_s:g} s, width {100 * self.width:g} %"
        )
