"""Frames that wait in a queue when the timeline ends are in flight: the loss does not count them, and the report
warns.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load_text
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: flight
factors: {drain: [0 s, 500 ms]}
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, queue: {kind: fifo, limit: LIMIT packets}}
links: {h1-s1: {rate: 1 Gbit/s}}
roles:
  stream: {workload: udp_stream, from: h1.g1, to: h2.g1, rate: 110 Mbit/s, duration: 200 ms}
timing: {warmup: 0 s, drain: "${drain}"}
repeat: 1
"""  # the stream brings 15 % more than its wire takes


FLOOD = """
version: 1
name: flight
factors: {drain: [50 ms, 2 s]}
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 10 Mbit/s}
host: {pushback: PUSHBACK}
roles:
  stream: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 1472 B payload, duration: 200 ms}
timing: {warmup: 0 s, drain: "${drain}"}
repeat: 1
"""


def simulated(place: Path, text: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """Loss by drain, and the notes of the report."""
    experiment = load_text(text)
    with Dataset.create(place, text, name="flight", seed=1, backend="simulator") as dataset:
        run_campaign(experiment, dataset, Simulator(), CampaignObserver())
    data = gather(Dataset.open(place), curves=False)
    (loss,) = (one for one in data.results if one.quantity.path == "stream.loss.ratio")
    return {cell.point["drain"]: cell.mean for cell in loss.cells}, data.notes


@pytest.mark.slow
def test_frames_in_a_queue_at_the_end_are_in_flight_and_are_told_of(tmp_path: Path) -> None:
    loss, notes = simulated(tmp_path / "long.results", FILE.replace("LIMIT", "1000"))
    assert loss == {"0 s": pytest.approx(0.0, abs=0.001), "500 ms": 0.0}  # one is on the wire, not in a queue
    (warning,) = (note for note in notes if "in flight" in note)
    assert "In 1 run frames still waited" in warning
    assert "at drain 0 s" in warning


@pytest.mark.slow
def test_frames_that_a_full_queue_dropped_are_lost_in_both(tmp_path: Path) -> None:
    loss, _ = simulated(tmp_path / "short.results", FILE.replace("LIMIT", "50"))
    assert loss["500 ms"] > 0.08
    assert loss["0 s"] == pytest.approx(loss["500 ms"], abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(("pushback", "where"), [("guest", "h1.g1.eth0"), ("uplink", "guests of h1 → h1.up")])
def test_frames_that_wait_for_their_hosts_wire_are_in_flight_too(
    tmp_path: Path, pushback: str, where: str
) -> None:
    loss, notes = simulated(tmp_path / "flood.results", FLOOD.replace("PUSHBACK", pushback))
    # Of some two hundred (a stream's socket holds 455 in a shared queue, and what it sent late), three may be on wires.
    assert loss == {"50 ms": pytest.approx(0.0, abs=0.015), "2 s": 0.0}
    (warning,) = (note for note in notes if "in flight" in note)
    assert "In 1 run frames still waited" in warning
    assert f"on {where} at drain 50 ms" in warning
