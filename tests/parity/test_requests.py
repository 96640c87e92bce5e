"""Requests on both arms: as many are due, each ends once, and a pause of the server is in the response times of both.

How long an answer takes on a machine depends on what else it does; how many requests are due, and that a server that
stood still for a second kept those waiting that were due meanwhile, does not.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import backend_of
from tests.parity import responses
from tests.parity.responses import ARMS, played
from tests.requests_file import requests_file

from virtlab.experiment import load_text
from virtlab.planner import plan_run

TIMELINE = """timeline:
  - {id: ask, do: run, role: clients}
"""


def rows_of(arm: str, role: str, more: str = "") -> dict[str, Any]:
    """Rows of one run."""
    return responses.rows_of(played(arm, requests_file(role, TIMELINE + more)))


@pytest.mark.parametrize("arm", ARMS)
def test_requests_are_due_at_the_times_of_a_trace_as_often_as_it_repeats(arm: str) -> None:
    role = "arrivals: trace, trace: load.csv, trace_period: 200 ms, duration: 500 ms, connections: 4"
    trace = "traces: {load.csv: '0 s\n\n50 ms\n\n50 ms\n\n120 ms'}\n"
    rows = rows_of(arm, role, trace)
    due = rows["intended_ns"] - rows["intended_ns"][0]
    wanted = [start + at for start in (0, 200, 400) for at in (0, 50, 50, 120)]
    assert due.tolist() == [at * 1_000_000 for at in wanted if at < 500]
    assert (rows["error"] == 0).all()


@pytest.mark.parametrize("arm", ARMS)
def test_after_a_trace_no_request_is_due(arm: str) -> None:
    rows = rows_of(
        arm, "arrivals: trace, trace: load.csv, duration: 1 s", "traces: {load.csv: '0 s\n\n90 ms'}\n"
    )
    assert (rows["intended_ns"] - rows["intended_ns"][0]).tolist() == [0, 90_000_000]


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_both_arms_have_the_same_requests_due_and_answer_them_all(arrivals: str) -> None:
    role = f"rate: 200 request/s, arrivals: {arrivals}, connections: 64, demand: 200 us, duration: 1 s"
    due = {}
    for arm in ARMS:
        rows = rows_of(arm, role)
        assert not rows["error"].any()
        assert np.all(rows["served_by"] == 0)
        assert np.all(rows["sent_ns"] >= rows["intended_ns"])
        assert np.all(rows["finished_ns"] - rows["sent_ns"] >= (200_000 if arm == "simulator" else 0))
        due[arm] = rows["intended_ns"] - rows["intended_ns"][0]
    assert np.array_equal(due["simulator"], due["testbed"])


def test_both_arms_draw_the_same_stages_from_the_same_seed() -> None:
    """On a machine a request takes what its own stages take, or longer: never less, as one of other draws often
    would.
    """
    role = (
        "connections: 1, serial_demand: 1 ms, demand: 4 ms, subtasks: 2, demand_distribution: exponential, threads: 2, "
        "think: 1 ms, duration: 1 s"
    )
    took = {}
    for arm in ARMS:
        rows = rows_of(arm, role)
        assert not rows["error"].any()
        took[arm] = rows["finished_ns"] - rows["sent_ns"]
    both = min(len(took[arm]) for arm in ARMS)
    assert both > 20
    at_least = took["testbed"][:both] > 0.9 * took["simulator"][:both]
    assert at_least.mean() > 0.95


def test_writes_are_refused_where_there_are_no_disks() -> None:
    experiment = load_text(
        requests_file("write: 4 KiB, write_mode: fsync, connections: 2, duration: 200 ms", TIMELINE)
    )
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    (refusal,) = backend_of("simulator").check(plan)
    assert (refusal.path, refusal.cure) == (
        "roles.clients.write_bytes",
        "give that guest a 'disk', remove 'write', or run it on the testbed",
    )
    assert backend_of("testbed").check(plan) == []


@pytest.mark.parametrize("arm", ARMS)
def test_a_server_that_stands_still_cannot_hide_it(arm: str) -> None:
    """1 s of 12 s at 100 requests per second; with VIRTLAB_LONG=1 5 s of 60 s."""
    factor = 5 if os.environ.get("VIRTLAB_LONG") else 1
    role = (
        f"rate: 100 request/s, connections: 600, demand: 1 ms, pause: {factor} s, pause_after: {4 * factor} s, "
        f"duration: {12 * factor} s"
    )
    rows = rows_of(arm, role)
    assert rows["intended_ns"].size == 1200 * factor
    assert not rows["error"].any()
    waited = rows["finished_ns"] - rows["intended_ns"]
    assert np.quantile(waited, 0.99) >= 0.8e9 * factor
    assert np.median(waited) < 0.5e9
    behind = rows["finished_ns"] - rows["sent_ns"]
    assert np.quantile(behind, 0.99) >= 0.8e9 * factor, "the wait was the server's, and not the client's"


@pytest.mark.parametrize("arm", ARMS)
def test_what_finds_the_backlog_full_is_refused_and_the_rest_is_answered(arm: str) -> None:
    rows = rows_of(
        arm,
        "rate: 400 request/s, connections: 128, demand: 1 us, backlog: 8, pause: 400 ms, pause_after: 100 ms, duration: 1 s",
    )
    assert rows["intended_ns"].size == 400
    assert set(rows["error"]) == {0, 1}
    assert 100 < (rows["error"] == 1).sum() < 200  # 160 were due meanwhile, of which 9 had room


@pytest.mark.parametrize("arm", ARMS)
def test_clients_that_think_ask_no_more_often_than_they_can(arm: str) -> None:
    rows = rows_of(arm, "connections: 4, think: 10 ms, duration: 1 s")
    assert not rows["error"].any()
    assert 200 < rows["error"].size <= 404
    assert np.all(rows["sent_ns"] >= rows["intended_ns"])
