"""A server as a service on both arms: roles share its threads, and draw its demands from one stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run

ARMS = ("simulator", "testbed")
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


def played(arm: str, server: str, role: str) -> dict[str, dict[str, Any]]:
    """Rows of both roles, each in the order in which requests were due."""
    experiment = load_text(FILE.replace("SERVER", server).replace("ROLE", role))
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    kept = Kept()
    with backend_of(arm).open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status in PLAYED, outcome.reasons
    found = {}
    for name in ("one", "two"):
        blocks = kept.blocks[name, "response/1"]
        rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
        order = np.argsort(rows["intended_ns"], kind="stable")
        found[name] = {column: values[order] for column, values in rows.items()}
    return found


@pytest.mark.parametrize("arm", ARMS)
def test_roles_at_one_service_share_its_one_thread(arm: str) -> None:
    """Each closed loop of two gets half of a server that does 100 requests per second; with one of its own, all of it."""
    rows = played(arm, "demand: 10 ms", "connections: 1, duration: 1 s")
    counts = {name: len(each["error"]) for name, each in rows.items()}
    assert all(not each["error"].any() for each in rows.values())
    assert sum(counts.values()) <= 102
    if arm == "simulator":
        assert abs(counts["one"] - counts["two"]) <= 1
        for each in rows.values():
            took = each["finished_ns"] - each["sent_ns"]
            assert np.all(took[2:-1] == pytest.approx(20 * MS, rel=0.01))


def test_both_arms_draw_the_demands_of_a_service_by_its_name() -> None:
    role = "connections: 1, think: 1 ms, duration: 1 s"
    server = "serial_demand: 1 ms, demand: 4 ms, subtasks: 2, demand_distribution: exponential, threads: 4"
    ends = {arm: played(arm, server, role) for arm in ARMS}
    done = {}
    for arm, roles in ends.items():
        both = np.concatenate([each["sent_ns"] for each in roles.values()])
        took = np.concatenate([each["finished_ns"] - each["sent_ns"] for each in roles.values()])
        assert all(not each["error"].any() for each in roles.values())
        done[arm] = took[np.argsort(both, kind="stable")]
    assert min(len(each) for each in done.values()) > 40
    assert np.mean(done["testbed"]) > 0.9 * np.mean(done["simulator"][: len(done["testbed"])])
