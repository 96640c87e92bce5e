"""Clients of a store in several guests begin together, and each node and proxy has series of what it does. Disks have
some where nodes are machines: a folder in memory has no counters.
"""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds
from test_stores import RING, played

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

MS = 1_000_000
NODES = ("n0", "n1", "n2")
CLIENTS = ("c0", "c1", "c2")
ROLE = (
    "{workload: objects, from: h1.%s, to: depot, operations: create, duration: 600 ms, rate: 300 request/s}"
)
CLIENT_GUESTS = ", ".join(f"{name}: {{}}" for name in CLIENTS)
NODE_GUESTS = ", ".join(f"{name}: {{disk: {{size: 64 MiB}}}}" for name in NODES)
ON = ", ".join(f"h1.{name}" for name in NODES)
ROLES = "\n".join(f"  {name}: {ROLE % name}" for name in CLIENTS)
RUNS = "\n".join(f"  - {{id: {name}, do: run, role: {name}}}" for name in CLIENTS)
FILE = f"""
version: 1
name: clients
hosts:
  h1: {{guests: {{{CLIENT_GUESTS}, proxy: {{}}, {NODE_GUESTS}}}}}
services:
  depot: {{kind: store, on: [{ON}], copies: 3, {RING}, ack: disk, written_by: proxy, proxies: h1.proxy}}
roles:
{ROLES}
timeline:
{RUNS}
collect: {{series: {{guest.cpu: 50 ms, vnics: 50 ms}}}}
"""


def planned() -> Plan:
    experiment = load_text(FILE)
    return plan_run(experiment, experiment.points()[0], 0)


def begun_ns(sink: Any) -> list[int]:
    return [int(sink.columns(name, "operation/1")["sent_ns"].min()) for name in CLIENTS]


def test_clients_in_several_guests_begin_together() -> None:
    """A machine that stands still for longer is given two more trials."""
    spreads: list[int] = []
    while len(spreads) < 3 and (not spreads or spreads[-1] >= 20 * MS):
        outcome, sink = played(planned())
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        begun = begun_ns(sink)
        spreads.append(max(begun) - min(begun))
    assert spreads[-1] < 20 * MS, spreads


def test_each_node_and_proxy_has_series_of_its_processors_and_its_network() -> None:
    outcome, sink = played(planned())
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    sampled = {}
    for _, schema, columns in sink.blocks:
        if schema == "series/1":
            for entity, name, value in zip(
                columns["entity"], columns["metric"], columns["value"], strict=True
            ):
                key = str(entity), str(name)
                sampled[key] = max(sampled.get(key, 0.0), float(value))
    for name in (*NODES, "proxy"):
        assert sampled[f"guests.h1.{name}", "cpu"] > 0
        assert sampled[f"guests.h1.{name}.vnics.eth0", "received_bytes"] > 0
