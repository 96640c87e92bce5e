"""The loop of a campaign: ask the schedule for the next run, play it, until nothing is left, the user stops it, or
the machine fails. After a failure of the machine no further run would show anything, and the failed run does not
count as an attempt.

It keeps no state of its own. What is finished lies in the dataset, so stopping it anywhere, by any means,
loses at most the run that was under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from virtlab.campaign.execution.run import execute
from virtlab.campaign.loop.schedule import Finished, Schedule
from virtlab.campaign.progress import CampaignObserver, Standing
from virtlab.experiment.work.search import SearchFor
from virtlab.plan.backend import Backend
from virtlab.plan.model import Plan
from virtlab.results import Dataset, RunRecord

Why = Literal["complete", "interrupted", "time budget", "run limit", "machine failure"]


@dataclass(frozen=True)
class Ending:
    """Why a campaign ended, how many runs it made now, and which points lack good runs (point -> why).

    `failure`: what the machine's owner has to mend, where that is why.
    """

    why: Why
    made: int
    lacking: Mapping[int, str]
    failure: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether someone asked it to stop."""
        return self.why == "interrupted"


@dataclass
class Campaign:
    """Runs of one dataset on one backend.

    `plan_of(point, repetition)` is pure. `width(point)` says how wide a point's interval is, for people.
    `budget_ns` is time spent on runs, over all sessions; no run begins that would exceed it. `run_limit`
    counts runs of this session.
    """

    dataset: Dataset
    backend: Backend
    schedule: Schedule
    plan_of: Callable[[int, int], Plan]
    observer: CampaignObserver = field(default_factory=CampaignObserver)
    width: Callable[[int], str] = lambda _point: ""
    budget_ns: int | None = None
    run_limit: int | None = None
    precision_path: str = ""  # the path of the metric that precision looks at
    search_of: Callable[[int], SearchFor | None] = lambda _point: None
    learnt: Callable[[RunRecord], None] = lambda _record: None  # called with every finished run
    retry: bool = False  # runs that failed in earlier sessions do not count as attempts

    def __post_init__(self) -> None:
        self.history = Finished()
        self._estimates: dict[int, int] = {}
        self._measured_ns = self._estimated_ns = 0
        self.spent_ns = 0  # on runs, over all sessions

    def run(self) -> Ending:
        """Makes every run that is left; each is on disk before the next begins."""
        made = 0
        self.remember()
        while True:
            key = self.schedule.next(self.history)
            if key is None:
                return self.ending("complete", made)
            if self.observer.cancelled():
                return self.ending("interrupted", made)
            if self.run_limit is not None and made >= self.run_limit:
                return self.ending("run limit", made)
            plan = self.plan_of(key.point, key.repetition)
            if self.budget_ns is not None and self.spent_ns + self.expected_ns(key.point) > self.budget_ns:
                return self.ending("time budget", made)
            self.observer.run_begins(key, plan.point, self.standing(key.point))
            finished = execute(
                self.dataset, key, plan, self.backend, self.observer, self.search_of(key.point)
            )
            if finished is None:
                return self.ending("interrupted", made)
            made += 1
            self.learn(finished)
            self.observer.run_ended(finished, self.standing(key.point))
            if finished.blame:
                return self.ending("machine failure", made, failure="; ".join(finished.reasons))

    def remember(self) -> None:
        """Takes note of the runs of earlier sessions."""
        for record in self.dataset.runs():
            forgiven = self.retry and record.status == "failed"
            self.history[record.key] = "excused" if forgiven or record.blame else record.status
            self.spent_ns += record.timings.get("total", 0)
            self.learnt(record)

    def learn(self, record: RunRecord) -> None:
        """Takes note of a finished run: its status, and how long it took beside what was estimated."""
        self.history[record.key] = "excused" if record.blame else record.status
        self.learnt(record)
        self.spent_ns += record.timings["total"]
        self._measured_ns += record.timings["total"]
        self._estimated_ns += self._estimate_ns(record.point)

    def _estimate_ns(self, point: int) -> int:
        if point not in self._estimates:
            self._estimates[point] = self.backend.estimate_ns(self.plan_of(point, 0))
        return self._estimates[point]

    def expected_ns(self, point: int) -> int:
        """The backend's estimate, corrected by how its estimates came true in this session."""
        return round(self._estimate_ns(point) * self._correction())

    def _correction(self) -> float:
        return self._measured_ns / self._estimated_ns if self._estimated_ns else 1.0

    @cached_property
    def _mean_estimate_ns(self) -> float:
        """How long the backend estimates that a run takes, in the mean over all points."""
        points = self.schedule.order(0)
        return sum(self._estimate_ns(each) for each in points) / len(points) if points else 0.0

    def standing(self, point: int) -> Standing:
        """The campaign's progress, for a display."""
        least, most = self.schedule.left(self.history)
        mean_ns = self._mean_estimate_ns * self._correction()
        good = self.history.good
        tries = len(self.history) / good if good else 1.0  # runs made per good one so far
        left_ns = round(mean_ns * (least or most) * tries)
        if self.budget_ns is not None:
            left_ns = min(left_ns, max(0, self.budget_ns - self.spent_ns))
        return Standing(len(self.history), least, most, left_ns, self.width(point))

    def ending(self, why: Why, made: int, *, failure: str = "") -> Ending:
        """The summary of a campaign that ended."""
        lacking = {}
        for point, (good, failed) in self.schedule.outcomes(self.history).items():
            if failed:
                lacking[point] = f"every attempt at a repetition failed ({good} good runs)"
            elif good < self.schedule.minimum:
                lacking[point] = f"{good} of at least {self.schedule.minimum} good runs"
        self.observer.ended()
        return Ending(why, made, lacking, failure)
