"""Roles of `workload: program` in the simulator: a client of a service, or work, as the file declares; else refused.

Its metrics have the values that the file says they are there, and no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

FILE = """
version: 1
name: programs
hosts: {h1: {guests: 1}, h2: {guests: 2, platform: qemu, vcpus: 1}}
topology: {shape: line, switches: 1}
services:
  web: {kind: program, on: h2.g1, argv: [serve], ready: {port: 80}, simulated_as: {demand: 10 ms}}
  idle: {kind: program, on: h2.g2, argv: [serve], ready: {port: 81}, simulated_as: {demand: 10 ms}}
roles:
  clients:
    workload: program
    from: FROM
    to: TO
    argv: [bench]
    metrics:
      rate: {regex: '(?P<rate>.*)', unit: request/s, better: higher}
      slowest: {regex: '(?P<slowest>.*)', unit: ms, better: lower}
      each: {regex: '(?P<each>.*)', unit: ms, better: lower}
      took: {regex: '(?P<took>.*)', unit: s, better: lower}
    COSTMORE
timeline: [{id: ask, do: run, role: clients}STEPS]
repeat: 1
"""
METRICS = "{rate: answer_rate, slowest: response_time.max, each: response_time, took: program_time}"
ASKS = f"{{service: web, connections: 4, count: 100, metrics: {METRICS}}}"


def plan_of(
    cost: str | None = ASKS, come: str = "h1.g1", to: str = "h2.g1", more: str = "", steps: str = ""
) -> Plan:
    said = "" if cost is None else f"simulated_as: {cost}"
    text = FILE.replace("COST", said).replace("FROM", come).replace("TO", to).replace("MORE", more)
    experiment = load_text(text.replace("STEPS", steps))
    return plan_run(experiment, experiment.points()[0], 0)


def played(plan: Plan) -> tuple[Outcome, dict[str, np.ndarray], Kept]:
    """How it ended, and the values of each metric of the program."""
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    found: dict[str, Any] = {}
    for block in kept.blocks.get(("clients", "value/1"), []):
        for key in set(block["metric"]):
            found[key] = block["value"][block["metric"] == key]
    assert ("clients", "response/1") not in kept.blocks
    return outcome, found, kept


@pytest.mark.slow
def test_a_program_is_played_as_the_client_that_the_file_says_it_is() -> None:
    """Four clients in a closed loop at a server of one thread: each waits for the three before it."""
    outcome, found, _ = played(plan_of())
    assert outcome.status == "ok", outcome.reasons
    assert found["each"].size == 100
    assert np.median(found["each"]) == pytest.approx(40e6, rel=0.01)
    assert found["slowest"] == [found["each"].max()]
    assert found["rate"] == pytest.approx([100], rel=0.01)
    assert found["took"] == pytest.approx([1e9], rel=0.01)


@pytest.mark.slow
def test_it_ends_after_its_requests_at_a_rate_too() -> None:
    _, found, _ = played(plan_of(ASKS.replace("connections: 4", "rate: 50 request/s")))
    assert found["each"].size == 100
    assert found["each"] == pytest.approx(10e6, rel=0.02)
    assert found["took"] == pytest.approx([1.99e9], rel=0.01)


@pytest.mark.slow
def test_it_ends_after_its_duration_whatever_was_asked() -> None:
    _, found, _ = played(plan_of(ASKS.replace("count: 100", "duration: 500 ms")))
    assert found["each"].size == pytest.approx(53, abs=1)


@pytest.mark.slow
def test_it_asks_as_a_role_of_requests_would() -> None:
    """To the nanosecond, where nothing is drawn."""
    cost = ASKS.replace("count: 100", "duration: 500 ms")
    own = plan_of(cost).model_dump(mode="json", by_alias=True)
    own["roles"]["clients"] = {
        "workload": "request_response", "from": "h1.g1", "to": "h2.g1", "service": "web", "port": 80, "protocol": "http",
        "connections": 4, "duration_ns": 500_000_000,
    }  # fmt: skip
    kept = Kept()
    asked = Plan.model_validate(own)
    with Simulator().open(asked, Watcher()) as session:
        session.run(Trial("t0", asked.seed), kept)
    (rows,) = kept.blocks["clients", "response/1"]
    assert np.array_equal(rows["finished_ns"] - rows["intended_ns"], played(plan_of(cost))[1]["each"])


@pytest.mark.slow
def test_work_is_done_on_the_processors_of_its_guest() -> None:
    """A batch job of a second in a guest of one processor, beside a server whose clients want all of it: each has
    half.
    """
    alone = plan_of("{demand: 1 s, metrics: {took: program_time}}", come="h2.g1", to="h1.g1")
    assert played(alone)[1]["took"] == pytest.approx([1e9], rel=1e-6)
    values = alone.model_dump(mode="json", by_alias=True)
    values["roles"]["others"] = {
        "workload": "request_response", "from": "h1.g1", "to": "h2.g1", "service": "web", "port": 80, "protocol": "http",
        "connections": 1, "duration_ns": 3_000_000_000,
    }  # fmt: skip
    values["timeline"].append({"id": "load", "do": "start", "role": "others"})
    beside = played(Plan.model_validate(values))[1]["took"]
    assert beside == pytest.approx([2e9], rel=0.01)


def test_metrics_of_which_nothing_is_said_are_missing() -> None:
    _, found, kept = played(plan_of("{service: web, count: 10, metrics: {took: program_time}}"))
    assert set(found) == {"took"}
    said = [event.details["text"] for event in kept.events if event.what == "log.info"]
    missing = [text for text in said if "is missing" in text]
    assert [text.partition(" ")[0] for text in missing] == [
        f"roles.clients.metrics.{key}" for key in ("each", "rate", "slowest")
    ]
    assert "say what it is in 'simulated_as'" in missing[0]


@pytest.mark.slow
def test_what_is_asked_of_a_server_that_never_answers_is_missing_and_not_zero() -> None:
    """The program is stopped before any answer: no rate and no time of the answered."""
    stop = ", {id: lose, do: call, service: web, op: fail, after: ask.started}"
    outcome, found, _ = played(plan_of(ASKS.replace("count: 100", "duration: 100 ms"), steps=stop))
    assert outcome.status == "ok", outcome.reasons
    assert "rate" not in found
    assert "slowest" not in found
    assert "each" not in found
    assert "took" in found


def test_a_program_that_is_stopped_has_ended_then() -> None:
    steps = ", {id: end, do: stop, role: clients, after: ask.started + 300 ms}"
    outcome, found, _ = played(
        plan_of("{demand: 10 s, metrics: {took: program_time}}", come="h2.g1", to="h1.g1", steps=steps)
    )
    assert outcome.status == "ok", outcome.reasons
    assert found["took"] == pytest.approx([300e6], rel=0.01)


def test_a_program_that_takes_longer_than_it_may_fails_the_run() -> None:
    outcome, _, _ = played(plan_of(more="\n    timeout: 500 ms"))
    assert outcome.status == "failed"
    (reason,) = outcome.reasons
    assert reason == "roles.clients: it still ran after 0.5 s; give it a longer 'timeout', or less to do"


def test_a_program_of_which_nothing_is_said_is_refused_with_that_cure() -> None:
    (refusal,) = Simulator().check(plan_of(None))
    assert refusal.path == "roles.clients.workload"
    assert "runs no programs" in refusal.reason
    assert "simulated_as: {service: web, connections: 8, duration: 5 s}" in refusal.cure


def test_the_service_that_a_plan_names_is_in_the_guest_that_is_asked() -> None:
    values = plan_of().model_dump(mode="json", by_alias=True)
    for asked, reason in (("none", "no service 'none'"), ("idle", "is asked on h2.g2")):
        values["roles"]["clients"]["simulated_as"]["service"] = asked
        (refusal,) = Simulator().check(Plan.model_validate(values))
        assert refusal.path == "roles.clients.simulated_as.service"
        assert reason in refusal.reason


@pytest.mark.parametrize(
    ("cost", "place", "text"),
    [
        ("{connections: 4}", "simulated_as.connections", "no service is asked; write 'service'"),
        ("{metrics: {took: program_time}}", "simulated_as", "neither which service the program asks nor what it works"),
        ("{service: web, demand: 1 s}", "simulated_as.demand", "which works for it; remove it"),
        ("{service: web}", "simulated_as", "it never ends; write 'count'"),
        ("{service: wep, count: 1}", "simulated_as.service", "did you mean 'web'?"),
        ("{service: idle, count: 1}", "simulated_as.service", "'idle' is not on h2.g1"),
        ("{service: web, count: 1, think: 1 ms, rate: 1 request/s}", "simulated_as.think", "no client thinks"),
        ("{service: web, cuont: 1}", "simulated_as.cuont", "did you mean 'count'?"),
        ("{service: web, count: 1, metrics: {rate: rtt}}", "simulated_as.metrics.rate", "is not known of a program"),
        ("{service: web, count: 1, metrics: {rate: lost_requests}}", "simulated_as.metrics.rate", "is several numbers"),
        ("{service: web, count: 1, metrics: {slowest: response_time.p50}}", "simulated_as.metrics.slowest", "'median'"),
        ("{service: web, count: 1, metrics: {speed: answer_rate}}", "simulated_as", "not a metric of this role"),
        ("{service: web, count: 1, metrics: {slowest: answer_rate}}", "simulated_as", "is in ms, and answer_rate in 1/s"),
        ("{demand: 1 s, metrics: {rate: answer_rate}}", "simulated_as.metrics", "asks no service has no answer_rate"),
    ],
)  # fmt: skip
def test_a_cost_that_is_wrong_is_told_with_its_place(cost: str, place: str, text: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        plan_of(cost)
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"roles.clients.{place}"
    assert text in f"{mistake.what}; {mistake.cure}"
