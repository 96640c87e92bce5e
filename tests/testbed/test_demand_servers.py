"""virtlab's own server as a service of a real world: it is asked, fails, heals, and says in one line what is in its
way.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
MS = 1_000_000
STOP_S = 0.1
APP = {"kind": "demand_server", "on": ["b"], "demand_ns": 1 * MS, "ready": {"port": 7000}}


def planned(services: dict[str, Any], *calls: dict[str, Any], **more: Any) -> Any:
    role = {
        "workload": "request_response", "from": "a", "to": "b", "service": "app", "port": 7000,
        "rate_per_s": 100, "connections": 16, "duration_ns": 2000 * MS, "timeout_ns": 500 * MS, **more,
    }  # fmt: skip
    return worlds.plan(
        {**worlds.bridged(), "services": services},
        roles={"clients": role},
        timeline=[{"id": "ask", "do": "run", "role": "clients"}, *calls],
        limits={"run_ns": 30_000 * MS},
        collect={"packets": ["clients"]},
    )


def played(plan: Any) -> tuple[Outcome, np.ndarray]:
    """How the run went, and how each of its requests ended, in the order in which they were due."""
    outcome, sink = run(plan)
    return outcome, endings(sink, "clients")


def run(plan: Any) -> tuple[Outcome, worlds.MemorySink]:
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink


def endings(sink: worlds.MemorySink, role: str) -> np.ndarray:
    rows = [columns for stream, kind, columns in sink.blocks if (stream, kind) == (role, "response/1")]
    due = np.concatenate([each["intended_ns"] for each in rows])
    return np.concatenate([each["error"] for each in rows])[np.argsort(due, kind="stable")]


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_role_loads_it_and_every_request_is_answered(protocol: str) -> None:
    outcome, errors = played(planned({"app": APP}, protocol=protocol))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert len(errors) == 200
    assert not errors.any()


def test_its_bounded_backlog_refuses_what_comes_beyond() -> None:
    slow = {**APP, "demand_ns": 50 * MS, "backlog": 1}
    outcome, errors = played(planned({"app": slow}, rate_per_s=200))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert (errors == 1).mean() > 0.5
    assert (errors == 0).sum() > 10


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_the_timeline_ends_it_and_starts_it_again(protocol: str) -> None:
    lose = {
        "id": "lose", "do": "call", "service": "app", "op": "fail",
        "after": {"event": "ask.started", "plus_ns": 500 * MS},
    }  # fmt: skip
    heal = {
        "id": "heal", "do": "call", "service": "app", "op": "heal",
        "after": {"event": "lose.done", "plus_ns": 300 * MS}, "timeout_ns": 10_000 * MS, "on_timeout": "fail",
    }  # fmt: skip
    outcome, errors = played(
        planned({"app": APP}, lose, heal, duration_ns=5000 * MS, protocol=protocol, connections=256)
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert not errors[:30].any()
    assert set(errors[60:70].tolist()) <= {2, 3}, "nothing serves then"
    assert not errors[-50:].any(), "it serves again"


SEVERAL = """
version: 1
name: several
hosts: 1
host: {guests: 3}
topology: none
services:
  app: {kind: demand_server, on: [h1.g2, h1.g3], demand: 1 ms}
roles:
  first: {workload: request_response, from: h1.g1, to: app, server: first, ROLE}
  named: {workload: request_response, from: h1.g1, to: app, server: h1.g3, ROLE}
timeline:
  - {id: one, do: run, role: first}
  - {id: two, do: run, role: named}
  - {id: lose, do: call, service: app, op: fail, args: {guest: h1.g3}, after: two.started + 500 ms}
collect: {series: {}, telemetry: off, counters: []}
repeat: 1
"""


def test_of_several_servers_one_fails_alone() -> None:
    role = "rate: 50 request/s, connections: 8, duration: 2 s, timeout: 500 ms"
    experiment = load_text(SEVERAL.replace("ROLE", role))
    outcome, sink = run(plan_run(experiment, experiment.points()[0], 0))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    first, named = endings(sink, "first"), endings(sink, "named")
    assert len(first) >= 90
    assert not first.any(), "its server goes on"
    assert not named[:15].any()
    assert set(named[50:].tolist()) <= {2, 3}, "nothing serves then"


def test_a_port_that_another_program_has_is_one_line() -> None:
    other = {
        "kind": "program", "on": ["b"], "argv": ["/usr/bin/python3", "-u", "-m", "http.server", "7000"],
        "ready": {"line": "Serving HTTP"},
    }  # fmt: skip
    plan = planned({"other": other, "app": {**APP, "needs": ["other"]}})
    with pytest.raises(GuestError) as caught, Testbed().open(plan, worlds.Patient()):
        pass
    assert "\n" not in str(caught.value)
    assert "cannot bind TCP" in str(caught.value)


def test_one_that_is_stopped_for_a_while_taints_the_run() -> None:
    """Answers that waited for it would else be told as the guest's."""
    plan = planned({"app": APP})
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)

        def stop() -> None:
            server = processes.process_of(session, b"exe\0serve\0")
            os.kill(server, signal.SIGSTOP)
            time.sleep(STOP_S)
            os.kill(server, signal.SIGCONT)

        outcome = session.run(Trial("t0", 1), worlds.ActingSink(stop, at="ask.started"))
    assert outcome.status == "tainted", outcome
    told = [reason for reason in outcome.reasons if "its process was stopped for" in reason]
    assert len(told) == 1, outcome.reasons
    assert told[0].startswith("processes of services: starved: ")
