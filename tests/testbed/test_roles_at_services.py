"""Clients of virtlab's against a server that is not: each request is counted by how it ended, over HTTP/1.1 as it
comes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.plan import Outcome, Trial
from virtlab.testbed import Testbed

PYTHON = "/usr/bin/python3"
if not Path(PYTHON).exists():
    pytest.skip(f"no {PYTHON}, which stands outside all homes", allow_module_level=True)
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
MS = 1_000_000
SERVER = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        fails = self.path == "/fails" or (self.path == "/third" and Handler.asked % 3 > 0)
        self.send_response(503 if fails else 200)
        if self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
            body = b"5\\r\\nhello\\r\\n6\\r\\n world\\r\\n0\\r\\n\\r\\n"
        elif self.path == "/end":
            self.close_connection, body = True, b"x" * 100_000
        else:
            body = b"x" * 1000
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/slow":
            time.sleep(1)
        if self.path == "/breaks":
            body, self.close_connection = body[:10], True
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


def counted(sink: worlds.MemorySink) -> dict[str, int]:
    """Counters of the role's client when it had ended."""
    found: dict[str, int] = {}
    for _, schema, columns in sink.blocks:
        if schema == "counter/1":
            for entity, counter, value in zip(
                columns["entity"], columns["counter"], columns["value"], strict=True
            ):
                if str(entity).partition("/")[0] == "clients":
                    found[str(counter)] = max(found.get(str(counter), 0), int(value))
    return found


def played(workload: str, **more: Any) -> tuple[Outcome, worlds.MemorySink, dict[str, int]]:
    web = {
        "kind": "program", "on": ["b"], "argv": [PYTHON, "-c", SERVER],
        "ready": {"port": 8080, "http": "/", "timeout_ns": 30_000 * MS},
    }  # fmt: skip
    role = {
        "workload": workload, "from": "a", "to": "b", "service": "web", "port": 8080, "duration_ns": 500 * MS, **more
    }  # fmt: skip
    plan = worlds.plan(
        {**worlds.bridged(), "services": {"web": web}},
        roles={"clients": role},
        timeline=[{"id": "ask", "do": "run", "role": "clients"}],
        limits={"run_ns": 30_000 * MS},
        collect={"packets": ["clients"]},
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        return outcome, sink, counted(sink)


@pytest.mark.parametrize("path", ["/", "/chunks", "/end"])
def test_a_body_of_any_framing_is_read_whole(path: str) -> None:
    outcome, sink, count = played(
        "request_response", protocol="http", path=path, rate_per_s=100, connections=4
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["requests"] == count["answered_requests"] == 50 == sink.rows("clients", "response/1")
    least = {"/": 1000, "/chunks": 11, "/end": 100_000}[path]
    assert count["received_bytes"] > 50 * least


def test_what_the_service_answers_with_an_error_is_counted_apart() -> None:
    outcome, sink, count = played("request_response", protocol="http", path="/fails", rate_per_s=100)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["failed_requests"] == count["requests"] == 50
    errors = np.concatenate([columns["error"] for _, kind, columns in sink.blocks if kind == "response/1"])
    assert set(errors.tolist()) == {5}


def test_what_breaks_and_what_is_late_is_counted_apart() -> None:
    outcome, _, count = played(
        "request_response", protocol="http", path="/slow", rate_per_s=20, connections=16, timeout_ns=200 * MS
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["lost_requests"] == count["requests"] == 10
    outcome, _, count = played(
        "request_response", protocol="http", path="/breaks", rate_per_s=20, connections=16
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["broken_requests"] == count["requests"] == 10


@pytest.mark.parametrize("closed", [False, True])
def test_what_failed_is_asked_again_and_counted_apart_from_requests(closed: bool) -> None:
    loop = {"connections": 1} if closed else {"connections": 8, "rate_per_s": 20}
    outcome, _, count = played(
        "request_response", protocol="http", path="/fails", retries=2, retry_after_ns=20 * MS, **loop
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["failed_requests"] == count["requests"] > 5
    assert count["retries"] == 2 * count["requests"]
    outcome, _, count = played(
        "request_response", protocol="http", path="/third", retries=8, retry_after_ns=30 * MS, connections=1
    )
    assert count["answered_requests"] == count["requests"] > 3
    assert count["retries"] >= 2 * (count["requests"] - 1)


def test_a_try_without_an_answer_leaves_its_connection_to_the_next() -> None:
    outcome, _, count = played(
        "request_response", protocol="http", path="/slow", rate_per_s=20, connections=32, timeout_ns=300 * MS,
        retries=5, retry_after_ns=100 * MS,
    )  # fmt: skip
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["lost_requests"] == count["requests"] == 10
    assert count["retries"] == 20, "tries at 0, 100 and 200 ms of 300 ms"


@pytest.mark.parametrize("keep_alive", [True, False])
def test_clients_in_turns_keep_their_connection_or_open_one_for_each(keep_alive: bool) -> None:
    outcome, _, count = played("request_response", protocol="http", keep_alive=keep_alive, connections=2)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["answered_requests"] == count["requests"] > 20


def test_http_get_asks_a_service_too() -> None:
    outcome, sink, count = played("http_get", path="/chunks", connections=2)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert count["transactions"] == count["requests"] == sink.rows("clients", "transaction/1") > 20


def test_a_server_that_does_not_speak_http_ends_the_role_with_one_reason() -> None:
    garbage = (
        "import socket\ns = socket.create_server(('', 8080))\n"
        "while True:\n c, _ = s.accept()\n c.recv(99)\n c.sendall(b'garbage' * 9)\n c.close()"
    )
    web = {"kind": "program", "on": ["b"], "argv": [PYTHON, "-c", garbage], "ready": {"port": 8080}}
    role = {
        "workload": "request_response", "from": "a", "to": "b", "service": "web", "port": 8080, "protocol": "http",
        "duration_ns": 500 * MS,
    }  # fmt: skip
    plan = worlds.plan(
        {**worlds.bridged(), "services": {"web": web}}, roles={"clients": role},
        timeline=[{"id": "ask", "do": "run", "role": "clients"}], limits={"run_ns": 30_000 * MS},
    )  # fmt: skip
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    assert outcome.status == "failed"
    assert "the service answers otherwise: the head of the answer cannot be read" in "; ".join(
        outcome.reasons
    )
