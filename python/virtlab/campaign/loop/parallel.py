"""The loop of a campaign whose runs do not disturb each other: many at once, the same runs as one after the other.

The schedule says which runs can be begun whatever those under way bring; a point that must be looked at first waits for
its own. As in the serial loop there is no state but the dataset: what is finished lies there, cut it anywhere.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from virtlab.campaign.dispatch.work import LostWorkerError, Pool, Task
from virtlab.campaign.loop.campaign import Campaign, Ending, Why
from virtlab.campaign.progress import Standing
from virtlab.errors import MachineError
from virtlab.plan.backend import Outcome, Realised
from virtlab.results import RunKey, RunRecord

if TYPE_CHECKING:
    from concurrent.futures import Future


AHEAD = 4  # pieces of work under way per worker, so that none waits for it
TOGETHER_S = 0.25  # about how long the runs of one piece take
LOOK_S = 0.05  # how often the observer is asked
SHOW_S = 0.5  # how often what is left is counted again
LOSSES_OF_ONE = 3  # times that a run may take its worker with it, alone, before it has failed
LOSSES = 5 * LOSSES_OF_ONE  # workers lost to runs that were alone, without a finished run between


class Ahead:
    """Plays a campaign on a pool; `run` as `Campaign.run`."""

    def __init__(self, campaign: Campaign, pool: Pool) -> None:
        self.campaign = campaign
        self.pool = pool
        self._ended: SimpleQueue[tuple[RunKey, Future[RunRecord | None]]] = SimpleQueue()
        self._under_way: dict[RunKey, int] = {}  # and the time expected of each
        self._playing: dict[RunKey, int] = {}  # and the worker of each
        self._ready: list[deque[RunKey]] = [deque() for _ in range(pool.size)]  # by worker
        self._again: deque[RunKey] = (
            deque()
        )  # lost with their worker, for one of them: each is made alone, to see which
        self._suspects: Counter[RunKey] = Counter()  # and how often it was lost so
        self._made = self._losses = 0
        self._run_s = TOGETHER_S  # how long a run takes, about
        self._shown: tuple[float, int, Standing] | None = None  # when it was counted, at which point
        self._failure = ""  # of the machine

    def run(self) -> Ending:
        """Makes every run that is left. MachineError when workers die one after the other."""
        campaign = self.campaign
        campaign.remember()
        why: Why | None = None
        while True:
            if why is None and campaign.observer.cancelled():
                why = "interrupted"
                self.pool.cancel()
            if why is None and self._failure:
                why = "machine failure"
                self.pool.cancel()
            while why is None and len(self._under_way) < self._room():
                worker = self._idlest()
                keys = self._next(worker)
                if not keys:
                    break
                why = self._begin(keys, worker)
            if not self._under_way:
                return campaign.ending(why or "complete", self._made, failure=self._failure)
            self._collect()

    def _together(self) -> int:
        """Runs that a worker is given together now: those of a moment, so that all have work and one flush does."""
        return max(1, min(self.pool.most, int(TOGETHER_S / max(self._run_s, 1e-6))))

    def _room(self) -> int:
        """Runs that may be under way now."""
        return self.pool.size * AHEAD * self._together()

    def _idlest(self) -> int:
        """The worker that has the fewest runs before it."""
        playing = Counter(self._playing.values())
        return min(range(self.pool.size), key=lambda worker: playing[worker])

    def _next(self, worker: int) -> list[RunKey]:
        """Runs that a worker is given together: those of its design points, of which it knows the worlds; else
        others'.
        """
        if self._again:
            return [] if self._under_way else [self._again.popleft()]
        if self._under_way.keys() & self._suspects.keys():
            return []
        if not any(self._ready):
            found = self.campaign.schedule.ahead(self.campaign.history, self._under_way)
            for key in islice(found, self._room()):
                self._ready[key.point % self.pool.size].append(key)
        ready = self._ready[worker] or max(self._ready, key=len)
        share = -(-sum(map(len, self._ready)) // self.pool.size)  # few are shared out
        return [ready.popleft() for _ in range(min(share, len(ready), self._together()))]

    def _begin(self, keys: list[RunKey], worker: int) -> Why | None:
        """Sends runs off; why not all, when a limit is reached."""
        why: Why | None = None
        tasks = []
        for key in keys:
            why = self._limit(key)
            if why is not None:
                break
            plan = self.campaign.plan_of(key.point, key.repetition)
            self.campaign.observer.run_begins(key, plan.point, self._standing(key.point))
            tasks.append(Task.of(key, plan, self.campaign.precision_path))
        if tasks:
            self._playing.update((task.key, worker) for task in tasks)
            for task, future in zip(tasks, self.pool.submit(tasks, worker), strict=True):
                future.add_done_callback(lambda done, key=task.key: self._ended.put((key, done)))  # type: ignore[misc]
        return why

    def _limit(self, key: RunKey) -> Why | None:
        """Takes a run as under way; the limit that forbids it."""
        campaign = self.campaign
        if campaign.run_limit is not None and self._made + len(self._under_way) >= campaign.run_limit:
            return "run limit"
        expected_ns = 0
        if campaign.budget_ns is not None:
            expected_ns = campaign.expected_ns(key.point)
            if campaign.spent_ns + sum(self._under_way.values()) + expected_ns > campaign.budget_ns:
                return "time budget"
        self._under_way[key] = expected_ns
        return None

    def _collect(self) -> None:
        """Takes all that has ended; waits a moment for the first."""
        try:
            self._collect_one(*self._ended.get(timeout=LOOK_S))
            while True:
                self._collect_one(*self._ended.get_nowait())
        except Empty:
            return

    def _lost(self, key: RunKey, error: LostWorkerError) -> None:
        """A worker died that had this run before it. A run that takes worker after worker with it has failed."""
        self.pool.settle()
        record = self.campaign.dataset.salvage(key)  # it may have died behind the commit
        if record is not None:
            self._take(record)
            return
        if key not in self._suspects:
            self._suspects[key] = 0
            self._again.append(key)
            return
        self._suspects[key] += 1
        self._losses += 1
        if self._losses > LOSSES:
            raise MachineError(
                f"runs.{key.name}",
                f"workers died one after the other ({error})",
                "see whether memory is short, or use --jobs 1; the same command resumes",
            ) from error
        if self._suspects[key] < LOSSES_OF_ONE:
            self._again.append(key)
            return
        reason = (
            f"its worker died {LOSSES_OF_ONE} times, each time alone with it; see whether memory is short"
        )
        plan = self.campaign.plan_of(key.point, key.repetition)
        with self.campaign.dataset.begin_run(key, plan) as writer:
            failed = writer.commit(Outcome("failed", (reason,)), Realised({}), {"total": 0})
        losses = self._losses
        self._take(failed)
        self._losses = losses  # no worker has made a run

    def _collect_one(self, key: RunKey, future: Future[RunRecord | None]) -> None:
        del self._under_way[key], self._playing[key]
        try:
            record = future.result()
        except LostWorkerError as error:
            self._lost(key, error)
            return
        if record is not None:
            self._take(record)

    def _take(self, record: RunRecord) -> None:
        self._suspects.pop(RunKey(record.point, record.repetition, record.attempt), None)
        self._made += 1
        self._losses = 0
        self._run_s += (record.timings["total"] / 1e9 - self._run_s) / 4
        self.campaign.dataset.note(record)
        self.campaign.learn(record)
        self.campaign.observer.run_ended(record, self._standing(record.point))
        if record.blame and not self._failure:
            self._failure = "; ".join(record.reasons)

    def _standing(self, point: int) -> Standing:
        """How far the campaign is. What is left is counted now and then; between, the runs since then are taken from
        it.
        """
        now, done = time.monotonic(), len(self.campaign.history)
        if (
            self._shown is None
            or now - self._shown[0] > SHOW_S
            or done - self._shown[2].done >= self._shown[2].least
        ):
            self._shown = now, point, self.campaign.standing(point)
        _, of_point, then = self._shown
        since = done - then.done
        width = then.width if point == of_point else ""
        return replace(then, done=done, least=then.least - since, most=then.most - since, width=width)
