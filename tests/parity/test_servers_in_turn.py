"""All servers of a service in turn, on both arms: the same requests enter at the same servers, and are served there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run

ARMS = ("simulator", "testbed")
FILE = """
version: 1
name: turns
hosts: [h1, h2, h3, h4]
host: {guests: 1}
topology: {shape: star}
link: {rate: 1 Gbit/s, propagation: 1 ms}
services:
  app: {kind: demand_server, on: [h2.g1, h3.g1, h4.g1], SERVER}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, server: round_robin, duration: 1 s, timeout: 10 s, ROLE}
timeline:
  - {id: ask, do: run, role: clients}
MORE
repeat: 1
"""


def played(
    arm: str, role: str, server: str = "demand: 1 ms", more: str = "", kind: str = "kind: demand_server, "
) -> dict[str, Any]:
    """Rows in the order in which requests were due."""
    text = FILE.replace("kind: demand_server, ", kind).replace("SERVER", server)
    experiment = load_text(text.replace("ROLE", role).replace("MORE", more))
    plan = plan_run(experiment, experiment.points()[0], 0)
    kept = Kept()
    with backend_of(arm).open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status in PLAYED, outcome.reasons
    blocks = kept.blocks["clients", "response/1"]
    rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    return {column: values[order] for column, values in rows.items()}


@pytest.mark.parametrize("arm", ARMS)
def test_requests_enter_at_all_servers_in_turn_and_are_served_there(arm: str) -> None:
    rows = played(arm, "rate: 30 request/s, connections: 16")
    assert not rows["error"].any()
    assert rows["entry"].tolist() == [0, 1, 2] * 10
    assert rows["served_by"].tolist() == rows["entry"].tolist()


@pytest.mark.parametrize(("arm", "kept"), [("simulator", "true"), ("testbed", "true"), ("testbed", "false")])
def test_programs_are_asked_in_turn_over_http(arm: str, kept: str) -> None:
    """A connection is kept, or, which the simulator refuses, ends with each answer."""
    serves = (
        "[sh, -c, 'mkdir {on} && echo page >{on}/page && exec python3 -m http.server 8080 --directory {on}']"
    )
    program = (
        f"kind: program, argv: {serves}, ready: {{port: 8080, http: /page}}, simulated_as: {{demand: 1 ms}}"
    )
    role = f"rate: 12 request/s, connections: 16, protocol: http, path: /page, keep_alive: {kept}"
    rows = played(arm, role, program, kind="")
    assert not rows["error"].any()
    assert rows["entry"].tolist() == [0, 1, 2] * 4
    assert rows["served_by"].tolist() == rows["entry"].tolist()


@pytest.mark.parametrize("arm", ARMS)
def test_clients_of_a_closed_loop_begin_at_one_after_the_other(arm: str) -> None:
    """Each asks once: four clients, three servers."""
    rows = played(arm, "connections: 4, think: 100 s")
    assert not rows["error"].any()
    assert sorted(rows["entry"].tolist()) == [0, 0, 1, 2]


@pytest.mark.parametrize("arm", ARMS)
def test_the_turns_of_a_failed_server_are_broken_and_those_of_others_are_served(arm: str) -> None:
    more = """
  - {id: lose, do: call, service: app, op: fail, args: {guest: h3.g1}, after: ask.started + 2 s}
"""
    rows = played(arm, "rate: 3 request/s, connections: 16", "demand: 1 ms, pause: 4 s", more)
    assert rows["entry"].tolist() == [0, 1, 2]
    assert rows["error"].tolist() == [0, 3, 0], "the servers answer after a pause of 4 s, in which one fails"


def test_servers_draw_the_demands_of_their_own_names() -> None:
    """As roles do that name one each: of its first request every server draws the same, whoever asks."""
    server = "demand: 5 ms, demand_distribution: exponential"
    took = {}
    for which in ("round_robin", "h2.g1", "h3.g1", "h4.g1"):
        text = (
            FILE.replace("SERVER", server)
            .replace("MORE", "")
            .replace("server: round_robin", f"server: {which}")
        )
        experiment = load_text(text.replace("ROLE", "rate: 3 request/s, connections: 4"))
        plan = plan_run(experiment, experiment.points()[0], 0)
        for seed in (1, 2):
            kept = Kept()
            with backend_of("simulator").open(plan, Watcher()) as session:
                session.run(Trial("t0", seed), kept)
            (rows,) = kept.blocks["clients", "response/1"]
            order = np.argsort(rows["intended_ns"], kind="stable")
            took[which, seed] = (rows["finished_ns"] - rows["sent_ns"])[order]
    for seed in (1, 2):
        first = [took[guest, seed][0] for guest in ("h2.g1", "h3.g1", "h4.g1")]
        assert took["round_robin", seed] == pytest.approx(first, rel=0.001)
    assert took["round_robin", 1] != pytest.approx(took["round_robin", 2], rel=0.01)
