"""Guests of no pool on a host with pools and processors of its own: in the simulator they share what the pools
leave.
"""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.pools import Shared, sharing_processors

FILE = """
version: 1
name: outside
hosts:
  h1: {cpus: CPUS, pools: {cores: {cpus: 2}}, guests: {a: {}, b: {pool: none}, client: {pool: none}}}
topology: none
services:
  app: {kind: demand_server, on: SERVER, demand: 10 ms}
roles: {one: {workload: request_response, from: h1.client, to: app, connections: 2, duration: 1 s}}
"""


def plan_of(cpus: int, server: str) -> Plan:
    experiment = load_text(FILE.replace("CPUS", str(cpus)).replace("SERVER", server))
    return plan_run(experiment, experiment.points()[0], 0)


def test_they_share_what_the_pools_of_their_host_leave() -> None:
    assert sharing_processors(plan_of(5, "h1.b")) == [
        Shared("pools.h1.cores", "h1", 2, ("h1.a",)),
        Shared("hosts.h1", "h1", 3, ("h1.b", "h1.client")),
    ]


@pytest.mark.slow
def test_a_server_in_one_is_refused_where_the_pools_leave_nothing() -> None:
    assert [refusal.path for refusal in Simulator().check(plan_of(2, "h1.b"))] == ["hosts.h1.cpus"]
    assert Simulator().check(plan_of(2, "h1.a")) == []
    assert Simulator().check(plan_of(3, "h1.b")) == []
