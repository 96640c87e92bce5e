"""A cluster on both arms: the same requests enter at the passive server, the active one serves all, and the way is
felt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.parity.responses import ARMS, played, rows_of

MS = 1_000_000
FILE = """
version: 1
name: cluster
hosts: [h1, h2, h3]
host: {guests: 1}
topology: {shape: star}
link: {rate: 100 Mbit/s, propagation: 5 ms}
services:
  app: {kind: demand_server, on: [h2.g1, h3.g1], active: h3.g1, demand: 1 ms, threads: 8}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, timeout: 5 s, ROLE}
timeline:
  - {id: ask, do: run, role: clients}
repeat: 1
"""


def rows(arm: str, role: str) -> dict[str, Any]:
    """Of the requests of a role."""
    return rows_of(played(arm, FILE.replace("ROLE", role)))


def test_both_arms_play_the_same_entries_and_the_active_server_serves_all() -> None:
    role = "passive_share: 40 %, rate: 100 request/s, connections: 64, duration: 3 s"
    found = {arm: rows(arm, role) for arm in ARMS}
    simulated, measured = found["simulator"], found["testbed"]
    assert len(simulated["entry"]) == 300
    assert simulated["entry"].tolist() == measured["entry"].tolist()
    entered = np.bincount(simulated["entry"])
    assert entered[0] == pytest.approx(120, abs=30), "the passive one is the first of the service"
    for each in found.values():
        assert not each["error"].any()
        assert set(each["served_by"].tolist()) == {1}
    # Two links of 5 ms there and two back: 20 ms to the active server, and 20 ms more through the passive one.
    for arm, slack in (("simulator", 0.02), ("testbed", 0.2)):
        each = found[arm]
        took = each["finished_ns"] - each["intended_ns"]
        direct, forwarded = (np.median(took[each["entry"] == entry]) for entry in (1, 0))
        assert forwarded - direct == pytest.approx(20 * MS, rel=slack), arm


@pytest.mark.parametrize("arm", ARMS)
def test_the_active_server_is_asked_over_udp_too(arm: str) -> None:
    found = rows(arm, "protocol: udp, rate: 100 request/s, connections: 64, duration: 1 s")
    assert len(found["entry"]) == 100
    assert not found["error"].any()
    assert set(found["entry"].tolist()) == set(found["served_by"].tolist()) == {1}


@pytest.mark.parametrize("arm", ARMS)
def test_clients_of_a_closed_loop_draw_their_own_entries(arm: str) -> None:
    found = rows(arm, "passive_share: 50 %, connections: 1, duration: 3 s")
    alike = rows("simulator", "passive_share: 50 %, connections: 1, duration: 1 s")
    count = min(len(found["entry"]), len(alike["entry"]))
    assert count >= 15
    assert found["entry"][:count].tolist() == alike["entry"][:count].tolist()
    assert not found["error"].any()
