"""Servers that fail and serve again in virtual time: what comes of each request is computed by hand.

A way takes 2 ms: two links of 1 ms, and below 10 us of serialisation. Requests are due every 10 ms from 0, an answer
takes 5 ms, and nothing happens within 1 ms of an instant at which another count would be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

MS = 1_000_000
ANSWERED, LOST, BROKEN, BAD_GATEWAY = 0, 2, 3, 6
FILE = """
version: 1
name: operations
hosts: [h1, h2, h3]
host: {guests: 1}
topology: {shape: star}
link: {rate: 1 Gbit/s, propagation: 1 ms}
services:
  app: {SERVICE}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, rate: 100 request/s, ROLE}
timeline:
  - {id: ask, do: run, role: clients}
CALLS
repeat: 1
"""
OURS = "kind: demand_server, on: h2.g1, demand: 1 ms"
PROGRAM = "kind: program, on: h2.g1, argv: [serve], ready: {port: 80}, simulated_as: {demand: 1 ms}"
SEVERAL = "kind: demand_server, on: [h2.g1, h3.g1], demand: 1 ms"
DOWN = """
  - {id: lose, do: call, service: app, op: fail, after: ask.started + 1005 ms}
  - {id: back, do: call, service: app, op: heal, after: lose.done + 1000 ms}
"""
ROLE = "connections: 64, duration: 3 s, timeout: 500 ms"
FEW = ROLE.replace("64", "32")  # of which each has a handshake with every server, all at once


def played(service: str, role: str, calls: str) -> tuple[Outcome, dict[str, Any], dict[str, int]]:
    """How it went; rows in the order in which requests were due, from the first of them on; the client's counters."""
    experiment = load_text(FILE.replace("SERVICE", service).replace("ROLE", role).replace("CALLS", calls))
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert Simulator().check(plan) == []
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    blocks = kept.blocks["clients", "response/1"]
    rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    (block,) = kept.blocks["counters", "counter/1"]
    named = zip(block["entity"], block["counter"], block["value"], strict=True)
    counters = {str(name): int(value) for entity, name, value in named if entity == "clients/client"}
    return outcome, {column: values[order] for column, values in rows.items()}, counters


def went(service: str, role: str, calls: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Rows and counters of a pass without failure, in which every request ended once."""
    outcome, rows, counters = played(service, role, calls)
    assert outcome.status == "ok", outcome.reasons
    ended = [value for name, value in counters.items() if name.endswith("_requests")]
    assert counters["requests"] == sum(ended) == len(rows["error"])
    return rows, counters


def spans(errors: np.ndarray) -> list[tuple[int, int]]:
    """Runs of equal endings: which, and how many."""
    edges = np.flatnonzero(np.diff(errors)) + 1
    return [(int(part[0]), len(part)) for part in np.split(errors, edges)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "role"),
    [
        (OURS, ROLE),
        (PROGRAM, f"{ROLE}, protocol: http"),
        (f"{OURS}, threads: 4", f"{ROLE}, arrivals: constant"),
    ],
)
def test_requests_due_while_a_server_is_down_are_refused_at_once(service: str, role: str) -> None:
    """The one due after 1000 ms has its answer at 1005 ms; the SYN of the one due after 2000 ms comes before the
    server.
    """
    rows, counters = went(service, role, DOWN)
    assert spans(rows["error"]) == [(ANSWERED, 101), (BROKEN, 100), (ANSWERED, 99)]
    down = rows["error"] == BROKEN
    took = (rows["finished_ns"] - rows["intended_ns"])[down]
    assert np.all((took > 4 * MS) & (took < 4.1 * MS)), "a round trip: the first packet, and the reset"
    assert set(rows["sent_ns"][down].tolist()) == {-1}, "none of them has left"
    assert set(rows["served_by"][down].tolist()) == {-1}
    assert counters["retries"] == 0


@pytest.mark.slow
def test_requests_are_asked_again_until_the_server_is_back() -> None:
    """Tries follow after 300 ms, three at most; one that begins after 2003 ms or later finds a server."""
    rows, counters = went(
        OURS, "connections: 128, duration: 3 s, timeout: 2 s, retries: 3, retry_after: 300 ms", DOWN
    )
    due = np.arange(1010, 2010, 10)
    tries = np.ceil((2003 - due) / 300).astype(int)
    assert spans(rows["error"]) == [(ANSWERED, 101), (BROKEN, int((tries > 3).sum())), (ANSWERED, 189)]
    assert counters["retries"] == np.minimum(tries, 3).sum()
    answered = rows["error"] == ANSWERED
    took = (rows["finished_ns"] - rows["intended_ns"])[101:201][answered[101:201]]
    assert np.round(took / MS / 300).tolist() == tries[tries <= 3].tolist()


@pytest.mark.slow
def test_over_udp_they_are_lost_at_their_time_out() -> None:
    rows, _ = went(OURS, f"{ROLE}, protocol: udp", DOWN)
    assert spans(rows["error"]) == [(ANSWERED, 101), (LOST, 100), (ANSWERED, 99)]
    down = rows["error"] == LOST
    assert set((rows["finished_ns"] - rows["intended_ns"])[down].tolist()) == {500 * MS}


SLOW = OURS.replace("demand: 1 ms", "demand: 50 ms")
FAIL = "\n  - {id: lose, do: call, service: app, op: fail, after: ask.started + 505 ms}\n"


def test_what_waits_and_what_is_under_way_breaks_when_the_connections_end() -> None:
    """The first request leaves after the handshake, at 4 ms, and its answer at 56 ms: by 505 ms nine have left."""
    rows, _ = went(SLOW, ROLE.replace("3 s", "500 ms"), FAIL)
    assert spans(rows["error"]) == [(ANSWERED, 9), (BROKEN, 41)]
    begun = rows["intended_ns"][0]
    known = rows["finished_ns"][9:] - begun - 505 * MS
    assert np.all((known > 2 * MS) & (known < 2.1 * MS)), "the end of the stream takes one way"


@pytest.mark.slow
def test_a_restart_empties_the_queue_and_serves_on() -> None:
    """Of those due by 500 ms nine are answered; then the server has 10 ms for each, where it takes 5 ms."""
    slow = OURS.replace("demand: 1 ms", "demand: 50 ms, threads: 1")
    rows, _ = went(
        slow, ROLE.replace("3 s", "1 s").replace("500 ms", "9 s"), FAIL.replace("op: fail", "op: restart")
    )
    assert spans(rows["error"]) == [(ANSWERED, 9), (BROKEN, 42), (ANSWERED, 49)]
    took = rows["finished_ns"][51:] - rows["intended_ns"][51:]
    assert took[0] == pytest.approx(56 * MS, rel=0.05), "nothing waits before the first but its handshake"
    assert np.diff(rows["finished_ns"][51:]) == pytest.approx(50 * MS, rel=0.001)


@pytest.mark.slow
def test_what_a_server_had_written_still_arrives_after_it_failed() -> None:
    """It writes an answer of 1 MB after 7 ms and fails after 15 ms, when the window has let three parts of it go."""
    large = OURS.replace("demand: 1 ms", "response: 1 MB, demand: 1 ms")
    rows, _ = went(large, "connections: 1, duration: 10 ms, timeout: 5 s", FAIL.replace("505 ms", "15 ms"))
    assert rows["error"].tolist() == [ANSWERED]
    took = rows["finished_ns"] - rows["intended_ns"]
    assert 20 * MS < took[0] < 100 * MS


@pytest.mark.slow
@pytest.mark.parametrize("op", ["fail", "restart"])
def test_of_several_servers_the_named_one_fails_alone(op: str) -> None:
    calls = f"\n  - {{id: lose, do: call, service: app, op: {op}, args: {{guest: h3.g1}}, after: ask.started + 1005 ms}}\n"
    rows, _ = went(SEVERAL, f"{ROLE}, server: first", calls)
    assert not rows["error"].any()
    rows, _ = went(SEVERAL, f"{ROLE}, server: h3.g1", calls)
    gone = [(ANSWERED, 101), (BROKEN, 199)] if op == "fail" else [(ANSWERED, 300)]
    assert spans(rows["error"]) == gone


CLUSTER = f"{SEVERAL}, active: h3.g1"


@pytest.mark.slow
def test_where_the_active_server_is_down_what_enters_at_the_passive_one_is_a_bad_gateway() -> None:
    """One way more there and back, and the reset between the servers."""
    calls = DOWN.replace("op: fail", "op: fail, args: {guest: h3.g1}").replace("1005 ms", "1009 ms")
    rows, counters = went(CLUSTER, f"{FEW}, passive_share: 100 %", calls)
    # The one due after 1000 ms has its answer at the passive server after 1007 ms, which has the next connection
    # refused.
    assert spans(rows["error"]) == [(ANSWERED, 101), (BAD_GATEWAY, 100), (ANSWERED, 99)]
    assert counters["bad_gateway_requests"] == 100
    took = (rows["finished_ns"] - rows["intended_ns"])[rows["error"] == BAD_GATEWAY]
    assert np.all(took < 8.1 * MS), "none waits for a time-out"
    assert set(rows["entry"].tolist()) == {0}
    assert set(rows["served_by"][rows["error"] == ANSWERED].tolist()) == {1}


@pytest.mark.slow
def test_where_a_passive_server_is_down_requests_that_enter_at_the_active_one_go_on() -> None:
    calls = DOWN.replace("op: fail", "op: fail, args: {guest: h2.g1}")
    rows, _ = went(CLUSTER, f"{FEW}, passive_share: 50 %", calls)
    errors, entry = rows["error"], rows["entry"]
    assert not errors[entry == 1].any()
    down = np.zeros(300, bool)
    down[101:201] = True
    assert set(errors[down & (entry == 0)].tolist()) == {BROKEN}
    # Its answer comes after 9 ms: of the one due after 1000 ms it was not back when the server failed.
    assert not errors[~down & (entry == 0) & (np.arange(300) != 100)].any()
    assert (errors != ANSWERED).sum() in {(down & (entry == 0)).sum(), (down & (entry == 0)).sum() + 1}


@pytest.mark.slow
def test_work_of_a_failed_server_leaves_its_processor_to_others() -> None:
    """One processor and two servers, each asked once for 400 ms of work: the other one has it alone after 200 ms."""
    text = (
        FILE.replace("  app: {SERVICE}", "  app: {kind: demand_server, on: h2.g1, demand: 400 ms}\n"
                     "  other: {kind: demand_server, on: h2.g1, demand: 400 ms, ready: {port: 7001}}")
        .replace("host: {guests: 1}", "host: {guests: 1, vcpus: 1, platform: qemu}")
        .replace("  clients: {", "  others: {workload: request_response, from: h3.g1, to: other, rate: 1 request/s, "
                 "connections: 1, duration: 1 s, timeout: 5 s}\n  clients: {")
        .replace("rate: 100 request/s, ROLE", "rate: 1 request/s, connections: 1, duration: 1 s, timeout: 5 s")
        .replace("CALLS", "  - {id: too, do: run, role: others}\n"
                 "  - {id: lose, do: call, service: app, op: fail, after: ask.started + 206 ms}")
    )  # fmt: skip
    experiment = load_text(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    (rows,) = kept.blocks["others", "response/1"]
    # Begun at 6 ms; half of it until 206 ms; the other 300 ms alone; and one way back.
    assert (rows["finished_ns"] - rows["intended_ns"]).tolist() == pytest.approx([508 * MS], rel=0.002)


WAIT = """
  - {id: whole, do: wait, until: {call: app.ready, every: 70 ms}, after: lose.done, timeout: TIMEOUT,
     on_timeout: censor}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("timeout", "event", "after"), [("5 s", "done", 1050 * MS), ("500 ms", "timeout", 500 * MS)]
)
def test_a_wait_for_a_service_ends_at_the_first_look_that_finds_it_ready(
    timeout: str, event: str, after: int
) -> None:
    """Healed 1000 ms after the wait began, of which 14 looks of 70 ms find nothing."""
    outcome, _, _ = played(OURS, ROLE, DOWN + WAIT.replace("TIMEOUT", timeout))
    assert outcome.status == "ok"
    marks = {name: mark.t_ns for name, mark in outcome.marks.items()}
    assert marks[f"whole.{event}"] - marks["lose.done"] == after
    assert outcome.censored == (("whole",) if event == "timeout" else ())


@pytest.mark.slow
def test_a_service_that_no_role_asks_fails_and_is_waited_for_too() -> None:
    calls = (
        "\n  - {id: lose, do: call, service: spare, op: fail, after: ask.started + 1005 ms}"
        + WAIT.replace("app.ready", "spare.ready").replace("TIMEOUT", "300 ms")
    )
    spare = f"{OURS}}}\n  spare: {{{OURS.replace('h2', 'h3')}"
    outcome, rows, _ = played(spare, ROLE, calls)
    assert not rows["error"].any()
    assert outcome.censored == ("whole",)


@pytest.mark.slow
def test_closed_loops_go_on_after_their_connections_rested() -> None:
    """Two clients: each try of 4 ms is followed by 20 ms of rest while the server is down, and then they are served."""
    text = FILE.replace("rate: 100 request/s, ", "").replace("SERVICE", OURS).replace("CALLS", DOWN)
    experiment = load_text(text.replace("ROLE", "connections: 2, duration: 3 s, timeout: 500 ms"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks["clients", "response/1"]
    errors = np.concatenate([block["error"] for block in blocks])
    due = np.concatenate([block["intended_ns"] for block in blocks])
    broken = np.sort(due[errors == BROKEN])
    assert set(errors.tolist()) == {ANSWERED, BROKEN}
    assert len(broken) == pytest.approx(2 * 1000 / 24, abs=4)
    assert (due[errors == ANSWERED] > broken[-1]).sum() > 100
