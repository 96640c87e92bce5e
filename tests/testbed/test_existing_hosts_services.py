"""A host that exists already asks a server that nobody declared, by its address."""

from __future__ import annotations

import subprocess
import sys

import far_world as far_worlds
import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
OUTSIDE = f"{far_worlds.NETWORK}254"
SERVER = """
import http.server
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("%s", 8080), Answers)
print("ready", flush=True)
server.serve_forever()
"""


def test_an_address_outside_answers_a_host_that_exists_already(far: far_worlds.FarHosts) -> None:
    vnic = {"network": "own", "mac": "", "offloads": "default"}
    world = {
        "hosts": {"h1": {"at": "ssh", "address": "host-a"}},
        "guests": {"a": {"platform": "ssh", "host": "h1", "vnics": {"eth0": vnic}}},
    }
    role = {
        "workload": "request_response", "protocol": "http", "from": "a", "address": OUTSIDE, "port": 8080,
        "rate_per_s": 50, "connections": 4, "duration_ns": 500_000_000,
    }  # fmt: skip
    plan = worlds.plan(
        world, roles={"clients": role}, timeline=[{"id": "ask", "do": "run", "role": "clients"}],
        limits={"run_ns": 30_000_000_000}, collect={"packets": ["clients"]},
    )  # fmt: skip
    assert Testbed().check(plan) == []
    middle = f"--target={far.holders['middle'].pid}"
    argv = ["nsenter", middle, "--net", sys.executable, "-c", SERVER % OUTSIDE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            with Testbed().open(plan, worlds.Patient()) as session:
                sink = worlds.MemorySink()
                outcome = session.run(Trial("t0", 1), sink)
        finally:
            server.kill()
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    errors = [error for _, kind, columns in sink.blocks if kind == "response/1" for error in columns["error"]]
    assert errors == [0] * 25
    assert far.ended()
