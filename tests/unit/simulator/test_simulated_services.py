"""Services in the simulator: a program is played by the cost that its file declares, or refused with that cure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

FILE = """
version: 1
name: simulated
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
services:
  web: {kind: program, on: h2.g1, argv: [serve], ready: {port: 8080}COST}
roles:
  clients: {workload: request_response, from: h1.g1, to: TO, connections: 16, rate: 300 request/s, duration: 2 s, ROLE}
MOREtimeline: [{id: ask, do: run, role: clients}CALL]
repeat: 1
"""
COST = "demand: 2 ms, demand_distribution: exponential, threads: 2, response: 8 KiB"
AT_SERVICE = "protocol: http, arrivals: poisson"


def plan_of(
    cost: str = COST, to: str = "web", role: str = AT_SERVICE, more: str = "", call: str = ""
) -> Plan:
    said = f", simulated_as: {{{cost}}}" if cost else ""
    text = FILE.replace("COST", said).replace("TO", to).replace("ROLE", role).replace("CALL", call)
    experiment = load_text(text.replace("MORE", more))
    return plan_run(experiment, experiment.points()[0], 0)


def rows_of(plan: Plan) -> dict[str, Any]:
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks["clients", "response/1"]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def test_a_program_is_played_as_a_server_of_the_declared_cost() -> None:
    """To the nanosecond as virtlab's own server would be, whose queue waits instead of refusing."""
    served = rows_of(plan_of())
    own = rows_of(plan_of(to="h2.g1", role=f"arrivals: poisson, full: wait, {COST}"))
    assert served["error"].size > 500
    assert all(np.array_equal(served[name], own[name]) for name in served)


def test_another_cost_is_another_plan_and_takes_another_time() -> None:
    dearer = plan_of(COST.replace("2 ms", "4 ms"))
    assert dearer.identity() != plan_of().identity()
    took = [rows["finished_ns"] - rows["intended_ns"] for rows in (rows_of(dearer), rows_of(plan_of()))]
    assert np.mean(took[0]) > 1.5 * np.mean(took[1])


def test_a_plan_without_a_cost_says_nothing_of_it() -> None:
    assert "simulated_as" not in plan_of(cost="").world.services["web"].parameters


@pytest.mark.parametrize(
    ("changed", "path", "reason", "cure"),
    [
        ({"cost": ""}, "services.web.kind", "runs no programs", "say what it costs, e.g. 'simulated_as: {demand: 2 ms}'"),
        ({"role": f"{AT_SERVICE}, keep_alive: false"}, "roles.clients.keep_alive", "come and go", "remove it"),
        (
            {"call": ", {id: lose, do: call, service: web, op: fail}"},
            "timeline.lose", "no service of a kind", "",
        ),
    ],
)  # fmt: skip
def test_what_a_cost_cannot_stand_for_is_refused(
    changed: dict[str, str], path: str, reason: str, cure: str
) -> None:
    (refusal,) = Simulator().check(plan_of(**changed))
    assert refusal.path == path
    assert reason in refusal.reason
    assert cure in refusal.cure


def test_two_roles_at_one_simulated_server_are_refused_each() -> None:
    second = "  others: {workload: request_response, protocol: http, from: h1.g1, to: web, duration: 1 s}\n"
    found = Simulator().check(plan_of(more=second))
    assert [str(refusal.path) for refusal in found] == ["roles.clients.to", "roles.others.to"]


@pytest.mark.parametrize(
    ("cost", "place", "text"),
    [
        ("demand: 2", "simulated_as.demand", "has no unit"),
        ("demnd: 2 ms", "simulated_as.demnd", "did you mean 'demand'?"),
        ("full: reject", "simulated_as.full", "is no cost of a server; it has"),
        ("write: 4 KiB", "simulated_as.write", "is no cost of a server; it has"),
        ("subtasks: 2", "simulated_as.subtasks", "there is no demand to split into them"),
        ("threads: 2000", "simulated_as.threads", "write at most 1024"),
    ],
)
def test_a_cost_that_is_wrong_is_told_with_its_place(cost: str, place: str, text: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        plan_of(cost)
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"services.web.{place}"
    assert text in f"{mistake.what}; {mistake.cure}"
