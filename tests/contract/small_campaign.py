"""A campaign of echo streams in closed form.

`python -m tests.contract.small_campaign DATASET SLOW_S` runs or resumes it.

It prints `ready` once it begins with the runs, so that a test can kill it at a random moment among them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract.closed_form import ClosedForm
from tests.contract.test_backend_contract import plan_of

from virtlab.campaign import Campaign, CampaignObserver, Ending, Interruption, Schedule
from virtlab.campaign.loop.resumption import check_identities, open_dataset
from virtlab.plan import Plan
from virtlab.plan.seeds import run_seed
from virtlab.results import Dataset

TEXT = "version: 1\nname: small\n"
POINTS = [{"switches": str(number)} for number in range(4)]


def plan(point: int, repetition: int) -> Plan:
    """The Plan of one run."""
    update = {"repetition": repetition, "seed": run_seed(7, POINTS[point], repetition)}
    return plan_of(switches=point, count=50).model_copy(update=update)


def opened(path: Path, backend: ClosedForm, text: str = TEXT) -> Dataset:
    """Its dataset, new or resumed."""
    dataset = open_dataset(path, text, name="small", seed=7, backend=backend.capabilities())
    check_identities(dataset, plan)
    return dataset


def campaign(dataset: Dataset, backend: ClosedForm, *, repetitions: int = 20, **more: object) -> Campaign:
    """All its runs."""
    schedule = Schedule(7, POINTS, repetitions, repetitions)
    return Campaign(dataset, backend, schedule, plan, **more)  # type: ignore[arg-type]


def main(path: str, slow_s: float) -> Ending:
    """Runs it to its end, or until a signal asks it to stop."""
    backend = ClosedForm(slow_s=slow_s)
    observer = CampaignObserver()
    with Interruption() as interruption, opened(Path(path), backend) as dataset:
        observer.cancellation = lambda: interruption.pending
        print("ready", flush=True)  # noqa: T201
        return campaign(dataset, backend, observer=observer).run()


if __name__ == "__main__":
    sys.exit(130 if main(sys.argv[1], float(sys.argv[2])).interrupted else 0)
