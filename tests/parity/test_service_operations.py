"""A service that fails and is healed, on both arms: clients count the same of requests before, while it is down, and
after.

Each part has a role of its own that begins once the operation before is done, so no count depends on how long that
took.
"""

from __future__ import annotations

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run

ARMS = ("simulator", "testbed")
COUNTED = ("answered", "refused", "lost", "broken", "bad_gateway", "open")
FILE = """
version: 1
name: operations
hosts: [h1, h2, h3]
host: {guests: 1}
topology: {shape: star}
link: {rate: 1 Gbit/s, propagation: 1 ms}
services:
  app: {kind: demand_server, SERVICE}
roles:
  before: {ROLE}
  down: {ROLE, RETRIES}
  after: {ROLE}
timeline:
  - {id: first, do: run, role: before}
  - {id: lose, do: call, service: app, op: fail, ARGS after: first.done}
  - {id: second, do: run, role: down, after: lose.done}
  - {id: back, do: call, service: app, op: heal, after: second.done}
  - {id: whole, do: wait, until: {call: app.ready, every: 50 ms}, after: back.done, timeout: 60 s, on_timeout: fail}
  - {id: third, do: run, role: after, after: whole.done}
repeat: 1
"""
ROLE = "workload: request_response, from: h1.g1, to: app, rate: 20 request/s, connections: 64, duration: 1 s, timeout: 10 s"


def counted(arm: str, text: str) -> dict[str, dict[str, int]]:
    """Of each role, how many requests ended how, and tries beyond the first."""
    experiment = load_text(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    kept = Kept()
    with backend_of(arm).open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status in PLAYED, outcome.reasons
    found: dict[str, dict[str, int]] = {}
    for (_, schema), blocks in kept.blocks.items():
        for block in blocks if schema == "counter/1" else ():
            for entity, name, value in zip(block["entity"], block["counter"], block["value"], strict=True):
                role, _, side = str(entity).partition("/")
                if side == "client":
                    found.setdefault(role, {})[str(name)] = int(value)
    for counters in found.values():
        assert counters["requests"] == sum(counters[f"{each}_requests"] for each in COUNTED)
    return {
        role: {
            name: counters[name]
            for name in ("retries", *(f"{each}_requests" for each in COUNTED))
            if counters[name]
        }
        for role, counters in found.items()
    }


def text(service: str, *, role: str = "", retries: str = "", args: str = "") -> str:
    words = {"SERVICE": service, "ROLE": f"{ROLE}{role}", "ARGS": args, ", RETRIES": retries}
    written = FILE
    for word, meant in reversed(words.items()):
        written = written.replace(word, meant)
    return written


ONE = "on: h2.g1, demand: 1 ms"
SERVED = {"answered_requests": 20}
CASES = {
    "tcp": (text(ONE), {"broken_requests": 20}),
    "asked again": (
        text(ONE, retries=", retries: 2, retry_after: 100 ms"),
        {"broken_requests": 20, "retries": 40},
    ),
    "udp": (
        text(ONE, role=", protocol: udp").replace("timeout: 10 s", "timeout: 1 s"),
        {"lost_requests": 20},
    ),
    "active": (
        text(
            "on: [h2.g1, h3.g1], active: h2.g1, demand: 1 ms",
            role=", passive_share: 100 %",
            args="args: {guest: h2.g1},",
        ),
        {"bad_gateway_requests": 20},
    ),
}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("case", CASES)
def test_clients_count_the_same_of_a_service_that_fails(arm: str, case: str) -> None:
    written, down = CASES[case]
    assert counted(arm, written) == {"before": SERVED, "down": down, "after": SERVED}


HELD = """
version: 1
name: held
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
services: {app: {kind: demand_server, on: h2.g1, demand: 60 s}}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, rate: 10 request/s, connections: 8,
    duration: 500 ms, timeout: 90 s}
timeline:
  - {id: ask, do: run, role: clients}
  - {id: lose, do: call, service: app, op: OP, after: ask.started + 2 s}
repeat: 1
"""


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("op", ["fail", "restart"])
def test_requests_that_a_server_has_break_with_it(arm: str, op: str) -> None:
    """One is under way and four wait; without the operation the first answer would come after a minute."""
    assert counted(arm, HELD.replace("OP", op)) == {"clients": {"broken_requests": 5}}
