"""TCP gets what a load that never yields leaves of the wire, and no more: nothing is lost to time-outs."""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.prediction.bound.curves import frames_bits
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE

FILE = """
version: 1
name: beside
factors: {load: [30 kB, 65 kB, 90 kB]}
hosts: 2
host: {guests: 2}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, queue: {kind: fifo, limit: 100 packets}}
roles:
  tcp: {workload: tcp_stream, from: h1.g1, to: h2.g1, duration: 3 s}
  load: {workload: burst_load, from: h1.g2, to: h2.g2, burst: "${load}", period: 10 ms, streams: 2, phase: random}
repeat: 2
"""
GOODPUT = MetricPath.parse("tcp.goodput.mean")
SEGMENT, SEGMENT_WIRE = 1448, 1538


@pytest.mark.slow
@pytest.mark.parametrize("load_bytes", [30_000, 65_000, 90_000])
def test_a_flow_gets_the_rest_of_the_wire(load_bytes: int) -> None:
    experiment = load_text(FILE)
    (point,) = [each for each in experiment.points() if each.levels == {"load": f"{load_bytes // 1000} kB"}]
    found = simulate(experiment, IDEAL_PROFILE, points=[point.index], repetitions=3).values(GOODPUT)
    taken = 2 * sum(frames_bits(load_bytes // 2 + 8, 1500)) / 10e-3
    rest = (100e6 - taken) * SEGMENT / SEGMENT_WIRE
    assert sum(found) / len(found) == pytest.approx(rest, rel=0.06)
    assert max(found) <= 1.04 * rest
