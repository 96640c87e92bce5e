"""An ordinary user searches a throughput without root: forwarding guests, many trials in one private world, all
kept.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed_world as worlds
from search_world import searching
from test_testbed_privileges import ROOT, as_nobody

from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.plan.backend import Backend
from virtlab.simulator import Simulator
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

TEXT = searching(
    "rootless", low="500 packet/s", high="4 kpacket/s", more="warmup: 100 ms",
    goal="loss: 50 %, initial_trial: 100 ms, trial: 100 ms, duration_sum: 200 ms, width: 20 %",
)  # fmt: skip


def trials(backend: Backend, folder: Path) -> list[dict[str, object]]:
    """Searches; the trials that the run kept."""
    experiment = load_text(TEXT)
    with open_dataset(
        folder, TEXT, name=experiment.name, seed=experiment.seed, backend=backend.capabilities()
    ) as dataset:
        run_campaign(experiment, dataset, backend)
    kept = next(folder.glob("runs/p*/artefacts/trials.jsonl"))
    return [line for text in kept.read_text().splitlines() if "id" in (line := json.loads(text))]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder where anybody writes; those that pytest makes can be entered by their owner alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


@ROOT
def test_an_ordinary_user_searches_without_root(open_folder: Path) -> None:
    # Everything is loaded before the identity changes: the interpreter may lie where only root reads.
    trials(Simulator(), open_folder / "simulated")
    folder = open_folder / "measured"

    def work() -> None:
        assert os.geteuid() != 0
        made = trials(Testbed(), folder)
        assert len(made) >= 2
        assert all(int(str(line["sent"])) > 0 for line in made)

    assert as_nobody(work) == ""
    assert (folder / "manifest.json").stat().st_uid != 0
    assert not list(folder.glob("journal/*.jsonl"))
