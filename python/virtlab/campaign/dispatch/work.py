"""One run as work that can be sent anywhere: plain values in, a run on disk or its files out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from virtlab.campaign.progress import CampaignObserver
from virtlab.errors import VirtlabError

if TYPE_CHECKING:
    from virtlab.plan.backend import Backend
    from virtlab.results import Dataset, RunKey, RunRecord


class LostWorkerError(Exception):
    """A worker ended before its run was finished. The run has left nothing in the dataset and can be made again."""


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be made: its key, and its Plan as canonical JSON."""

    key: RunKey
    plan: str


class Pool(Protocol):
    """Where runs are made."""

    size: int  # runs at once

    def submit(self, task: Task) -> Future[RunRecord | None]:
        """Makes a run; None when it was cancelled, LostWorkerError when its worker is gone.

        A record that comes is on disk, whole and durable.
        """

    def settle(self) -> None:
        """Returns when no lost worker can store anything any more."""

    def cancel(self) -> None:
        """Asks all runs to end early, those not begun included."""

    def close(self) -> None:
        """Lets the workers go."""


def make(dataset: Dataset, backend: Backend, task: Task, cancelled: Callable[[], bool]) -> RunRecord | None:
    """Plays a task and commits it to the dataset; None when it was cancelled.

    The values are taken here too, so that whoever reads the run next finds them beside it.
    """
    from virtlab.analysis.kept import values_of
    from virtlab.campaign.execute import execute
    from virtlab.plan import Plan

    observer = CampaignObserver()
    observer.asked = cancelled
    if cancelled():
        return None
    record = execute(dataset, task.key, Plan.parse(task.plan), backend, observer, holds=True)
    if record is not None and record.status == "ok":
        with contextlib.suppress(VirtlabError):  # whoever reads the run next says so
            values_of(record)
    if record is not None:
        record.release()
    return record
