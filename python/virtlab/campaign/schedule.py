"""Which run is next: a pure function of what lies in the dataset.

Rounds go over all design points that are still in play, each repetition once, in the order of
`planner.order`. What did not come out well (tainted, failed) is tried again at the end of its round, up to a
bound; the attempts stay in the dataset and are never averaged. Because nothing but finished runs decides, an
interrupted campaign goes on exactly as if it had never stopped.

Precision is looked at only when a point has as many good repetitions as one of the planned sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from virtlab.planner.order import round_order
from virtlab.results import RunKey

if TYPE_CHECKING:
    from virtlab.plan.backend import Status

History = Mapping[RunKey, "Status"]
ATTEMPTS = 3


@dataclass(frozen=True)
class Schedule:
    """What to run: `points` (factor -> level), repetitions per point, and when a point is precise enough.

    `precise(point, n)` is asked for n in `looks` only, and must depend on the point's first n good
    repetitions only. `selected` restricts the points that are run.
    """

    seed: int
    points: Sequence[Mapping[str, str]]
    minimum: int
    maximum: int
    looks: tuple[int, ...] = ()
    precise: Callable[[int, int], bool] = lambda _point, _n: False
    attempts: int = ATTEMPTS
    selected: frozenset[int] | None = None
    _orders: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def order(self, round_index: int) -> tuple[int, ...]:
        """Points of a round in order, whether still in play or not."""
        if round_index not in self._orders:
            order = round_order(self.seed, round_index, self.points)
            self._orders[round_index] = tuple(
                point for point in order if self.selected is None or point in self.selected
            )
        return self._orders[round_index]

    def _tries(self, history: History, point: int, repetition: int) -> list[Status]:
        found: list[Status] = []
        while (key := RunKey(point, repetition, len(found))) in history:
            found.append(history[key])
        return found

    def good(self, history: History, point: int, rounds: int | None = None) -> list[RunKey]:
        """The point's good runs, by repetition, out of the first `rounds` repetitions (None: all)."""
        return [
            RunKey(point, repetition, attempt)
            for repetition in range(self.maximum if rounds is None else rounds)
            for attempt, status in enumerate(self._tries(history, point, repetition))
            if status == "ok"
        ]

    def given_up(self, history: History, point: int) -> list[int]:
        """Repetitions of which every attempt went wrong."""
        return [
            repetition
            for repetition in range(self.maximum)
            if len(tries := self._tries(history, point, repetition)) >= self.attempts and "ok" not in tries
        ]

    def failed(self, history: History, point: int) -> bool:
        """Whether the point cannot be measured: every attempt at one of its repetitions failed (not merely
        tainted).
        """
        return any(
            set(self._tries(history, point, repetition)) == {"failed"}
            for repetition in self.given_up(history, point)
        )

    def settled(self, history: History, point: int, rounds: int | None = None) -> bool:
        """Whether the point needs no run after its first `rounds` repetitions: precise enough, or failed."""
        good = len(self.good(history, point, rounds))
        if self.failed(history, point):
            return True
        return any(self.precise(point, look) for look in self.looks if self.minimum <= look <= good)

    def next(self, history: History) -> RunKey | None:
        """The next run; None when there is nothing left to do."""
        for round_index in range(self.maximum):
            in_play = [
                point
                for point in self.order(round_index)
                if round_index < self.minimum_rounds(history, point)
                or not self.settled(history, point, round_index)
            ]
            if not in_play:
                return None
            for attempt in range(self.attempts):
                for point in in_play:
                    tries = self._tries(history, point, round_index)
                    if len(tries) == attempt and "ok" not in tries:
                        return RunKey(point, round_index, attempt)
        return None

    def minimum_rounds(self, history: History, point: int) -> int:
        """Rounds that a point takes part in whatever its precision: the minimum, none once it failed."""
        return 0 if self.failed(history, point) else self.minimum

    def left(self, history: History) -> tuple[int, int]:
        """How many runs are left at least (every point's minimum) and at most (every point's maximum)."""
        least = most = 0
        for point in self.order(0):
            if self.failed(history, point):
                continue
            done = len(self.good(history, point)) + len(self.given_up(history, point))
            least += max(0, self.minimum - done)
            most += 0 if self.settled(history, point) else max(0, self.maximum - done)
        return least, max(least, most)
