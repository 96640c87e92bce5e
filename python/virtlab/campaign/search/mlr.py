"""MLRsearch: the highest load that meets each of several goals, in trials that all goals share.

A warm-up at the highest load, which counts for nothing; a trial there; then at what came through, and a width from
that. From there each goal nominates its next load (`selector`), and the lowest is tried. Many short trials stand
for one long one: a load is good when at most the exceed ratio of its time was bad, so a single stall of the
machine decides nothing. Source: draft-ietf-bmwg-mlrsearch.

What is reported is the conditional throughput: the relevant lower bound less the loss that its own trials had
(`classify.Sums.loss_at_exceed`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from virtlab.campaign.search.grid import Grid
from virtlab.campaign.search.intervals import within
from virtlab.campaign.search.protocol import Goal, GoalBounds, TrialRequest, TrialResult
from virtlab.campaign.search.selector import Candidate, Selector, Step
from virtlab.campaign.search.targets import Trials, targets_of

Asking = Generator[TrialRequest, TrialResult, None]


class MlrSearch:
    """Ask and tell. `low` and `high` bound the loads; `warmup_s` 0: no warm-up.

    ValueError when the goals or the bounds make no search.
    """

    def __init__(
        self, low: float, high: float, goals: Sequence[Goal] = (Goal(),), *, warmup_s: float = 1.0
    ) -> None:
        if not goals:
            raise ValueError("a search needs a goal; write e.g. 'goals: [{loss: 0 %}]'")
        self.grid = Grid(low, high, tuple(goal.width for goal in goals))
        self.goals = tuple(goals)
        self._chains = tuple(targets_of(goal, self.grid) for goal in goals)
        self.trials = Trials(tuple(dict.fromkeys(target for chain in self._chains for target in chain)))
        self._warmup_s = warmup_s
        self._selectors: list[Selector] = []
        self._trials = self._steps()
        self._wanted: TrialRequest | None = next(self._trials)

    def ask(self) -> TrialRequest | None:
        """The next trial; None when every goal is reached."""
        return self._wanted

    def tell(self, result: TrialResult) -> None:
        """The outcome of a trial. AssertionError for another trial than requested."""
        assert self._wanted is not None, "the search is over"
        assert (result.load, result.trial_s) == (self._wanted.load, self._wanted.trial_s), (
            "another trial than requested"
        )
        try:
            self._wanted = self._trials.send(result)
        except StopIteration:
            self._wanted = None

    def bounds(self) -> tuple[GoalBounds, ...]:
        """Per goal: the relevant bounds and the conditional throughput."""
        answers = []
        for goal, chain in zip(self.goals, self._chains, strict=True):
            bounds = self.trials.bounds(chain[-1])
            lower = None if bounds.low is None else self.grid.load(bounds.low)
            upper = None if bounds.high is None else self.grid.load(bounds.high)
            value = None
            if bounds.low is not None and lower is not None:
                value = lower * (1.0 - self.trials.places[bounds.low][chain[-1]].loss_at_exceed())
            answers.append(GoalBounds(goal.name, lower, upper, value))
        return tuple(answers)

    def traffic_left_s(self) -> float:
        """What two undecided loads of each target that is left would take: a rough upper figure."""
        if self._wanted is None:
            return 0.0
        left = 0.0
        for chain, at in zip(self._chains, self._reached(), strict=True):
            left = max(left, sum(2 * target.criterion.duration_sum_s for target in chain[at:]))
        return left

    def _reached(self) -> list[int]:
        return [one.at for one in self._selectors] or [0] * len(self._chains)

    def _try(self, place: int, trial_s: float) -> Generator[TrialRequest, TrialResult, float]:
        told = yield TrialRequest(self.grid.load(place), trial_s)
        self.trials.add(place, trial_s, told.loss_ratio)
        return told.loss_ratio

    def _steps(self) -> Asking:
        grid = self.grid
        if self._warmup_s > 0:
            yield TrialRequest(grid.high, self._warmup_s, "warm-up")
        first, second = yield from self._begin()
        low, high = min(first, second), max(first, second)
        step = Step(high - low)
        self._selectors = [
            Selector(chain, self.trials, step, grid.steps, low, high) for chain in self._chains
        ]
        while True:
            best: tuple[Candidate, Selector] | None = None
            for selector in self._selectors:
                candidate = selector.nominate()
                if candidate is not None and (best is None or _before(candidate, best[0])):
                    best = candidate, selector
            if best is None:
                return
            candidate, selector = best
            yield from self._try(candidate.place, candidate.trial_s)
            step.width = candidate.width
            selector.won(candidate)

    def _begin(self) -> Generator[TrialRequest, TrialResult, tuple[int, int]]:
        """Two places near where the load begins to be too much: by what comes through at the highest load."""
        grid = self.grid
        coarsest = [chain[0] for chain in self._chains]
        ratio = min(target.criterion.loss_ratio for target in coarsest)
        trial_s = max(target.criterion.trial_s for target in coarsest)
        width = max(target.width for target in coarsest)
        loss = yield from self._try(grid.steps, trial_s)
        through = grid.place(grid.load(grid.steps) * (1.0 - loss) / (1.0 - ratio))
        if through >= grid.steps:
            return grid.steps, grid.steps
        place = within(through, width, None, grid.steps, grid.steps)
        assert place is not None, "something lies below the highest load"
        loss = yield from self._try(place, trial_s)
        if loss > ratio:
            through = grid.place(grid.load(place) * (1.0 - loss) / (1.0 - ratio))
            other = within(through, width, None, place, grid.steps)
        else:
            other = within(place + width, width, place, grid.steps, grid.steps)
        if other is None:
            return place, place
        yield from self._try(other, trial_s)
        return place, other


def _before(candidate: Candidate, other: Candidate) -> bool:
    """Whether one is tried before the other: lower load, then longer trial, then larger step.

    Strictly: of two alike the earlier goal's is tried.
    """
    return (candidate.place, -candidate.trial_s, -candidate.width) < (
        other.place,
        -other.trial_s,
        -other.width,
    )
