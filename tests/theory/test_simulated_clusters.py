"""Active and passive servers in virtual time: what the way between them adds, and what a passive server forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

MS = 1_000_000
ANSWERED, REFUSED, BAD_GATEWAY = 0, 1, 6
FILE = """
version: 1
name: cluster
hosts: [h1, h2, h3, h4]
host: {guests: 1}
topology: {shape: star}
link: {rate: 1 Gbit/s, propagation: 1 ms}
services:
  app: {kind: demand_server, on: [h2.g1, h3.g1, h4.g1], active: h3.g1, SERVER}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, ROLE}
timeline:
  - {id: ask, do: run, role: clients}
repeat: 1
"""


def played(server: str, role: str) -> dict[str, Any]:
    """Rows in the order in which requests were due."""
    experiment = load_text(FILE.replace("SERVER", server).replace("ROLE", role))
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks["clients", "response/1"]
    rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    return {column: values[order] for column, values in rows.items()}


@pytest.mark.slow
def test_what_enters_at_a_passive_server_crosses_four_links_more() -> None:
    """A link of 1 ms to the switch and one from it, there and back: 4 ms to a server, and 4 ms more through another."""
    rows = played("demand: 1 ms, threads: 8", "passive_share: 60 %, rate: 500 request/s, connections: 64")
    took = rows["finished_ns"] - rows["sent_ns"]
    assert len(took) == 5000
    assert not rows["error"].any()
    assert set(rows["served_by"].tolist()) == {1}
    entered = np.bincount(rows["entry"])
    assert entered == pytest.approx([1500, 2000, 1500], abs=150), "of the passive ones each is as likely"
    # The first request of each connection may wait for a handshake.
    late = rows["intended_ns"] > rows["intended_ns"][0] + 1000 * MS
    for entry, way in ((0, 9), (1, 5), (2, 9)):
        found = took[late & (rows["entry"] == entry)]
        assert np.median(found) == pytest.approx(way * MS, rel=0.02), entry


@pytest.mark.slow
def test_a_passive_server_works_for_nothing_itself() -> None:
    """One thread of 10 ms, asked by 4 clients all of whom enter elsewhere: 100 requests per second, as without a
    cluster.
    """
    rows = played("demand: 10 ms", "passive_share: 100 %, connections: 4, duration: 2 s")
    took = rows["finished_ns"] - rows["intended_ns"]
    assert not rows["error"].any()
    assert np.median(took) == pytest.approx(40 * MS, rel=0.02)
    assert len(took) == pytest.approx(200, abs=8)


@pytest.mark.slow
def test_its_forwards_are_bounded() -> None:
    """Of 30 requests at once each of two passive servers forwards three."""
    role = "passive_share: 100 %, connections: 30, think: 100 s, duration: 1 s"
    errors = played("demand: 1 ms, forwards: 3", role)["error"]
    assert np.bincount(errors).tolist() == [6, 24], "three of each of the two"
    waited = played("demand: 1 ms, forwards: 3, full: wait", role)["error"]
    assert waited.tolist() == [ANSWERED] * 30


@pytest.mark.slow
def test_a_full_active_server_refuses_what_was_forwarded() -> None:
    role = "passive_share: 100 %, connections: 30, think: 100 s, duration: 1 s"
    errors = played("demand: 100 ms, backlog: 4", role)["error"]
    assert np.bincount(errors).tolist() == [5, 25], "one is served and four wait"


@pytest.mark.slow
def test_an_active_server_that_stands_still_is_a_bad_gateway_after_the_time_out() -> None:
    role = "passive_share: 100 %, connections: 5, think: 100 s, duration: 1 s"
    rows = played("demand: 1 ms, pause: 5 s, forward_timeout: 300 ms", role)
    assert rows["error"].tolist() == [BAD_GATEWAY] * 5
    assert set(rows["served_by"].tolist()) == {-1}
    # Two links there, and two back.
    assert np.all(rows["finished_ns"] - rows["sent_ns"] == pytest.approx(304 * MS, rel=0.01))
