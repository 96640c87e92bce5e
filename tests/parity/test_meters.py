"""This probe's meters beside ping and iperf3 on the same path: what both count must agree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "testbed"))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
needs_ping = pytest.mark.skipif(shutil.which("ping") is None, reason="needs ping")
needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
MS = 1_000_000


@pytest.fixture(scope="module")
def world() -> Iterator[pw.World]:
    with pw.two_guests() as made:
        yield made


@pytest.fixture(scope="module")
def ends(world: pw.World) -> tuple[pw.Probe, pw.Probe]:
    return world.probe(world.a), world.probe(world.b)


def traffic(guest: pw.Guest, direction: str) -> tuple[int, int]:
    seen = guest.interface()
    return seen[f"{direction}_packets"], seen[f"{direction}_bytes"]


@needs_ping
@pytest.mark.parametrize("payload_bytes", [56, 1472, 1500, 20_000])
def test_an_echo_is_the_same_packets_on_the_wire_as_pings(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], payload_bytes: int
) -> None:
    per_meter = {}
    for meter in ("virtlab", "ping"):
        before = traffic(world.b, "rx")
        client, _ = pw.play(
            *ends, "rtt", world, meter=meter, count=20, interval_ns=5 * MS, payload_bytes=payload_bytes
        )
        after = traffic(world.b, "rx")
        assert client.counters["sent_packets"] == 20
        per_meter[meter] = (after[0] - before[0], after[1] - before[1])
    # A few packets of neighbour discovery may fall into either.
    assert abs(per_meter["virtlab"][0] - per_meter["ping"][0]) <= 8
    assert abs(per_meter["virtlab"][1] - per_meter["ping"][1]) <= 1000


@needs_ping
def test_pings_summary_is_what_its_rows_say(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, _ = pw.play(*ends, "rtt", world, meter="ping", count=30, interval_ns=5 * MS, ip_packet_bytes=1500)
    rows, counters = client.columns["rtt/1"], client.counters
    rtt_ns = rows["rtt_ns"]
    assert counters["received_packets"] == len(rtt_ns)
    assert counters["sent_packets"] == counters["received_packets"] + counters["lost_packets"] == 30
    # ping prints three digits of a round trip: up to 1 us below 1 ms, 10 us below 10 ms, 100 us below 100 ms.
    rounding_ns = 1_000 if rtt_ns.max() < MS else 10_000 if rtt_ns.max() < 10 * MS else 100_000
    assert abs(counters["ping_min_ns"] - int(rtt_ns.min())) <= rounding_ns
    assert abs(counters["ping_max_ns"] - int(rtt_ns.max())) <= rounding_ns
    assert abs(counters["ping_avg_ns"] - rtt_ns.mean()) <= 2 * rounding_ns
    assert abs(counters["ping_mdev_ns"] - rtt_ns.std()) <= 2 * rounding_ns
    assert np.all(rows["path_rtt_ns"] == -1)


@needs_ping
def test_ping_on_the_guest_counts_our_echoes_as_its_own(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    """The far kernel's own statistics count each echo of either meter once."""

    def echoes() -> int:
        text = world.b.run("cat", "/proc/net/snmp")
        names, values = re.findall(r"^Icmp: (.*)$", text, re.MULTILINE)
        return int(dict(zip(names.split(), values.split(), strict=True))["InEchos"])

    before = echoes()
    client, _ = pw.play(*ends, "rtt", world, count=25, interval_ns=2 * MS, payload_bytes=3000)
    ours = echoes()
    world.a.run("ping", "-q", "-c", "25", "-i", "0.002", "-s", "3000", "10.0.0.2")
    theirs = echoes()
    assert ours - before == client.counters["sent_packets"] == 25 == theirs - ours


@needs_iperf3
def test_iperf3_as_a_meter_counts_what_it_sent_and_got(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, server = pw.play(
        *ends, "udp_stream", world, meter="iperf3", ip_packet_bytes=1000, rate_bit_per_s=8_000_000,
        duration_ns=1000 * MS,
    )  # fmt: skip
    assert server is not None
    sent, received = client.counters["sent_packets"], server.counters["received_packets"]
    assert 0 < received <= sent
    assert client.counters["sent_bytes"] == sent * (1000 - 28)
    assert int(client.columns["interval/1"]["sent_bytes"].sum()) == client.counters["sent_bytes"]
    assert received + server.counters["iperf3_lost_packets"] <= sent
    assert server.counters["jitter_rfc3550_ns"] >= 0


@needs_iperf3
def test_both_meters_send_the_same_datagrams_at_one_rate(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    sizes = {}
    for meter in ("virtlab", "iperf3"):
        before = traffic(world.b, "rx")
        client, _ = pw.play(
            *ends, "udp_stream", world, meter=meter, ip_packet_bytes=1500, rate_bit_per_s=24_000_000,
            duration_ns=1000 * MS,
        )  # fmt: skip
        after = traffic(world.b, "rx")
        sent = client.counters["sent_packets"]
        sizes[meter] = client.counters["sent_bytes"] / sent
        # Each datagram is one frame of 1514 bytes; iperf3 adds a control connection of some dozen frames.
        assert after[0] - before[0] >= sent - 5
        assert after[1] - before[1] >= (sent - 5) * 1514
    assert sizes["virtlab"] == sizes["iperf3"] == 1472


@needs_iperf3
def test_tcp_through_iperf3_has_rows_of_both_ends(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = pw.play(
        *ends, "tcp_stream", world, meter="iperf3", duration_ns=1000 * MS, streams=2, message_bytes=8192
    )
    assert server is not None
    sent, received = client.columns["interval/1"], server.columns["interval/1"]
    assert set(sent["flow"]) == {0, 1} == set(received["flow"])
    assert int(sent["sent_bytes"].sum()) == client.counters["sent_bytes"]
    assert 0 < server.counters["received_bytes"] <= client.counters["sent_bytes"]


@needs_iperf3
def test_our_receiver_computes_iperf3s_jitter(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    """From the rows of a stream: J += (|D| - J) / 16 over transits in order of arrival, as iperf3's source has it."""
    _, server = pw.play(
        *ends, "udp_stream", world, frame_bytes=200, rate_bit_per_s=5_000_000, duration_ns=200 * MS
    )
    assert server is not None
    packets: dict[str, Any] = server.columns["packet/1"]
    jitter, previous = 0.0, None
    for transit in (packets["received_ns"] - packets["sent_ns"]).tolist():
        if previous is not None:
            jitter += (abs(transit - previous) - jitter) / 16.0
        previous = transit
    assert server.counters["jitter_rfc3550_ns"] == int(jitter)


@needs_iperf3
def test_iperf3_itself_reads_the_same_rate_from_the_interface(world: pw.World) -> None:
    """The interface counters that our tests trust, checked with iperf3's own sum."""
    server = subprocess.Popen(world.b.argv("iperf3", "-s", "-1", "-J"), stdout=subprocess.PIPE, text=True)
    before = traffic(world.b, "rx")
    client = [
        "iperf3",
        "-c",
        "10.0.0.2",
        "-u",
        "-b",
        "8M",
        "-l",
        "1000",
        "-t",
        "1",
        "-J",
        "--connect-timeout",
        "2000",
    ]
    for _ in range(50):
        told = json.loads(
            subprocess.run(world.a.argv(*client), capture_output=True, text=True, check=False).stdout
        )
        if "error" not in told:
            break
    server.communicate(timeout=10)
    after = traffic(world.b, "rx")
    sent = told["end"]["sum"]["packets"]
    assert after[1] - before[1] >= (sent - told["end"]["sum"]["lost_packets"]) * 1042


def test_a_missing_program_or_impossible_mix_is_refused(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    for workload, parameters, complaint in (
        ("tcp_rr", {"meter": "iperf3"}, "use meter virtlab"),
        ("rtt", {"meter": "ping", "protocol": "udp", "interval_ns": MS, "payload_bytes": 56}, "icmp only"),
        ("rtt", {"meter": "ping", "interval_ns": MS, "payload_bytes": 8}, "16 B"),
    ):
        with pytest.raises(pw.ProbeError, match=complaint):
            pw.arm(ends[0], None, workload, world, **parameters)
