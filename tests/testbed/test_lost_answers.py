"""Answers of nodes that a port drops: the client asks again after a time-out, on both arms, and has its answer then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import testbed_world as worlds
from test_stores import counted as counters
from test_stores import ended, held, played, simulated

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Plan
from virtlab.planner import plan_run

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

# Three answers to each of eight questions come together at the client's port, which holds two frames.
FILE = """
version: 1
name: lost-answers
hosts:
  h1: {guests: {client: {}}}
  h2: {guests: {n0: {}}}
  h3: {guests: {n1: {}}}
  h4: {guests: {n2: {}}}
topology: {shape: star, switches: 1}
link: {rate: 10 Mbit/s, realise: soft_switch, queue: {kind: fifo, limit: 2 packets}}
services:
  depot:
    {kind: store, on: [h2.n0, h3.n1, h4.n2], copies: 3, lookup: multicast, ack: memory, cache: 64 MiB,
     question: 20 ms, timeout: 2 s}
roles:
  fill:
    {workload: objects, from: h1.client, to: depot, folder: same, operations: create, count: 20, threads: 1,
     size: 100 B}
  load: {workload: objects, from: h1.client, to: depot, folder: same, operations: stat, count: 400, threads: 8}
timeline:
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}
"""

Played = Callable[[Plan], tuple[Outcome, worlds.MemorySink]]


@pytest.mark.parametrize("play", [simulated, played], ids=["simulator", "testbed"])
def test_a_lost_answer_ends_in_a_time_out_with_a_second_question(play: Played) -> None:
    experiment = load_text(FILE)
    outcome, sink = play(plan_run(experiment, experiment.points()[0], 0))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "load") == {("stat", "done"): 400}
    asked = sink.columns("load", "operation/1")
    took_ns = asked["finished_ns"] - asked["sent_ns"]
    again = took_ns >= 20_000_000
    assert 0 < again.sum() < 400, "a question is asked again once its time is over"
    own = counters(sink, "load")
    assert held(own)[:2] == (0, 0)
    assert own["lookup_messages"] > 4 * 400, "one question each, and the answers of three nodes"
