"""A pool of processes of this machine.

Processes, not threads: a simulated run is a few milliseconds of the core, which gives the interpreter's lock away,
and about as many of Python, which plans, lowers and stores it. A worker stores its runs itself, in the dataset
whose lock its parent holds, so flushes to the disk overlap. Workers are begun afresh (spawn): nothing of the
parent's threads and open files is copied. Signals of the terminal are the parent's affair; a worker whose parent
dies is killed by the kernel.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, Any

from virtlab import open_files
from virtlab.campaign.dispatch.work import LostWorkerError, Task, make
from virtlab.plan.backend import Backend
from virtlab.results import Dataset, RunRecord

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event as Flag


_PR_SET_PDEATHSIG = 1
_PER_WORKER = 8  # open files: pipes of its tasks, its answers and its wake-ups
MOST_TOGETHER = 16  # runs that a process is given together
_worker: dict[str, Any] = {}


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def portable(backend: Backend) -> bool:
    """Whether the backend can be sent to another process."""
    try:
        pickle.dumps(backend)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


class LocalPool:
    """`size` processes, each started with its first task, and again after it has died."""

    def __init__(self, dataset: Dataset, backend: Backend, size: int) -> None:
        needed = open_files.OWN + _PER_WORKER * size
        open_files.require(needed, "machine", f"a pool of {size} processes", "; or ask for fewer")
        self.size = size
        self.most = MOST_TOGETHER
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()
        self._arguments = (str(dataset.path.absolute()), pickle.dumps(backend), self._stop, os.getpid())
        self._executors: dict[int, ProcessPoolExecutor] = {}  # by worker, of one process each
        self._broken: list[ProcessPoolExecutor] = []

    def _begun(self, worker: int) -> ProcessPoolExecutor:
        if worker not in self._executors:
            self._executors[worker] = ProcessPoolExecutor(
                1, mp_context=self._context, initializer=_begin, initargs=self._arguments
            )
        return self._executors[worker]

    def submit(self, tasks: Sequence[Task], worker: int) -> list[Future[RunRecord | None]]:
        """Makes runs in one of the processes."""
        executor = self._begun(worker)
        try:
            inner = executor.submit(_make, tuple(tasks))
        except BrokenProcessPool:
            self._broken.append(executor)
            self.settle()
            return self.submit(tasks, worker)
        outer: list[Future[RunRecord | None]] = [Future() for _ in tasks]
        inner.add_done_callback(partial(self._pass_on, outer, executor))
        return outer

    def settle(self) -> None:
        """Returns when a process that was lost is gone for sure: one that still played could store its run later."""
        while self._broken:
            broken = self._broken.pop()
            self._executors = {
                worker: executor for worker, executor in self._executors.items() if executor is not broken
            }
            broken.shutdown(wait=True, cancel_futures=True)

    def cancel(self) -> None:
        """Runs end within one slice of events."""
        self._stop.set()

    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [process for executor in self._executors.values() for process in executor._processes]

    def close(self) -> None:
        """Ends the processes; runs under way are dropped."""
        self._stop.set()
        endings = [
            threading.Thread(target=partial(executor.shutdown, wait=True, cancel_futures=True))
            for executor in self._executors.values()
        ]
        self._executors.clear()
        for ending in endings:
            ending.start()
        for ending in endings:
            ending.join()

    def _pass_on(
        self,
        outer: list[Future[RunRecord | None]],
        executor: ProcessPoolExecutor,
        inner: Future[list[RunRecord | None]],
    ) -> None:
        found: list[RunRecord | None] = [None] * len(outer)
        failure: Exception | None = None
        try:
            found = inner.result()
        except CancelledError:
            pass
        except BrokenProcessPool as error:
            self._broken.append(executor)
            failure = LostWorkerError(str(error))
        except Exception as error:
            failure = error
        for future, record in zip(outer, found, strict=True):
            if failure is None:
                future.set_result(record)
            else:
                future.set_exception(failure)


def _begin(folder: str, backend: bytes, stop: Flag, parent: int) -> None:
    """In a new worker."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)
    _worker.update(dataset=Dataset.assist(folder), backend=pickle.loads(backend), stop=stop)  # noqa: S301 - our parent's


def _make(tasks: Sequence[Task]) -> list[RunRecord | None]:
    return make(_worker["dataset"], _worker["backend"], tasks, _worker["stop"].is_set)
