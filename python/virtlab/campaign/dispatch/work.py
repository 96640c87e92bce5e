"""Runs as work that can be sent anywhere: plain values in, runs on disk or their files out.

Runs that one worker makes together are committed together, and what their Plans share is read once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, Self

from virtlab.analysis.values_file import values_of
from virtlab.campaign.execution.run import execute
from virtlab.campaign.progress import CampaignObserver
from virtlab.errors import VirtlabError
from virtlab.plan.backend import Backend
from virtlab.plan.model import Plan, plan_of
from virtlab.results import Dataset, RunKey, RunRecord
from virtlab.results.group import Group


class LostWorkerError(Exception):
    """A worker ended before its run was finished. The run has left nothing in the dataset and can be made again."""


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be made: its key, and its Plan as what all repetitions share (canonical JSON) and what is its own."""

    key: RunKey
    shared: str
    repetition: int
    seed: int
    tell: str = ""  # a value that is reported with the record, by its path

    @classmethod
    def of(cls, key: RunKey, plan: Plan, tell: str = "") -> Self:
        """The run of a Plan."""
        return cls(key, plan.shared(), plan.repetition, plan.seed, tell)

    def plan(self) -> Plan:
        """The Plan."""
        return plan_of(self.shared, self.repetition, self.seed)


class Pool(Protocol):
    """Workers that make runs."""

    size: int  # workers
    most: int  # runs that one is given together

    def submit(self, tasks: Sequence[Task], worker: int) -> list[Future[RunRecord | None]]:
        """Has a worker, 0 <= worker < size, make runs: None when one was cancelled, LostWorkerError when it is gone.

        A worker that has made a run of a design point knows its world. Where workers are not ours to choose, any
        does it. A record that comes is on disk, whole and durable.
        """

    def settle(self) -> None:
        """Returns when no lost worker can store anything any more."""

    def cancel(self) -> None:
        """Asks all runs to end early, those not begun included."""

    def close(self) -> None:
        """Lets the workers go."""


def make(
    dataset: Dataset, backend: Backend, tasks: Sequence[Task], cancelled: Callable[[], bool]
) -> list[RunRecord | None]:
    """Plays tasks and commits them to the dataset, together; None for those that were cancelled.

    What was played before something went wrong is committed. The values are computed here too, so that the next
    reader of the runs finds them there.
    """
    observer = CampaignObserver()
    observer.cancellation = cancelled
    group = Group()
    records: list[RunRecord | None] = []
    try:
        for task in tasks:
            played = not cancelled()
            records.append(
                execute(dataset, task.key, task.plan(), backend, observer, group=group) if played else None
            )
    finally:
        group.commit()
    for task, record in zip(tasks, records, strict=True):
        if record is not None and record.status == "ok":
            with contextlib.suppress(VirtlabError):  # the next reader of the run reports it
                for row in values_of(record):
                    if task.tell and row.path_text == task.tell:
                        record.tell(task.tell, row.value)
        if record is not None:
            record.release()
    return records
