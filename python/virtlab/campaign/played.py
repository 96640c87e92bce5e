"""An experiment played into its dataset, under the machine's lock where the backend needs the machine for itself.

Commands, the demonstration and programs call this; the dataset is open for reading afterwards, and no lock is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from virtlab.campaign.dispatch.work import Pool
from virtlab.campaign.loop.campaign import Ending
from virtlab.campaign.loop.resumption import open_dataset
from virtlab.campaign.machine_lock import MachineLock
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.run import run_campaign
from virtlab.experiment import Experiment
from virtlab.plan.backend import Backend
from virtlab.results import Dataset


def play(
    experiment: Experiment,
    backend: Backend,
    path: Path,
    observer: CampaignObserver,
    *,
    wait: bool = True,
    anonymise: bool = False,
    pool_of: Callable[[Experiment, Dataset], Pool | None] = lambda _experiment, _dataset: None,
    points: frozenset[int] | None = None,
    run_limit: int | None = None,
    retry: bool = False,
) -> tuple[Dataset, Ending]:
    """Makes every run that is left; an ending `interrupted` without runs says that the wait for the machine was cut
    off.
    """
    able = backend.capabilities()
    with (
        open_dataset(
            path,
            experiment.text,
            name=experiment.name,
            seed=experiment.seed,
            backend=able,
            anonymise=anonymise,
        ) as opened,
        MachineLock(experiment.name) as lock,
    ):
        if able.parallel_sessions > 1 or lock.acquire(
            wait=wait, waiting=observer.waiting, cancelled=observer.cancelled
        ):
            pool = pool_of(experiment, opened)
            try:
                ending = run_campaign(
                    experiment, opened, backend, observer, points=points, run_limit=run_limit, pool=pool,
                    retry=retry,
                )  # fmt: skip
            finally:
                if pool is not None:
                    pool.close()
        else:
            ending = Ending("interrupted", 0, {})
    return Dataset.open(path), ending
