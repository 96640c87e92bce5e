"""A goal as a chain of targets, the coarsest first, and what trials say of each.

A coarse target has a wider interval and a shorter duration sum, so it is reached soon; its bounds are where the
search for the next one begins. Source: draft-ietf-bmwg-mlrsearch, preceding targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.campaign.search.classification import Criterion, Sums
from virtlab.campaign.search.grid import Grid
from virtlab.campaign.search.protocol import Goal


@dataclass(frozen=True, slots=True)
class Target:
    """One target: what a load is held against, how narrow (in steps), how fast to widen a search outwards."""

    criterion: Criterion
    width: int
    expansion: int


def targets_of(goal: Goal, grid: Grid) -> tuple[Target, ...]:
    """The goal's targets, the coarsest first; each is twice as narrow as the one before."""
    width = grid.width(goal.width)
    chain = [_target(goal, goal.duration_sum_s, goal.final_trial_s, width)]
    shrink = (goal.initial_trial_s / goal.duration_sum_s) ** (1.0 / goal.preceding) if goal.preceding else 1.0
    for number in range(1, goal.preceding + 1):
        last = number == goal.preceding
        sum_s = goal.initial_trial_s if last else goal.duration_sum_s * shrink**number
        width *= 2
        chain.append(_target(goal, sum_s, min(goal.final_trial_s, sum_s), width))
    return tuple(reversed(chain))


def _target(goal: Goal, sum_s: float, trial_s: float, width: int) -> Target:
    return Target(Criterion(goal.loss_ratio, goal.exceed_ratio, trial_s, sum_s), width, goal.expansion)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The relevant bounds of one target as places; None: not known yet."""

    low: int | None
    high: int | None

    def improves(self, place: int, width: int) -> bool:
        """Whether a trial there can still make or better a bound of an interval that is too wide."""
        if (self.low is not None and self.low >= place) or (self.high is not None and self.high <= place):
            return False
        return self.low is None or self.high is None or self.high - self.low > width


@dataclass(slots=True)
class Trials:
    """Every trial so far, by place, summed up for every target."""

    targets: tuple[Target, ...]
    places: dict[int, dict[Target, Sums]] = field(default_factory=dict)

    def add(self, place: int, trial_s: float, loss_ratio: float) -> None:
        """One more trial."""
        if place not in self.places:
            self.places[place] = {target: Sums(target.criterion) for target in self.targets}
            self.places = dict(sorted(self.places.items()))
        for sums in self.places[place].values():
            sums.add(trial_s, loss_ratio)

    def bounds(self, target: Target) -> Bounds:
        """The lowest upper bound, and the highest lower bound below it.

        A higher load that happens to lose less is no lower bound: what is below counts first.
        """
        low: int | None = None
        for place, sums in self.places.items():
            match sums[target].bound():
                case False:
                    return Bounds(low, place)
                case True:
                    low = place
                case None:
                    pass
        return Bounds(low, None)
