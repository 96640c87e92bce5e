"""Services in a machine that moves serve on: passive servers find the active one, and no line of a program is lost."""

from __future__ import annotations

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]

FILE = """
version: 1
name: served
hosts:
  h1: {guests: {app: {platform: qemu, memory: 128 MiB}}}
  h2: {guests: {passive: {platform: namespace}}}
  h3: {guests: {clients: {platform: namespace}}}
topology: star
link: {rate: 1 Gbit/s}
network: {arp: live}
services:
  app: {kind: demand_server, on: [h1.app, h2.passive], active: h1.app, demand: 0.2 ms, threads: 2, backlog: 1000}
  counts:
    kind: program
    on: h1.app
    argv: [sh, -c, "i=0; while true; do echo $i; i=$((i+1)); busybox usleep 20000; done"]
    ready: {line: "1"}
roles:
  clients: {workload: request_response, from: h3.clients, to: app, passive_share: 50 %, rate: 50 request/s, connections: 32,
            timeout: 60 s, duration: 3600 s}
timeline:
  - {id: load, do: start, role: clients}
  - {id: go, do: migrate, guest: h1.app, to: h2, bandwidth: 30 MB/s, timeout: 50 s, after: load.started + 1 s}
  - {id: settle, do: wait, for: 2 s, after: go.finished}
  - {id: end, do: stop, role: clients, after: settle.done}
windows: {measured: {from: load.started, to: end.done}}
repeat: 1
"""


def test_the_active_server_of_a_cluster_moves_and_its_passive_one_goes_on_forwarding() -> None:
    experiment = load_text(FILE)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert Testbed().check(plan) == []
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert "go.finished" in outcome.marks
    rows = [columns for stream, kind, columns in sink.blocks if (stream, kind) == ("clients", "response/1")]
    columns = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
    resumed_ns = outcome.marks["go.finished"].t_ns
    # Half of the requests enter at the passive server, and all of them are answered, before the move and after it.
    assert len(set(columns["entry"])) == 2
    sent = columns["sent_ns"] >= 0  # one may be due at the instant at which the clients are stopped
    assert set(columns["error"][sent]) == {0}, "no request failed, and none was lost"
    assert (~sent).sum() <= 1
    assert (columns["intended_ns"] > resumed_ns).sum() > 50
    paused_ns = next(event.t_ns for event in sink.events if event.what == "go.paused")
    answered = np.sort(columns["finished_ns"])
    assert not ((answered > paused_ns + 10**7) & (answered < resumed_ns)).any(), "it serves nowhere meanwhile"
    # What the program wrote came over the serial ports of both machines.
    said = [int(line) for line in sink.artefacts["service-counts-h1.app.log"].split()]
    assert said[:-1] == list(range(len(said) - 1))
    assert len(said) > 40
    assert not processes.named(b"qemu-system-x86_64")
