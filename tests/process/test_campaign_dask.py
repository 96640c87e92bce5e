"""Runs on the workers of a Dask scheduler: the same dataset, and a lost worker loses nothing that was finished."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.test_campaign_parallel import EXPERIMENT, Watcher, contents, opened

from virtlab.campaign import run_campaign
from virtlab.campaign.dispatch.dask import DaskPool
from virtlab.errors import MachineError
from virtlab.simulator import Simulator

try:
    import distributed
except ImportError:
    distributed = None  # type: ignore[assignment]
pytestmark = pytest.mark.skipif(
    distributed is None, reason="Dask is not installed: pip install 'virtlab[dask]'"
)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A scheduler with two worker processes on this machine."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


def test_workers_of_a_scheduler_make_the_serial_dataset_though_one_is_killed(
    tmp_path: Path, cluster: Any
) -> None:
    with opened(tmp_path / "serial", EXPERIMENT) as dataset:
        run_campaign(EXPERIMENT, dataset, Simulator())
    observer = Watcher()
    victim = next(iter(cluster.workers.values())).pid
    over = threading.Event()

    def kill_one() -> None:
        while not over.is_set():
            if observer.ended_runs:
                os.kill(victim, signal.SIGKILL)
                return
            time.sleep(0.001)

    thread = threading.Thread(target=kill_one)
    with opened(tmp_path / "d", EXPERIMENT) as dataset:
        pool = DaskPool(dataset, Simulator(), cluster.scheduler_address)
        assert pool.size == 2
        thread.start()
        try:
            ending = run_campaign(EXPERIMENT, dataset, Simulator(), observer, pool=pool)
        finally:
            over.set()
            thread.join()
            pool.close()
    assert ending.why == "complete"
    assert contents(tmp_path / "d") == contents(tmp_path / "serial")


def test_a_scheduler_that_does_not_answer_is_a_machine_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtlab.campaign.dispatch.dask.CONNECT_S", 1)
    with opened(tmp_path / "d", EXPERIMENT) as dataset, pytest.raises(MachineError, match="scheduler"):
        DaskPool(dataset, Simulator(), "tcp://127.0.0.1:9")
