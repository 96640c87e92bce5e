"""When the first octets of an answer of the reference store come: long before the last, where a link takes its time."""

from __future__ import annotations

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.catalogue.workloads.objects import ENDINGS, OPERATIONS
from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

FILE = """
version: 1
name: octets
hosts:
  h1: {{guests: {{client: {{}}}}}}
  h2: {{guests: {{n1: {{}}, n2: {{}}, p: {{}}}}}}
topology: {{shape: star, switches: 1}}
link: {{rate: 40 Mbit/s, realise: shaping}}
services:
  depot: {{kind: store, on: [h2.n1, h2.n2], copies: 2, {lookup}, ack: memory, cache: 64 MiB}}
roles:
  fill: {{workload: objects, from: h1.client, to: depot, folder: f, operations: create, size: 500 kB, count: 5}}
  load: {{workload: objects, from: h1.client, to: depot, folder: f, operations: {{read: 1, stat: 1}}, count: 20}}
timeline:
  - {{id: fill, do: run, role: fill}}
  - {{id: load, do: run, role: load, after: fill.finished}}
"""


@pytest.mark.parametrize(
    "lookup",
    ["lookup: elastic_hash", "lookup: multicast", "lookup: elastic_hash, written_by: proxy, proxies: [h2.p]"],
)
def test_the_first_octets_of_a_read_come_long_before_the_last(lookup: str) -> None:
    """500 kB take 0.1 s on the link, a first frame 0.3 ms; and what is no read has no such instant."""
    experiment = load_text(FILE.format(lookup=lookup))
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome
    rows = sink.columns("load", "operation/1")
    assert set(rows["outcome"]) == {ENDINGS.index("done")}
    reads = rows["operation"] == OPERATIONS.index("read")
    assert 0 < reads.sum() < reads.size
    first, sent, finished = (rows[name][reads] for name in ("first_byte_ns", "sent_ns", "finished_ns"))
    assert (sent <= first).all()
    assert (first <= finished).all()
    assert (finished - sent).min() >= 90_000_000
    assert np.median(first - sent) < np.median(finished - sent) / 2
    assert (rows["first_byte_ns"][~reads] == -1).all()
