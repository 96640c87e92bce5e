"""Services in the simulator: a program is played by the cost that its file declares, or refused with that cure.

It is virtlab's own server then, one in each of its guests, which all roles share that end there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.catalogue import SERVICES
from virtlab.catalogue.declaration import ServiceKind
from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.services import refusals_of_services

FILE = """
version: 1
name: simulated
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
services:
  web: {WEB}
roles:
  clients: {workload: request_response, from: h1.g1, to: TO, connections: 16, rate: 300 request/s, duration: 2 s, ROLE}
MOREtimeline: [{id: ask, do: run, role: clients}CALL]
repeat: 1
"""
COST = "demand: 2 ms, demand_distribution: exponential, threads: 2, response: 8 KiB"
AT_SERVICE = "protocol: http, arrivals: poisson"


def program(cost: str, on: str = "h2.g1") -> str:
    said = f", simulated_as: {{{cost}}}" if cost else ""
    return f"kind: program, on: {on}, argv: [serve], ready: {{port: 8080}}{said}"


def plan_of(
    cost: str = COST, to: str = "web", role: str = AT_SERVICE, more: str = "", call: str = "", web: str = ""
) -> Plan:
    text = FILE.replace("WEB", web or program(cost)).replace("TO", to).replace("ROLE", role)
    experiment = load_text(text.replace("CALL", call).replace("MORE", more))
    return plan_run(experiment, experiment.points()[0], 0)


def rows_of(plan: Plan, role: str = "clients") -> dict[str, Any]:
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks[role, "response/1"]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    assert min(one["error"].size, other["error"].size) > 500
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_a_program_is_played_as_a_server_of_the_declared_cost() -> None:
    """To the nanosecond as virtlab's own server would be as a service, whose queue waits instead of refusing."""
    served = f"kind: demand_server, on: h2.g1, ready: {{port: 8080}}, full: wait, {COST}"
    assert same(rows_of(plan_of()), rows_of(plan_of(web=served, role="arrivals: poisson")))


@pytest.mark.slow
def test_a_server_is_the_same_one_as_a_service_and_in_a_role() -> None:
    """To the nanosecond, where nothing is drawn: each draws by its own name."""
    cost = "demand: 5 ms, threads: 2, response: 8 KiB"
    own = rows_of(plan_of(to="h2.g1", role=f"arrivals: poisson, full: wait, {cost}"))
    assert same(rows_of(plan_of(cost)), own)


@pytest.mark.slow
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
    ],
)  # fmt: skip
def test_what_a_cost_cannot_stand_for_is_refused(
    changed: dict[str, str], path: str, reason: str, cure: str
) -> None:
    (refusal,) = Simulator().check(plan_of(**changed))
    assert refusal.path == path
    assert reason in refusal.reason
    assert cure in refusal.cure


def test_a_kind_that_nothing_here_serves_as_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVICES, "queue", ServiceKind("queue", "a kind that says it is played"))
    world = {"hosts": {}, "guests": {}, "services": {"db": {"kind": "queue", "on": ["a"]}}}
    plan = Plan.model_validate({"world": world})
    (refusal,) = refusals_of_services(plan)
    assert (refusal.path, refusal.reason) == ("services.db.kind", "'queue' is not modelled")


LOOP = "{workload: request_response, protocol: http, connections: 1, duration: 1 s, from: FROM, to: web, server: SERVER}"
LOOPS = """
version: 1
name: loops
hosts: [h1, h2, h3, h4]
host: {guests: 1}
topology: {shape: star}
link: {rate: 10 Gbit/s}
services: {web: {WEB}}
roles: {one: ONE, two: TWO}
timeline: [{id: a, do: run, role: one}, {id: b, do: run, role: two}]
repeat: 1
"""


def loops(web: str, second: str, protocol: str) -> list[np.ndarray]:
    """Response times of two closed loops of one client each: the first asks h2.g1, the other the server that is
    named.
    """
    text = LOOPS.replace("WEB", web)
    for word, come, asked in (("ONE", "h1.g1", "first"), ("TWO", "h4.g1", second)):
        text = text.replace(word, LOOP.replace("FROM", come).replace("SERVER", asked))
    experiment = load_text(text.replace("protocol: http", f"protocol: {protocol}"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    both = [rows_of(plan, name) for name in ("one", "two")]
    assert not any(rows["error"].any() for rows in both)
    return [rows["finished_ns"] - rows["sent_ns"] for rows in both]


KINDS = [
    (program("demand: 10 ms", "[h2.g1, h3.g1]"), "http"),
    ("kind: demand_server, on: [h2.g1, h3.g1], demand: 10 ms", "tcp"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("web", "protocol"), KINDS)
def test_roles_that_end_at_one_server_wait_for_each_other(web: str, protocol: str) -> None:
    """Of two clients that do not think each waits for the other's demand, then for its own."""
    for times in loops(web, "h2.g1", protocol):
        assert times[2:-2] == pytest.approx(20e6, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("web", "protocol"), KINDS)
def test_a_service_has_a_server_in_each_of_its_guests(web: str, protocol: str) -> None:
    for times in loops(web, "h3.g1", protocol):
        assert times == pytest.approx(10e6, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("web", "protocol"), KINDS)
def test_servers_of_one_service_draw_each_their_own_demands(web: str, protocol: str) -> None:
    drawn = web.replace("demand: 10 ms", "demand: 10 ms, demand_distribution: exponential")
    one, two = loops(drawn, "h3.g1", protocol)
    few = min(one.size, two.size)
    assert few > 50
    assert abs(np.corrcoef(one[:few], two[:few])[0, 1]) < 0.5


@pytest.mark.parametrize(("demand", "refused"), [("1 s", []), ("1 us", ["roles.clients"])])
def test_samples_are_estimated_by_what_a_service_takes_for_each(demand: str, refused: list[str]) -> None:
    """Clients in a closed loop have as many as its server can serve, which has to fit into memory."""
    values = plan_of(f"demand: {demand}").model_dump(mode="json")
    values["limits"]["run_ns"] = hour_ns = 3600 * 10**9
    clients = values["roles"]["clients"]
    clients |= {"rate_per_s": None, "arrivals": None, "connections": 1024, "duration_ns": hour_ns}
    values["roles"]["clients"] = {key: value for key, value in clients.items() if value is not None}
    found = Simulator().check(Plan.model_validate(values))
    assert [str(each.path) for each in found] == refused


@pytest.mark.parametrize(
    ("cost", "place", "text"),
    [
        ("demand: 2", "simulated_as.demand", "has no unit"),
        ("demnd: 2 ms", "simulated_as.demnd", "did you mean 'demand'?"),
        ("full: reject", "simulated_as.full", "is not a cost of a server; it has"),
        ("write: 4 KiB", "simulated_as.write", "is not a cost of a server; it has"),
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
