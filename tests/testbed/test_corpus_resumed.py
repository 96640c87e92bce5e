"""Datasets that an earlier virtlab left half-finished are resumed on the real testbed: what it had finished stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.results import Dataset, provenance
from virtlab.testbed import Testbed

CORPUS = Path(__file__).parents[1] / "golden/corpus"
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def resumed(name: str, place: Path, runs: int) -> Dataset:
    """A copy of a dataset, resumed for at most so many runs.

    Results of two machines are not pooled, so the copy says that it was measured on this one.
    """
    path = Path(shutil.copytree(CORPUS / name / "dataset", place / f"{name}.results"))
    text = (path / "experiment.yaml").read_text()
    experiment, backend = load_text(text), Testbed()
    able = backend.capabilities()
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["fingerprint"] = dict(able.fingerprint)
    manifest["machine"] = provenance.machine(anonymous=manifest["anonymous"])
    (path / "manifest.json").write_text(json.dumps(manifest))
    with open_dataset(path, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend, run_limit=runs)
    return Dataset.open(path)


def test_a_killed_search_goes_on_after_the_trials_of_its_journal(tmp_path: Path) -> None:
    journal = (CORPUS / "search-testbed-killed/dataset/journal/p0001-r00-a0.jsonl").read_text().splitlines()
    dataset = resumed("search-testbed-killed", tmp_path, 1)
    record = dataset.run("p0001-r00-a0")
    trials = next(path for path in record.artefacts() if path.name == "trials.jsonl").read_text().splitlines()
    assert trials[: len(journal)] == journal
    assert len(trials) > len(journal)
    assert dataset.run("p0000-r00-a0").status == "ok"


def test_half_a_campaign_makes_only_the_runs_that_are_missing(tmp_path: Path) -> None:
    dataset = resumed("traffic-testbed-half", tmp_path, 2)
    names = {record.name for record in dataset.runs()}
    assert len(names) == 4
    for name in ("p0000-r00-a0", "p0001-r00-a0"):
        kept = (dataset.path / "runs" / name / "run.json").read_bytes()
        assert kept == (CORPUS / "traffic-testbed-half/dataset/runs" / name / "run.json").read_bytes()
