"""What a terminal shows of a dataset fits its lines, and no number and no name of a level is cut."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load_text
from virtlab.report.page.fitting import Column, Fitted
from virtlab.report.page.terminal import summary
from virtlab.results import Dataset
from virtlab.simulator import Simulator

WIDE = Fitted(
    [
        Column("discipline", ["fq_codel with a target of 1 ms", "fifo"]),
        Column("virtual switch", ["linux_bridge", "ovs-kernel"]),
    ],
    [
        Column(f"probe\nquantity.{number}\nms", [f"2{number}.12 ± 0.35{number}", f"{number}.5 ± 0.1"])
        for number in range(1, 5)
    ],
    "3 more settings are in the report",
)

FILE = """
version: 1
name: wide
factors:
  discipline:
    "fq_codel, target 1 ms": {kind: fq_codel, target: 1 ms}
    "fifo of 20 packets": {kind: fifo, limit: 20 packets}
  load_of_the_neighbours: [10 kB, 40 kB]
hosts: 2
host: {guests: 2}
topology: line
link: {rate: 100 Mbit/s, queue: "${discipline}"}
roles:
  first-probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 7.3 ms, count: 30}
  second-probe: {workload: rtt, from: h1.g2, to: h2.g1, interval: 7.1 ms, count: 30}
  load: {workload: burst_load, from: h1.g2, to: h2.g2, burst: "${load_of_the_neighbours}", phase: random}
  other: {workload: burst_load, from: h2.g1, to: h1.g1, burst: 20 kB, phase: random, direction: request_reply}
repeat: 3
"""


def printed(thing: Any, width: int) -> str:
    """As on a terminal of that width."""
    out = io.StringIO()
    Console(file=out, width=width).print(thing)
    return out.getvalue()


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_columns_without_room_go_below(width: int) -> None:
    text = printed(WIDE, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "..." not in text
    values = [cell for column in WIDE.values for cell in column.cells]
    assert [cell for cell in values if cell not in text] == []
    assert all(column.heading.split("\n")[1] in text for column in WIDE.values)


def test_a_wide_terminal_has_one_table_and_a_narrow_one_repeats_the_names() -> None:
    assert printed(WIDE, 200).count("linux_bridge") == 1
    assert printed(WIDE, 80).count("linux_bridge") > 1
    assert [cell for cell in WIDE.names[0].cells if cell not in printed(WIDE, 80)] == []
    assert printed(WIDE, 80).count(WIDE.caption) == 1


@pytest.mark.slow
def test_a_dataset_with_many_columns_fits_80(tmp_path: Path) -> None:
    experiment = load_text(FILE)
    with Dataset.create(tmp_path / "wide.results", FILE, name="wide", seed=1, backend="simulator") as dataset:
        run_campaign(experiment, dataset, Simulator(), CampaignObserver())
    kept = Dataset.open(tmp_path / "wide.results")
    narrow, wide = (printed(summary(kept), width) for width in (80, 500))
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    numbers = [word for word in wide.split() if word[0].isdigit()]
    assert len(numbers) > 30
    assert [number for number in numbers if number not in narrow.split()] == []
    assert all(level in narrow for levels in experiment.factors.values() for level in levels)
