"""A stranger speaks to the servers of a role as its peer would: it is neither counted, nor answered, nor let in."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000
STRANGER = {4: "10.0.0.66", 6: "fd00::66"}
DATA, REGISTER = 0x5AB0, 0x5AB2
# Says how many of its datagrams were answered, and whether its connection came about.
SPEAK = """
import socket, sys
kind, source, target, port, head = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), bytes.fromhex(sys.argv[5])
family = socket.AF_INET6 if ":" in source else socket.AF_INET
mine = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
mine.bind((source, 0))
mine.settimeout(0.3)
said = 0
try:
    if kind == "udp":
        for number in range(50):
            mine.sendto(head[:4] + (1000 + number).to_bytes(6, "little") + head[10:], (target, port))
        while mine.recv(2000):
            said += 1
    elif kind == "request":
        for number in range(50):
            mine.sendto(head[:8] + (1000 + number).to_bytes(8, "big"), (target, port))
        while mine.recv(2000):
            said += 1
    else:
        mine.connect((target, port))
        mine.sendall(head)
        said = 1
except OSError:
    pass
print(said)
"""

# Connects, says nothing, and ends once the other side has.
SILENT = """
import socket, sys
mine = socket.create_connection((sys.argv[2], int(sys.argv[3])), source_address=(sys.argv[1], 0))
try:
    mine.recv(1)
except ConnectionError:
    pass
"""


@pytest.fixture(scope="module")
def world() -> Iterator[pw.World]:
    with pw.two_guests() as made:
        made.a.run("ip", "address", "add", f"{STRANGER[4]}/24", "dev", "eth0")
        made.a.run("ip", "address", "add", f"{STRANGER[6]}/64", "dev", "eth0", "nodad")
        made.b.run(
            "ip", "neigh", "replace", STRANGER[4], "lladdr", made.a.mac, "dev", "eth0", "nud", "permanent"
        )
        made.b.run(
            "ip", "neigh", "replace", STRANGER[6], "lladdr", made.a.mac, "dev", "eth0", "nud", "permanent"
        )
        yield made


def spoken(world: pw.World, kind: str, port: int, version: int, tag: int, source: str | None = None) -> int:
    head = struct.pack("<HH6xQ", tag, 0, 1).ljust(64, b"\0")
    if kind == "request":
        head = struct.pack(">I2sHQ", 16, b"rq", 0, 0)
    to = world.b.address if version == 4 else world.b.address6
    argv = [sys.executable, "-c", SPEAK, kind, source or STRANGER[version], to, str(port), head.hex()]
    return int(subprocess.run(world.a.argv(*argv), capture_output=True, text=True, check=True).stdout)


UDP: list[tuple[str, dict[str, Any]]] = [
    ("rtt", {"protocol": "udp", "payload_bytes": 64, "interval_ns": MS, "count": 30}),
    ("udp_stream", {"payload_bytes": 64, "rate_bit_per_s": 1_000_000, "duration_ns": 50 * MS}),
    ("burst_load", {"burst_bytes": 1000, "period_ns": 10 * MS, "streams": 1, "duration_ns": 50 * MS,
                    "direction": "request_reply"}),
    ("psping", {"test": "latency", "protocol": "udp", "request_bytes": 64, "response_bytes": 64, "count": 30,
                "warmup": 0, "outstanding": 1, "interval_ns": MS}),
]  # fmt: skip

TCP: dict[str, dict[str, Any]] = {
    "tcp_rr": {"request_bytes": 100, "response_bytes": 100, "duration_ns": 50 * MS},
    "tcp_stream": {"message_bytes": 1000, "duration_ns": 50 * MS},
    "psping": {"test": "latency", "protocol": "tcp", "request_bytes": 64, "response_bytes": 64, "count": 30,
               "warmup": 0, "outstanding": 1, "interval_ns": MS},
    "request_response": {"connections": 2, "duration_ns": 50 * MS},
    "http_get": {"connections": 2, "response_bytes": 1000, "duration_ns": 50 * MS},
}  # fmt: skip


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("workload", "parameters"), UDP, ids=[name for name, _ in UDP])
def test_a_datagram_of_a_stranger_is_neither_counted_nor_answered(
    world: pw.World, workload: str, parameters: dict[str, Any], version: int
) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    a, b = world.a.end(version), world.b.end(version)
    common = {"role": "role", "workload": workload, "parameters": parameters, "seed": 7}
    port = server.ask("arm", side="server", local=b, peer=a, **common)["port"]
    client.ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
    server.ask("start", role="role")
    assert spoken(world, "udp", port, version, DATA) == 0
    assert spoken(world, "udp", port, version, REGISTER) == 0
    client.ask("start", role="role")
    client.wait_event("finished", "role")
    server.ask("stop", role="role")
    sent, seen = client.collect("role"), server.collect("role")
    total = sent.counters.get("sent_packets", sent.counters.get("sent_requests"))
    assert 0 < seen.counters["received_packets"] <= total
    # The kernel keeps a stranger's datagram out before it reaches the socket, which then has dropped nothing.
    assert seen.counters["socket_drops"] == 0
    assert [taint for taint in seen.taints if not taint.startswith("starved")] == []


def test_a_datagram_of_a_stranger_among_flows_by_way_of_guests_is_not_counted(world: pw.World) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    a, b = world.a.end(4), world.b.end(4)
    parameters = {"frame_bytes": 128, "rate_pps": 1000, "duration_ns": 50 * MS, "via": [world.b.mac]}
    common = {"role": "role", "workload": "raw_stream", "parameters": parameters, "seed": 7}
    port = server.ask("arm", side="server", local=b, peer=a, **common)["port"]
    client.ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
    server.ask("start", role="role")
    assert spoken(world, "udp", port, 4, DATA) == 0
    client.ask("start", role="role")
    client.wait_event("finished", "role")
    server.ask("stop", role="role")
    sent, seen = client.collect("role"), server.collect("role")
    assert seen.counters["stranger_packets"] == 50
    assert 0 < seen.counters["received_packets"] <= sent.counters["sent_packets"]


@pytest.mark.parametrize("version", [4, 6])
def test_a_request_in_a_datagram_of_a_stranger_is_neither_served_nor_answered(
    world: pw.World, version: int
) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    a, b = world.a.end(version), world.b.end(version)
    parameters = {"protocol": "udp", "connections": 2, "duration_ns": 50 * MS}
    common = {"role": "role", "workload": "request_response", "parameters": parameters, "seed": 7}
    port = server.ask("arm", side="server", local=b, peer=a, **common)["port"]
    client.ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
    server.ask("start", role="role")
    assert spoken(world, "request", port, version, DATA) == 0
    client.ask("start", role="role")
    client.wait_event("finished", "role")
    peer = world.a.address if version == 4 else world.a.address6
    served_to_peer = spoken(world, "request", port, version, DATA, source=peer)
    server.ask("stop", role="role")
    sent, seen = client.collect("role"), server.collect("role")
    assert served_to_peer == 50  # the same words from the role's own end
    assert seen.counters["served_requests"] <= sent.rows["response/1"] + served_to_peer
    assert [taint for taint in seen.taints if not taint.startswith("starved")] == []


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("workload", TCP)
def test_a_stranger_opens_no_connection_and_one_that_is_no_flow_keeps_none_out(
    world: pw.World, workload: str, version: int
) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    a, b = world.a.end(version), world.b.end(version)
    common = {"role": "role", "workload": workload, "parameters": TCP[workload], "seed": 7}
    port = server.ask("arm", side="server", local=b, peer=a, **common)["port"]
    client.ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
    server.ask("start", role="role")
    assert spoken(world, "tcp", port, version, DATA) == 0
    # From the own address of the peer, a connection that does not say which flow it is.
    assert spoken(world, "tcp", port, version, 0, str(a["address"])) == 1
    client.ask("start", role="role")
    finished = client.wait_event("finished", "role")
    server.ask("stop", role="role")
    assert finished["reason"] == "complete"
    assert client.collect("role").counters
    seen = server.collect("role")
    assert [taint for taint in seen.taints if not taint.startswith("starved")] == []
    assert server.wait_event("finished", "role")["reason"] in {"complete", "stopped"}


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
@pytest.mark.parametrize("workload", ["udp_stream", "tcp_stream"])
def test_a_stranger_who_keeps_the_server_of_iperf3_is_in_no_result(world: pw.World, workload: str) -> None:
    """First one connects and says nothing, then one begins a whole test: the peer is served nevertheless."""
    client, server = world.probe(world.a), world.probe(world.b)
    a, b = world.a.end(4), world.b.end(4)
    own = {"payload_bytes": 1000, "rate_bit_per_s": 8_000_000} if workload == "udp_stream" else {}
    parameters = {**own, "duration_ns": 1000 * MS, "meter": "iperf3"}
    common = {"role": "role", "workload": workload, "parameters": parameters, "seed": 7}
    port = server.ask("arm", side="server", local=b, peer=a, **common)["port"]
    client.ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
    server.ask("start", role="role")
    time.sleep(0.3)  # until it listens
    words = ["iperf3", "-B", STRANGER[4], "-c", str(b["address"]), "-p", str(port), "-t", "20"]
    silent = [sys.executable, "-c", SILENT, STRANGER[4], str(b["address"]), str(port)]
    for argv in (silent, words):
        stranger = subprocess.Popen(world.a.argv(*argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stranger.communicate(timeout=10)
    client.ask("start", role="role")
    assert client.wait_event("finished", "role")["reason"] == "complete"
    server.ask("stop", role="role")
    sent, seen = client.collect("role"), server.collect("role")
    assert 0 < seen.counters["received_bytes"] <= sent.counters["sent_bytes"]
    assert [taint for taint in seen.taints if not taint.startswith("starved")] == []
