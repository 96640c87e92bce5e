"""A real cluster: its active server fails, is busy, or stands still, and no request at its passive one hangs."""

from __future__ import annotations

import numpy as np
import pytest
import testbed_world as worlds
from testbed_requests import rows_of

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
ANSWERED, REFUSED, LOST, BROKEN, OPEN, BAD_GATEWAY = 0, 1, 2, 3, 4, 6
FILE = """
version: 1
name: cluster
hosts: 1
host: {guests: 3}
topology: none
services:
  app: {kind: demand_server, on: [h1.g2, h1.g3], active: h1.g2, SERVER}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, passive_share: 100 %, timeout: 5 s, ROLE}
timeline:
  - {id: ask, do: run, role: clients}
MORE
collect: {series: {}, telemetry: off, counters: []}
repeat: 1
"""


def played(server: str, role: str, more: str = "") -> dict[str, np.ndarray]:
    return rows_of(FILE.replace("SERVER", server).replace("ROLE", role).replace("MORE", more), "clients")


def test_where_the_active_server_has_failed_requests_are_bad_gateways_until_it_is_healed() -> None:
    more = """
  - {id: lose, do: call, service: app, op: fail, args: {guest: h1.g2}, after: ask.started + 1 s}
  - {id: heal, do: call, service: app, op: heal, after: lose.done + 1 s}
"""
    rows = played("demand: 1 ms", "rate: 50 request/s, connections: 16, duration: 5 s", more)
    errors, took = rows["error"], rows["finished_ns"] - rows["intended_ns"]
    assert len(errors) == 250
    assert not errors[:40].any()
    assert set(errors[60:90].tolist()) == {BAD_GATEWAY}
    assert set(errors.tolist()) == {ANSWERED, BAD_GATEWAY}, "nothing else came of a request"
    assert not errors[-50:].any(), "a new connection serves again"
    assert set(rows["entry"].tolist()) == {1}
    assert set(rows["served_by"][errors == ANSWERED].tolist()) == {0}
    assert set(rows["served_by"][errors == BAD_GATEWAY].tolist()) == {-1}
    assert np.median(took[errors == BAD_GATEWAY]) < 100_000_000, "none waits for a time-out"


def test_what_enters_beyond_its_bound_of_forwards_is_refused() -> None:
    """The first is done after 100 ms: of 12 clients that ask at once four are forwarded, and 8 refused."""
    role = "connections: 12, think: 10 s, duration: 1 s"
    errors = played("demand: 100 ms, forwards: 4", role)["error"]
    assert sorted(errors.tolist()) == [ANSWERED] * 4 + [REFUSED] * 8
    waited = played("demand: 20 ms, forwards: 4, full: wait", role)["error"]
    assert waited.tolist() == [ANSWERED] * 12


def test_the_active_server_refuses_for_the_passive_one() -> None:
    """One is served and one waits: of six at once four are refused."""
    role = "connections: 6, think: 10 s, duration: 1 s"
    errors = played("demand: 100 ms, backlog: 1", role)["error"]
    assert sorted(errors.tolist()) == [ANSWERED] * 2 + [REFUSED] * 4


def test_an_active_server_that_stands_still_is_waited_for_as_long_as_the_file_says() -> None:
    role = "connections: 2, think: 10 s, duration: 1 s"
    rows = played("demand: 1 ms, pause: 4 s, forward_timeout: 500 ms", role)
    assert rows["error"].tolist() == [BAD_GATEWAY] * 2
    took = rows["finished_ns"] - rows["intended_ns"]
    assert np.all((took > 490_000_000) & (took < 2_000_000_000))
