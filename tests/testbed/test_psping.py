"""psping on a real bridge: every request has its row, warm-up stands apart, windows and sizes hold on the wire."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
S = 10**9


def under_way(rows: dict[str, Any]) -> int:
    """Most requests that were under way at one instant."""
    instants = [(at, 1) for at in rows["sent_ns"]] + [(at, -1) for at in rows["finished_ns"] if at >= 0]
    now = most = 0
    for _, step in sorted(instants):
        now += step
        most = max(most, now)
    return most


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("size", [1, 32, 8192])
def test_a_latency_test_has_one_request_at_a_time_each_with_its_row(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, protocol: str, size: int
) -> None:
    client, server = pw.play(
        *ends, "psping", world, version=version, test="latency", protocol=protocol, request_bytes=size,
        count=40, warmup=5, outstanding=1, timeout_ns=2 * S,
    )  # fmt: skip
    rows = client.columns["request/1"]
    assert sorted(rows["seq"]) == list(range(-5, 40))
    assert client.counters["sent_requests"] == 45
    answered = rows["finished_ns"] >= 0
    assert client.counters["answered_requests"] == answered.sum() > 0
    assert np.all(rows["finished_ns"][answered] > rows["sent_ns"][answered])
    assert under_way(rows) == 1
    if protocol == "tcp":
        assert answered.all()
        assert server is not None
        assert server.counters["answered"] == 45


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_bandwidth_test_never_has_more_requests_under_way_than_asked(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, protocol: str, reverse: bool
) -> None:
    before = world.a.interface()
    client, _ = pw.play(
        *ends, "psping", world, version=version, test="bandwidth", protocol=protocol, request_bytes=1400,
        count=400, warmup=16, outstanding=8, reverse=reverse, timeout_ns=2 * S,
    )  # fmt: skip
    after = world.a.interface()
    rows = client.columns["request/1"]
    assert sorted(rows["seq"]) == list(range(-16, 400))
    assert set(rows["payload_bytes"]) == {1400}
    assert 1 <= under_way(rows) <= 8
    carried = after["rx_bytes" if reverse else "tx_bytes"] - before["rx_bytes" if reverse else "tx_bytes"]
    answered = client.counters["answered_requests"]
    assert carried >= answered * 1400 > 0


def test_a_tcp_ping_opens_a_connection_each_time(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, _ = pw.play(
        *ends, "psping", world, test="ping", protocol="tcp", request_bytes=0, count=20, warmup=1, outstanding=1,
    )  # fmt: skip
    rows = client.columns["request/1"]
    assert list(rows["seq"]) == list(range(-1, 20))
    assert np.all(rows["finished_ns"] > rows["sent_ns"])


@pytest.mark.parametrize("version", [4, 6])
def test_an_icmp_ping_is_the_echo_of_rtt(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int
) -> None:
    client, _ = pw.play(
        *ends, "psping", world, version=version, test="ping", protocol="icmp", request_bytes=32, count=20,
        warmup=1, outstanding=1,
    )  # fmt: skip
    assert list(client.columns["sent/1"]["seq"]) == list(range(21))
    assert set(client.columns["sent/1"]["payload_bytes"]) == {32}
    assert set(client.columns["rtt/1"]["seq"]) <= set(range(21))


def test_requests_keep_their_interval_and_a_bound_ends_the_test(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, _ = pw.play(
        *ends, "psping", world, test="latency", protocol="tcp", request_bytes=32, count=10_000, warmup=0,
        outstanding=1, interval_ns=10_000_000, limit_ns=200_000_000,
    )  # fmt: skip
    rows = client.columns["request/1"]
    assert np.all(np.diff(rows["sent_ns"]) >= 10_000_000)
    assert 1 <= len(rows["seq"]) <= 21
    assert client.counters["unsent_requests"] == 10_000 - len(rows["seq"])


def test_what_nobody_answers_is_lost_and_not_a_number(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, _ = ends
    peer = {**world.b.end(), "port": 9}
    request = {
        "test": "latency", "protocol": "udp", "request_bytes": 32, "count": 3, "warmup": 0, "outstanding": 1,
        "timeout_ns": S // 20,
    }  # fmt: skip
    client.ask(
        "arm", role="deaf", side="client", workload="psping", parameters=request, local=world.a.end(),
        peer=peer, seed=1,
    )  # fmt: skip
    client.ask("start", role="deaf")
    client.wait_event("finished", "deaf")
    rows = client.collect("deaf")
    client.ask("disarm", role="deaf")
    assert list(rows.columns["request/1"]["finished_ns"]) == [-1, -1, -1]
    assert rows.counters["answered_requests"] == 0


@pytest.mark.parametrize("test", ["latency", "bandwidth"])
def test_a_test_under_way_can_be_stopped(world: pw.World, ends: tuple[pw.Probe, pw.Probe], test: str) -> None:
    client, _ = pw.play(
        *ends, "psping", world, stop_after_s=0.2, test=test, protocol="tcp", request_bytes=512,
        count=1_000_000, warmup=0, outstanding=4,
    )  # fmt: skip
    rows = client.columns["request/1"]
    assert 0 < len(rows["seq"]) < 1_000_000
    assert np.all(rows["finished_ns"] >= rows["sent_ns"])


def test_a_protocol_that_the_test_has_not_is_refused(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    with pytest.raises(pw.ProbeError, match="ping goes over icmp or tcp"):
        pw.arm(
            *ends, "psping", world, name="wrong", test="ping", protocol="udp", request_bytes=1, count=1, warmup=0,
            outstanding=1,
        )  # fmt: skip
