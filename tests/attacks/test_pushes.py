"""Numbers pushed from a dataset of somebody else, to a place that takes none: one warning, and never without end."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.unit.report.report_specimen import write_dataset

from virtlab.report.exchange.push.destination import RECEIVERS, Destination
from virtlab.report.exchange.push.numbers import TIME_MAX_NS, Number, numbers_of
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("received") / "specimen.results"
    write_dataset(path, runs=2, samples=20).close()
    return path


def numbers(path: Path) -> list[Number]:
    dataset = Dataset.open(path)
    return numbers_of(dataset, gather(dataset))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("started", "total_ns"),
    [
        ("9999-12-31T23:59:59-23:59", 1),
        ("0001-01-01T00:00:00+23:59", 1),
        ("2026-01-31T12:00:00+00:00", 1 << 62),
        ("2026-01-31T12:00:00+00:00", (1 << 63) - 1),
    ],
)
def test_a_run_of_a_time_that_no_receiver_holds_is_sent_at_one_that_it_does(
    received: Path, tmp_path: Path, started: str, total_ns: int
) -> None:
    copied = shutil.copytree(received, tmp_path / "specimen.results")
    for file in copied.glob("runs/*/run.json"):
        record = json.loads(file.read_text())
        record["started"], record["timings"]["total"] = started, total_ns
        file.write_text(json.dumps(record))
    found = numbers(copied)
    assert found
    assert all(0 <= each.time_ns <= TIME_MAX_NS for each in found)
    for receiver in RECEIVERS.values():
        assert receiver.encoded(found)


@pytest.mark.slow
def test_a_pipe_that_nobody_reads_is_waited_for_as_long_as_any_receiver(
    received: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "numbers.prom")
    begun = time.monotonic()
    target = Destination.parse(f"prometheus-textfile={tmp_path / 'numbers.prom'}")
    assert target.deliver(numbers(received), patience_s=0.2) == "no answer within 0.2 s"
    assert time.monotonic() - begun < 60
