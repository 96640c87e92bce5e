"""Of a service on several guests each role asks the one that it names: what the servers themselves say of who asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

PYTHON = "/usr/bin/python3"
if not Path(PYTHON).exists():
    pytest.skip(f"no {PYTHON}, which stands outside all homes", allow_module_level=True)
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

FILE = f"""
version: 1
name: several
hosts: 1
host: {{guests: 3}}
topology: none
services:
  web:
    kind: program
    on: [h1.g2, h1.g3]
    argv: [{PYTHON}, -u, -m, http.server, "8080", --directory, /usr/share]
    ready: {{port: 8080}}
roles:
  first: {{workload: request_response, protocol: http, path: /first, from: h1.g1, to: web, server: first, ROLE}}
  named: {{workload: request_response, protocol: http, path: /named, from: h1.g1, to: web, server: h1.g3, ROLE}}
collect: {{series: {{}}, telemetry: off, counters: []}}
repeat: 1
"""


def test_each_server_is_asked_by_the_roles_that_name_it() -> None:
    experiment = load_text(FILE.replace("ROLE", "rate: 40 request/s, connections: 4, duration: 500 ms"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", plan.seed), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    said = {guest: sink.artefacts[f"service-web-{guest}.log"].decode() for guest in ("h1.g2", "h1.g3")}
    asked = {guest: (text.count("GET /first "), text.count("GET /named ")) for guest, text in said.items()}
    assert asked == {"h1.g2": (20, 0), "h1.g3": (0, 20)}
