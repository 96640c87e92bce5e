"""A server as a service on both arms: roles share its threads, and draw its demands from one stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.parity.responses import ARMS, played, rows_of

MS = 1_000_000
FILE = """
version: 1
name: shared
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
services:
  app: {kind: demand_server, on: h2.g1, SERVER}
roles:
  one: {workload: request_response, from: h1.g1, to: app, ROLE}
  two: {workload: request_response, from: h1.g1, to: app, ROLE}
timeline:
  - {id: ask, do: run, role: one}
  - {id: too, do: run, role: two}
repeat: 1
"""


def rows(arm: str, server: str, role: str) -> dict[str, dict[str, Any]]:
    """Of both roles."""
    kept = played(arm, FILE.replace("SERVER", server).replace("ROLE", role))
    return {name: rows_of(kept, name) for name in ("one", "two")}


@pytest.mark.parametrize("arm", ARMS)
def test_roles_at_one_service_share_its_one_thread(arm: str) -> None:
    """Each closed loop of two gets half of a server that does 100 requests per second; with one of its own, all of
    it.
    """
    found = rows(arm, "demand: 10 ms", "connections: 1, duration: 1 s")
    counts = {name: len(each["error"]) for name, each in found.items()}
    assert all(not each["error"].any() for each in found.values())
    assert sum(counts.values()) <= 102
    if arm == "simulator":
        assert abs(counts["one"] - counts["two"]) <= 1
        for each in found.values():
            took = each["finished_ns"] - each["sent_ns"]
            assert np.all(took[2:-1] == pytest.approx(20 * MS, rel=0.01))


def test_both_arms_draw_the_demands_of_a_service_by_its_name() -> None:
    role = "connections: 1, think: 1 ms, duration: 1 s"
    server = "serial_demand: 1 ms, demand: 4 ms, subtasks: 2, demand_distribution: exponential, threads: 4"
    ends = {arm: rows(arm, server, role) for arm in ARMS}
    done = {}
    for arm, roles in ends.items():
        both = np.concatenate([each["sent_ns"] for each in roles.values()])
        took = np.concatenate([each["finished_ns"] - each["sent_ns"] for each in roles.values()])
        assert all(not each["error"].any() for each in roles.values())
        done[arm] = took[np.argsort(both, kind="stable")]
    assert min(len(each) for each in done.values()) > 40
    assert np.mean(done["testbed"]) > 0.9 * np.mean(done["simulator"][: len(done["testbed"])])
