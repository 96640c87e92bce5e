"""A guest in a pool that moves in the simulator: into a pool of the other host, which its move names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.simulator.test_simulator_moves import Kept, S, played

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

FILE = """\
version: 1
name: moves
title: A guest moves from one pool into another
hosts:
  h1: {pools: {cores: {cpus: 1}}, guests: {g1: {platform: qemu, memory: 64 MB, vcpus: 2}}}
  h2: {pools: {small: {cpus: 1}, large: {cpus: 2, by: BY}}, guests: {g1: {pool: small}BESIDE}}
  h3: {}
topology: star
link: {rate: 1 Gbit/s}
network: {arp: live}
roles:
  ask: {workload: request_response, from: h3.g1, to: h1.g1, duration: 120 s, rate: 150 request/s, arrivals: constant,
        demand: 10 ms, threads: 2, connections: 40, timeout: 90 s}
timeline:
  - {id: asking, do: start, role: ask}
  - {id: go, do: migrate, guest: h1.g1, to: h2, POOL, bandwidth: 500 MB/s, timeout: 60 s, after: asking.started + 4 s}
  - {id: settle, do: wait, for: 8 s, after: go.finished}
  - {id: asked, do: stop, role: ask, after: settle.done}
windows: {measured: {from: asking.started, to: asked.done}}
collect: {series: {host.cpu: 100 ms, guest.cpu: 100 ms}}
"""


def planned(pool: str | None = "large", by: str = "affinity", *, beside: bool = False) -> Plan:
    said = "POOL, " if pool is None else "POOL"
    text = FILE.replace(said, "" if pool is None else f"pool: {pool}").replace("BY", by)
    text = text.replace("BESIDE", ", g2: {pool: large}" if beside else "")
    experiment = load_text(text)
    return plan_run(experiment, experiment.points()[0], 0)


def busy(sink: Kept, entity: str, begin_ns: int, end_ns: int) -> float:
    """Processors of it that were used on average."""
    found: list[Any] = []
    for stream, _, columns in sink.blocks:
        if stream == "series":
            own = (columns["entity"] == entity) & (columns["metric"] == "cpu")
            inside = own & (columns["t_ns"] > begin_ns + S // 10) & (columns["t_ns"] <= end_ns)
            found.extend(columns["value"][inside])
    assert found, entity
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["affinity", "quota"])
def test_a_guest_works_on_the_pool_that_its_move_names(by: str) -> None:
    outcome, sink = played(planned("large", by))
    paused, resumed, end = sink.at("go.paused"), sink.at("go.resumed"), outcome.windows["measured"][1]
    # One processor does 100 requests a second of 150; two do all of them, and what was left, at once.
    assert busy(sink, "pools.h1.cores", S, paused) == pytest.approx(1.0, abs=0.02)
    assert busy(sink, "pools.h2.large", S, paused) == 0
    assert busy(sink, "pools.h1.cores", resumed, end) == 0
    assert busy(sink, "pools.h2.large", resumed, resumed + 2 * S) == pytest.approx(2.0, abs=0.05)
    assert busy(sink, "pools.h2.large", end - 2 * S, end) == pytest.approx(1.5, abs=0.05)
    assert busy(sink, "guests.h1.g1", end - 2 * S, end) == pytest.approx(1.5, abs=0.05)


@pytest.mark.slow
def test_a_smaller_pool_is_slower_and_both_backends_name_what_is_missing() -> None:
    outcome, sink = played(planned("small", beside=True))
    end = outcome.windows["measured"][1]
    assert busy(sink, "pools.h2.small", end - 2 * S, end) == pytest.approx(1.0, abs=0.02)
    (found,) = Simulator().check(planned(None, beside=True))
    assert found.path == "timeline.go.pool"
    assert found.cure == "write 'pool: small | large | none'"
    (found,) = Simulator().check(planned("huge", beside=True))
    assert found.reason == "h2 has no pool 'huge'"


def test_a_pool_that_nobody_is_in_is_a_mistake() -> None:
    with pytest.raises(ExperimentError, match="no guest is in pool 'large'"):
        planned("small")
