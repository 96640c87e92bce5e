"""`request_response` over UDP between two probes: each request ends in one way, and each answer is somebody's or
counted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000
ENDED = ("answered", "refused", "lost", "broken", "open")


def played(world: pw.World, ends: tuple[pw.Probe, pw.Probe], **more: Any) -> tuple[pw.Samples, pw.Samples]:
    """Client and server of a role, once each of its requests has ended in exactly one way."""
    client, server = pw.play(*ends, "request_response", world, protocol="udp", **more)
    assert server is not None
    count = client.counters
    assert count["requests"] == sum(count[f"{name}_requests"] for name in ENDED) == client.rows["response/1"]
    assert count["send_errors"] == count["socket_drops"] == server.counters["socket_drops"] == 0
    return client, server


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("request_bytes", "response_bytes"), [(16, 16), (64, 1000), (40_000, 16), (16, 65_507)]
)
def test_every_request_is_answered_whole(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, request_bytes: int, response_bytes: int
) -> None:
    client, server = played(
        world, ends, version=version, duration_ns=100 * MS, connections=3, request_bytes=request_bytes,
        response_bytes=response_bytes,
    )  # fmt: skip
    count = client.counters
    assert count["answered_requests"] == count["requests"] == server.counters["served_requests"] > 10
    assert count["sent_bytes"] == request_bytes * count["requests"]
    assert count["received_bytes"] == response_bytes * count["requests"]
    assert count["late_answers"] == count["duplicate_answers"] == server.counters["garbled_datagrams"] == 0


def test_what_is_due_together_leaves_together(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    """An instant is taken for each call, so requests of one call have the same."""
    client, _ = played(
        world, ends, trace_ns=[0] * 100 + [50 * MS] * 100, connections=200, duration_ns=100 * MS
    )
    rows = client.columns["response/1"]
    assert client.counters["answered_requests"] == 200
    assert len(np.unique(rows["sent_ns"])) == 4, "100 are two calls of at most 64"


def test_a_request_without_an_answer_is_lost_and_what_comes_then_is_late(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, server = played(
        world, ends, rate_per_s=100, duration_ns=500 * MS, connections=32, timeout_ns=50 * MS, pause_ns=175 * MS,
    )  # fmt: skip
    count = client.counters
    assert 10 <= count["lost_requests"] <= 14
    assert count["late_answers"] == count["lost_requests"]
    assert count["answered_requests"] == 50 - count["lost_requests"]
    assert server.counters["served_requests"] == 50
    rows = client.columns["response/1"]
    lost = rows["error"] == 2
    assert np.all((rows["finished_ns"] - rows["intended_ns"])[lost] >= 50 * MS)
    assert np.all(rows["sent_ns"] > 0), "all left"


def test_an_answer_to_any_try_answers_the_request_and_others_are_duplicates(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, server = played(
        world, ends, rate_per_s=50, duration_ns=600 * MS, connections=32, retries=10, retry_after_ns=30 * MS,
        pause_ns=200 * MS,
    )  # fmt: skip
    count = client.counters
    assert count["answered_requests"] == count["requests"] == 30
    assert count["duplicate_answers"] == count["retries"] > 10
    assert count["late_answers"] == 0
    assert server.counters["served_requests"] == 30 + count["retries"]


def test_a_full_backlog_refuses_in_a_datagram(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = played(
        world, ends, rate_per_s=200, duration_ns=300 * MS, connections=64, demand_ns=50 * MS, backlog=1
    )
    count = client.counters
    assert count["refused_requests"] == server.counters["rejected_requests"] > 30
    assert count["answered_requests"] == server.counters["served_requests"] > 2


def test_requests_open_at_the_end_are_kept(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, _ = played(
        world,
        ends,
        stop_after_s=0.3,
        rate_per_s=100,
        connections=4,
        timeout_ns=60_000 * MS,
        pause_ns=60_000 * MS,
    )
    count = client.counters
    assert count["open_requests"] == count["requests"] > 15
    sent = client.columns["response/1"]["sent_ns"] >= 0
    assert sent.sum() == 4, "others found no room before the end"


def test_datagrams_that_are_no_requests_are_counted_and_passed_over(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    script = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for octets in (b'x' * 16, b'', b'\\0\\0\\0\\x10rq' + bytes(11), b'\\0\\0\\0\\x10rs' + bytes(10)):\n"
        "    s.sendto(octets, (sys.argv[1], int(sys.argv[2])))\n"
    )
    own = {"protocol": "udp", "duration_ns": 50 * MS}
    common = {"role": "r", "workload": "request_response", "seed": 7, "parameters": own}
    here, there = world.a.end(), world.b.end()
    port = ends[1].ask("arm", side="server", local=there, peer=here, **common)["port"]
    ends[0].ask("arm", side="client", local=here, peer={**there, "port": port}, **common)
    try:
        ends[1].ask("start", role="r")
        world.a.run(sys.executable, "-c", script, world.b.address, str(port))
        ends[0].ask("start", role="r")
        ends[0].wait_event("finished", "r")
        ends[1].ask("stop", role="r")
        client, server = ends[0].collect("r"), ends[1].collect("r")
    finally:
        for probe in ends:
            probe.ask("disarm", role="r")
    assert client.counters["answered_requests"] == client.counters["requests"] > 5
    assert server.counters["garbled_datagrams"] == 3, "the empty one says nothing"


def test_a_server_that_answers_otherwise_ends_the_role_with_one_reason(world: pw.World) -> None:
    script = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.bind(('127.0.0.1', 7071))\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    octets, to = s.recvfrom(2048)\n"
        "    s.sendto(b'not a message of it', to)\n"
    )
    probe = world.probe(world.a)
    with subprocess.Popen(world.a.argv(sys.executable, "-c", script), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        end = {"vnic": "lo", "mac": "00:00:00:00:00:00", "mtu_bytes": 65_536, "address": "127.0.0.1"}
        own = {"duration_ns": 100 * MS, "service": "peer", "protocol": "udp"}
        common = {"role": "r", "workload": "request_response", "seed": 7, "parameters": own}
        probe.ask("arm", side="client", local=end, peer={**end, "port": 7071}, **common)
        probe.ask("start", role="r")
        failure = probe.wait_event("finished", "r")["failure"]
        probe.ask("disarm", role="r")
        server.kill()
    assert failure == "what came is no message of this protocol: the server answers otherwise"
