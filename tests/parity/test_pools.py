"""Guests that share a processor of a pool do no more work together than one processor does, on both arms."""

from __future__ import annotations

import os

import pytest
from tests.parity.responses import ARMS, played, rows_of

from virtlab.simulator.profile import Parameter, Profile

by_root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's")
MS = 1_000_000
FILE = """
version: 1
name: pooled
hosts:
  h1:
    pools: {cores: {cpus: 1}}
    guests: {a: {}, b: {}, client: {pool: none}}
topology: none
services:
  left: {kind: demand_server, on: h1.a, demand: 10 ms, threads: 2}
  right: {kind: demand_server, on: h1.b, demand: 10 ms, threads: 2}
roles:
  one: {workload: request_response, from: h1.client, to: left, connections: 2, duration: 1 s}
  two: {workload: request_response, from: h1.client, to: right, connections: 2, duration: 1 s}
timeline:
  - {id: ask, do: run, role: one}
  - {id: too, do: run, role: two}
repeat: 1
"""


@pytest.mark.parametrize("arm", ARMS)
def test_two_guests_with_two_threads_each_do_the_work_of_the_one_processor_that_they_share(arm: str) -> None:
    """400 requests per second, if each thread had a processor; 100, as they share one."""
    kept = played(arm, FILE)
    found = {name: rows_of(kept, name) for name in ("one", "two")}
    assert all(not rows["error"].any() for rows in found.values())
    done = {name: len(rows["error"]) for name, rows in found.items()}
    assert sum(done.values()) <= 110
    if arm == "simulator":
        assert sum(done.values()) >= 96
        assert abs(done["one"] - done["two"]) <= 2


FREE = dict.fromkeys(
    ("platform.namespace.send_ns", "vswitch.linux_bridge.packet_ns", "links.departure_ns"), 0.0
)
TURNS = Profile(
    "turns", 64, {name: Parameter(value) for name, value in (FREE | {"pool.slice_ns": 3e6}).items()}
)


@pytest.mark.parametrize("arm", ["simulator", pytest.param("testbed", marks=by_root)])
def test_two_guests_that_are_always_busy_have_their_processor_by_weight_on_both_arms(arm: str) -> None:
    """Three of four requests are those of the guest with three times the weight, though it has half of the threads."""
    text = FILE.replace("a: {}, b: {}", "a: {weight: 300}, b: {}").replace("duration: 1 s", "duration: 3 s")
    kept = played(
        arm, text.replace("h1.b, demand: 10 ms, threads: 2", "h1.b, demand: 10 ms, threads: 4"), TURNS
    )
    done = {name: len(rows_of(kept, name)["error"]) for name in ("one", "two")}
    assert done["one"] / sum(done.values()) == pytest.approx(
        0.75, abs=0.02 if arm == "simulator" else 0.06
    ), done
