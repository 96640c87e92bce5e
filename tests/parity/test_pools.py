"""Guests that share a processor of a pool do no more work together than one processor does, on both arms."""

from __future__ import annotations

import pytest
from tests.parity.responses import ARMS, played, rows_of

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
