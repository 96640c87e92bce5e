"""`http_get` between two probes on one bridge: every request is counted once, and a hostile server ends the role with
one reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000
PORT = 8080
SERVER = """
import socket, sys, time
octets, close_after_s = eval(sys.argv[1]), float(sys.argv[2])
listener = socket.create_server(("10.0.0.2", 8080))
print("ready", flush=True)
while True:
    peer, _ = listener.accept()
    peer.recv(65536)
    peer.sendall(octets)
    time.sleep(close_after_s)
    peer.close()
"""


def conserved(samples: pw.Samples) -> pw.Samples:
    """The client's samples, once each of its requests has ended in exactly one way."""
    count = samples.counters
    ended = ("transactions", "status_errors", "timeouts", "broken_connections", "open")
    assert count["requests"] == sum(count[name] for name in ended)
    assert count["transactions"] == samples.rows.get("transaction/1", 0)
    return samples


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("response_bytes", [0, 1000, 300_000])
def test_every_request_is_answered_whole(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, keep_alive: bool, response_bytes: int
) -> None:
    client, server = pw.play(
        *ends, "http_get", world, version=version, duration_ns=100 * MS, connections=3,
        keep_alive=keep_alive, response_bytes=response_bytes, path="/index.html",
    )  # fmt: skip
    assert server is not None
    count = conserved(client).counters
    assert count["transactions"] == count["requests"] == server.counters["answered"] > 10
    assert count["received_bytes"] > response_bytes * count["transactions"]
    assert server.counters["connections"] == (3 if keep_alive else count["requests"])
    rows = client.columns["transaction/1"]
    assert set(rows["flow"]) == {0, 1, 2}
    for flow in range(3):  # on a connection there is one at a time
        mine = {name: column[rows["flow"] == flow] for name, column in rows.items()}
        assert np.all(mine["started_ns"][1:] >= mine["finished_ns"][:-1])


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_requests_at_a_rate_are_due_whatever_was_answered(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], arrivals: str
) -> None:
    client, _ = pw.play(
        *ends, "http_get", world, duration_ns=500 * MS, connections=2, rate_per_s=400, arrivals=arrivals
    )
    count = conserved(client).counters
    assert count["transactions"] == count["requests"]
    if arrivals == "constant":
        assert count["requests"] == 200
        started = np.sort(client.columns["transaction/1"]["started_ns"])
        assert np.all(np.abs(np.diff(started) - 2_500_000) <= 1)
    else:
        assert 120 < count["requests"] < 290  # 200 +- 14


def test_requests_that_no_connection_was_free_for_time_out_and_are_counted(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    with served(world, "b'HTTP/1.1 200 OK\\r\\nContent-Length: 1024\\r\\n\\r\\n'", 10.0) as port:
        client = against(
            world,
            ends[0],
            port,
            duration_ns=400 * MS,
            rate_per_s=100,
            timeout_ns=100 * MS,
            response_bytes=1024,
        )
    count = conserved(client).counters
    assert count["requests"] == 40
    assert count["timeouts"] == 40


def test_another_status_is_an_error_and_the_connection_goes_on(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    a, b = world.a.end(), world.b.end()
    common: dict[str, Any] = {"role": "role", "workload": "http_get", "seed": 7}
    port = ends[1].ask("arm", side="server", local=b, peer=a, parameters={"path": "/there"}, **common)["port"]
    try:
        client = against(world, ends[0], port, duration_ns=50 * MS, path="/elsewhere")
        ends[1].ask("stop", role="role")
        server = ends[1].collect("role")
    finally:
        ends[1].ask("disarm", role="role")
    count = conserved(client).counters
    assert count["status_errors"] == count["requests"] == server.counters["refused_requests"] > 10
    assert server.counters["connections"] == 1


def test_a_role_that_is_stopped_says_what_was_open(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    with served(world, "b'HTTP/1.1 200 OK\\r\\n'", 10.0) as port:
        client = against(world, ends[0], port, stop_after_s=0.2, connections=4)
    count = conserved(client).counters
    assert count["requests"] == count["open"] == 4


def test_connections_that_break_are_counted_and_made_anew(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    with served(world, "b'HTTP/1.1 200 OK\\r\\nContent-Length: 1024\\r\\n\\r\\nshort'", 0.0) as port:
        client = against(world, ends[0], port, duration_ns=200 * MS)
    count = conserved(client).counters
    assert count["broken_connections"] == count["requests"] > 1
    refused = conserved(against(world, ends[0], 1, duration_ns=100 * MS)).counters  # without a listener
    assert refused["broken_connections"] == refused["requests"] > 1


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("b'HTTP/1.1 200 OK\\r\\n' + b'X: y\\r\\n' * 4000", "more than 64 fields"),
        ("b'HTTP/1.1 200 OK\\r\\nX: ' + b'x' * 60000", "longer than 16384 B"),
        ("b'HTTP/1.1 200 OK\\r\\nContent-Length: 7\\r\\n\\r\\n7 bytes'", "7 B where 1024 B"),
        ("b'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\nmuch'", "octets follow the answer"),
        ("b'HTTP/1.1 200 OK\\r\\nContent-Length: -1\\r\\n\\r\\n'", "Content-Length is no number"),
        (
            "b'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\n'",
            "is said twice, differently",
        ),
        (
            "b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nx'",
            "the size of a chunk cannot be read",
        ),
        ("b'SSH-2.0-OpenSSH\\r\\n'", "cannot be read"),
    ],
)
def test_an_answer_that_http_forbids_ends_the_role_with_one_reason(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], octets: str, reason: str
) -> None:
    with served(world, octets, 10.0) as port:
        client = against(world, ends[0], port, duration_ns=2_000 * MS)
    (failed,) = [taint for taint in client.taints if taint.startswith("failed")]
    assert reason in failed
    assert client.counters["requests"] == 1


@contextmanager
def served(world: pw.World, octets: str, close_after_s: float) -> Iterator[int]:
    """A server in guest b that answers everything with these octets; its port."""
    argv = world.b.argv(sys.executable, "-c", SERVER, octets, str(close_after_s))
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield PORT
        finally:
            process.kill()


def against(
    world: pw.World, client: pw.Probe, port: int, stop_after_s: float | None = None, **parameters: Any
) -> pw.Samples:
    """A client alone, against the server on a port of guest b."""
    common = {"role": "client", "workload": "http_get", "seed": 7, "parameters": parameters}
    client.ask("arm", side="client", local=world.a.end(), peer=world.b.end(port=port), **common)
    try:
        client.ask("start", role="client")
        if stop_after_s is not None:
            pw.time.sleep(stop_after_s)
            client.ask("stop", role="client")
        client.wait_event("finished", "client")
        return client.collect("client")
    finally:
        client.ask("disarm", role="client")
