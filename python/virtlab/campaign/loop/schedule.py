"""Which run is next: a pure function of what lies in the dataset.

Rounds go over all design points that are still in play, each repetition once, in the order of `planner.order`. What
did not come out well (tainted, failed) is tried again at the end of its round, up to a bound; the attempts stay in
the dataset and are never averaged. A repetition of which every attempt was tainted is given up, and the point has a
spare one for it, up to a bound again; one of which every attempt failed ends the point. What failed for the
machine's sake, and what is to be forgiven, is *excused*: it stays in the dataset and does not count as an attempt.
Because nothing but finished runs decides, an interrupted campaign resumes exactly as if it had never stopped.

Precision is looked at only when a point has as many good repetitions as one of the planned sizes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

from virtlab.plan.backend import Status
from virtlab.planner.order import round_order
from virtlab.results import RunKey

Counted = Union["Status", Literal["excused"]]
History = Mapping[RunKey, Counted]
ATTEMPTS = 3
Tries = Mapping[int, Mapping[int, list[Counted]]]  # point -> repetition -> how its attempts ended, in order


class Finished(dict[RunKey, Counted]):
    """A history that keeps what the schedule asks of it: a campaign asks after every run."""

    def __init__(self) -> None:
        super().__init__()
        self.tries: dict[int, dict[int, list[Counted]]] = {}
        self.standings: dict[int, PointStanding] = {}  # of points of which no run has ended since
        self.good = 0  # runs that ended well
        self._attempts: dict[tuple[int, int], list[RunKey]] = {}

    def __setitem__(self, key: RunKey, status: Counted) -> None:
        self.good += (status == "ok") - (self.get(key) == "ok")
        super().__setitem__(key, status)
        self.standings.pop(key.point, None)
        attempts = self._attempts.setdefault((key.point, key.repetition), [])
        if key not in attempts:
            insort(attempts, key)
        self.tries.setdefault(key.point, {})[key.repetition] = [self[each] for each in attempts]


@dataclass(frozen=True, slots=True)
class PointStanding:
    """What a schedule makes of a point's attempts: `begin` is the first round of which nothing has ended well, None if
    the point is in play no more; `least` and `most` are the good runs that are still wanted of it."""

    schedule: Schedule
    begin: int | None
    least: int
    most: int


@dataclass(frozen=True)
class Schedule:
    """What to run: `points` (factor -> level), repetitions per point, and when a point is precise enough.

    `precise(point, n)` is called with n from `looks` only, and must depend on the point's first n good
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

    @property
    def rounds(self) -> int:
        """Most repetitions that are tried of a point: the maximum, and half as many spare ones (at least two)."""
        return self.maximum + max(2, (self.maximum + 1) // 2)

    def good(self, history: History, point: int) -> list[RunKey]:
        """The point's good runs, by repetition."""
        return sorted(key for key, status in history.items() if key.point == point and status == "ok")

    def failed(self, history: History, point: int) -> bool:
        """Whether the point cannot be measured: every attempt at a repetition failed (not merely tainted)."""
        return self._has_failed(_tries(history).get(point, {}))

    def outcomes(self, history: History) -> dict[int, tuple[int, bool]]:
        """How many good runs every point has, and whether it cannot be measured."""
        tries = _tries(history)
        found = {}
        for point in self.order(0):
            own = tries.get(point, {})
            found[point] = sum("ok" in statuses for statuses in own.values()), self._has_failed(own)
        return found

    def settled(self, history: History, point: int) -> bool:
        """Whether the point needs no further run: enough good ones, precise enough, or it cannot be measured."""
        return self.failed(history, point) or self._is_enough(point, len(self.good(history, point)))

    def next(self, history: History) -> RunKey | None:
        """The next run; None when there is nothing left to do."""
        return next(self.ahead(history), None)

    def ahead(self, history: History, under_way: Collection[RunKey] = ()) -> Iterator[RunKey]:
        """Runs that can be begun now, in order, beside those under way; the first is the next one.

        Runs under way, and those given before, are taken to end well. Where that decides whether a point is precise
        enough, the point waits: no run is given that would not be made one after the other, unless one fails.
        """
        tries = _tries(history)
        presumed: dict[int, set[int]] = {}  # point -> repetitions
        for key in under_way:
            presumed.setdefault(key.point, set()).add(key.repetition)
        begin = {
            point: standing.begin
            for point, standing in self._standings(history, tries)
            if standing.begin is not None
        }
        good = dict(begin)  # good runs of the rounds before
        guessed = dict.fromkeys(begin, False)  # whether one of them is only taken to be good
        left = list(begin)
        for round_index in range(min(begin.values(), default=0), self.rounds):
            left = [
                point
                for point in left
                if begin[point] > round_index or not self._waits(point, good[point], guessed[point])
            ]
            if not left:
                return
            in_play = {point for point in left if begin[point] <= round_index}
            found = {
                point: tries.get(point, {}).get(round_index, [])
                for point in self.order(round_index)
                if point in in_play
            }
            for attempt in range(self.attempts):
                for point, statuses in found.items():
                    absent = len(_counted(statuses)) == attempt and "ok" not in statuses
                    if absent and round_index not in presumed.get(point, ()):
                        presumed.setdefault(point, set()).add(round_index)
                        yield RunKey(point, round_index, len(statuses))
            for point, statuses in found.items():
                if "ok" in statuses:
                    good[point] += 1
                elif round_index in presumed.get(point, ()):
                    good[point] += 1
                    guessed[point] = True

    def _ended_well(self, own: Mapping[int, list[Counted]]) -> int:
        """How many of a point's rounds, from the first on, have a good run each."""
        return next((number for number in range(self.rounds) if "ok" not in own.get(number, ())), self.rounds)

    def _waits(self, point: int, good: int, guessed: bool) -> bool:
        """Whether the point needs no further run, or cannot say so before all its runs have ended."""
        if guessed and good >= self.minimum and any(self.minimum <= look <= good for look in self.looks):
            return True
        return good >= self.minimum and self._is_enough(point, good)

    def left(self, history: History) -> tuple[int, int]:
        """How many good runs are wanted at least (every point's minimum) and at most (every point's maximum)."""
        least = most = 0
        for _, standing in self._standings(history, _tries(history)):
            least += standing.least
            most += standing.most
        return least, most

    def _standings(self, history: History, tries: Tries) -> Iterator[tuple[int, PointStanding]]:
        """The standing of every point, in the order of the first round; a campaign's history keeps its own."""
        kept = history.standings if isinstance(history, Finished) else {}
        for point in self.order(0):
            standing = kept.get(point)
            if standing is None or standing.schedule is not self:
                standing = kept[point] = self._standing(point, tries.get(point, {}))
            yield point, standing

    def _standing(self, point: int, own: Mapping[int, list[Counted]]) -> PointStanding:
        ended = self._ended_well(own)
        failed = self._has_failed(own)
        over = failed or any(self._waits(point, n, guessed=False) for n in range(self.minimum, ended))
        good = sum("ok" in statuses for statuses in own.values())
        least = most = 0
        if not failed and not self._is_enough(point, good):
            possible = self.rounds - sum(self._is_given_up(statuses) for statuses in own.values()) - good
            least = max(0, min(self.minimum - good, possible))
            most = max(0, min(self.maximum - good, possible))
        return PointStanding(self, None if over else ended, least, most)

    def _is_enough(self, point: int, good: int) -> bool:
        if good >= self.maximum:
            return True
        return any(self.precise(point, look) for look in self.looks if self.minimum <= look <= good)

    def _is_given_up(self, statuses: list[Counted]) -> bool:
        return len(_counted(statuses)) >= self.attempts and "ok" not in statuses

    def _has_failed(self, tries: Mapping[int, list[Counted]]) -> bool:
        return any(
            self._is_given_up(statuses) and set(_counted(statuses)) == {"failed"}
            for statuses in tries.values()
        )


def _counted(statuses: list[Counted]) -> list[Counted]:
    """Those that use up an attempt."""
    return [status for status in statuses if status != "excused"]


def _tries(history: History) -> Tries:
    if isinstance(history, Finished):
        return history.tries
    keys: dict[int, dict[int, list[RunKey]]] = {}
    for key in history:
        keys.setdefault(key.point, {}).setdefault(key.repetition, []).append(key)
    return {
        point: {number: [history[key] for key in sorted(tried)] for number, tried in repetitions.items()}
        for point, repetitions in keys.items()
    }
