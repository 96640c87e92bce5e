"""Simulated runs made at once are those made one after the other, and nothing finished is lost with a worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from virtlab.campaign import CampaignObserver, Ending, open_dataset, run_campaign
from virtlab.campaign.dispatch import LocalPool
from virtlab.experiment import Experiment, load_text
from virtlab.results import Dataset, RunRecord
from virtlab.simulator import Simulator

TEXT = """
version: 1
name: parallel
seed: 5
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
factors: {load: [10 kB, 30 kB]}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: COUNT}
  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: "${load}", period: 10 ms, phase: random}
repeat: {minimum: 3, maximum: 6, until: {metric: probe.rtt.mean, relative_interval: 2 %}}
"""
EXPERIMENT = load_text(TEXT.replace("COUNT", "60"))


@dataclass
class Watcher(CampaignObserver):
    """Counts what has ended; asks to stop when told."""

    ended_runs: int = 0
    stop: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.cancellation = lambda: self.stop

    def run_ended(self, record: RunRecord, standing: object) -> None:
        self.ended_runs += 1


@contextmanager
def opened(path: Path, experiment: Experiment) -> Iterator[Dataset]:
    with open_dataset(
        path,
        experiment.text,
        name=experiment.name,
        seed=experiment.seed,
        backend=Simulator().capabilities(),
    ) as dataset:
        yield dataset


def in_parallel(
    path: Path, experiment: Experiment = EXPERIMENT, observer: Watcher | None = None, limit: int | None = None
) -> Ending:
    with opened(path, experiment) as dataset:
        pool = LocalPool(dataset, Simulator(), 2)
        try:
            return run_campaign(experiment, dataset, Simulator(), observer, pool=pool, run_limit=limit)
        finally:
            pool.close()


def contents(path: Path) -> dict[str, bytes]:
    """Plans and samples of all runs."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for pattern in ("runs/*/samples/*", "runs/*/plan.json", "runs/*/values.json")
        for file in path.glob(pattern)
        if file.name != "values.json"
    }


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("serial") / "d"
    with opened(path, EXPERIMENT) as dataset:
        assert run_campaign(EXPERIMENT, dataset, Simulator()).why == "complete"
    return contents(path)


def test_runs_at_once_are_the_runs_one_after_the_other_to_the_byte(
    tmp_path: Path, serial: dict[str, bytes]
) -> None:
    ending = in_parallel(tmp_path / "d")
    assert ending.why == "complete"
    assert ending.made == len({name.split("/")[1] for name in serial})
    assert contents(tmp_path / "d") == serial


def test_a_campaign_cut_off_goes_on_to_the_same_end(tmp_path: Path, serial: dict[str, bytes]) -> None:
    first = in_parallel(tmp_path / "d", limit=2)
    assert (first.why, first.made) == ("run limit", 2)
    second = in_parallel(tmp_path / "d")
    assert second.why == "complete"
    assert contents(tmp_path / "d") == serial


def test_a_killed_worker_loses_no_finished_run_and_its_own_is_made_again(
    tmp_path: Path, serial: dict[str, bytes]
) -> None:
    observer = Watcher()
    killed: list[int] = []
    with opened(tmp_path / "d", EXPERIMENT) as dataset:
        pool = LocalPool(dataset, Simulator(), 2)

        def kill_one() -> None:
            while not killed:
                if observer.ended_runs and (workers := pool.processes()):
                    os.kill(workers[0], signal.SIGKILL)
                    killed.append(workers[0])
                time.sleep(0.001)

        thread = threading.Thread(target=kill_one)
        thread.start()
        try:
            ending = run_campaign(EXPERIMENT, dataset, Simulator(), observer, pool=pool)
        finally:
            pool.close()
            thread.join()
    assert killed
    assert ending.why == "complete"
    assert contents(tmp_path / "d") == serial


def test_asked_to_stop_the_runs_under_way_end_early_and_are_not_kept(tmp_path: Path) -> None:
    long = load_text(TEXT.replace("COUNT", "30000000"))  # a minute of simulation each
    observer = Watcher()
    timer = threading.Timer(2.0, lambda: setattr(observer, "stop", True))
    timer.start()
    try:
        ending = in_parallel(tmp_path / "d", long, observer)
    finally:
        timer.cancel()
    assert ending.interrupted
    assert ending.made == 0
    assert not list((tmp_path / "d" / "runs").iterdir())


def test_no_process_outlives_its_pool(tmp_path: Path) -> None:
    with opened(tmp_path / "d", EXPERIMENT) as dataset:
        pool = LocalPool(dataset, Simulator(), 2)
        run_campaign(EXPERIMENT, dataset, Simulator(), pool=pool, run_limit=2)
        workers = pool.processes()
        pool.close()
    assert len(workers) == 2
    for worker in workers:
        assert not Path(f"/proc/{worker}").exists()
