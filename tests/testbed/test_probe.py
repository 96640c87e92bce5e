"""Two probes on one bridge, spoken to in their own protocol. Every bound is one that noise cannot break: counts, order,
sizes on the wire, and that what was sent either arrived or was lost."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

from virtlab.plan import BLOCKS

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000


def test_an_agent_introduces_itself_and_refuses_another_major(ends: tuple[pw.Probe, pw.Probe]) -> None:
    hello = ends[0].ask("hello", protocol=[1, 0])
    assert (hello["protocol"], hello["role"]) == ([1, 0], "probe")
    assert {"rtt", "burst_load", "udp_stream", "tcp_stream", "tcp_rr", "raw_stream"} <= set(
        hello["capabilities"]
    )
    with pytest.raises(pw.ProbeError, match="install the same version"):
        ends[0].ask("hello", protocol=[2, 0])


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"do": "frobnicate"}, "frobnicate"),
        ({"do": "clock", "extra": 1}, "extra"),
        ({"do": "start", "role": "nobody"}, "no role 'nobody'"),
        ({"do": "collect", "role": "nobody"}, "no role 'nobody'"),
    ],
)
def test_what_is_not_understood_is_refused(
    ends: tuple[pw.Probe, pw.Probe], request_: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(pw.ProbeError, match=complaint):
        ends[0].ask(request_.pop("do"), **request_)


@pytest.mark.parametrize(
    ("workload", "parameters", "complaint"),
    [
        ("rtt", {"interval_ns": 1000, "payload_bytes": 56, "conut": 1}, "conut"),
        ("rtt", {"interval_ns": 1000}, "exactly one of frame_bytes"),
        ("rtt", {"interval_ns": 1000, "ip_packet_bytes": 20}, "at least 28"),
        ("rtt", {"interval_ns": 1000, "protocol": "udp", "payload_bytes": 4}, "at least 18 B"),
        ("udp_stream", {"frame_bytes": 64}, "peer.port is missing"),
        ("burst_load", {"burst_bytes": 10, "period_ns": MS, "streams": 2}, "at least 36 B"),
        ("burst_load", {"burst_bytes": 99, "period_ns": MS, "protocol": "icmp"}, "always answered"),
        ("raw_stream", {"frame_bytes": 63}, "64 to 1518"),
        ("sing", {}, "no workload 'sing'"),
        ("udp_stream", {"frame_bytes": 64, "meter": "ping"}, "ping"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named_before_any_traffic(
    world: pw.World,
    ends: tuple[pw.Probe, pw.Probe],
    workload: str,
    parameters: dict[str, Any],
    complaint: str,
) -> None:
    with pytest.raises(pw.ProbeError, match=complaint):
        ends[0].ask(
            "arm", role="wrong", side="client", workload=workload, parameters=parameters,
            local=world.a.end(), peer=world.b.end(),
        )  # fmt: skip
    with pytest.raises(pw.ProbeError, match="no role 'wrong'"):
        ends[0].ask("disarm", role="wrong")


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    "parameters",
    [
        {"protocol": "icmp", "ip_packet_bytes": 1500},
        {"protocol": "icmp", "payload_bytes": 0},
        {"protocol": "icmp", "payload_bytes": 65_000},
        {"protocol": "udp", "payload_bytes": 64},
        {"protocol": "udp", "payload_bytes": 64, "idle": "poll"},
    ],
    ids=lambda parameters: "-".join(str(value) for value in parameters.values()),
)
def test_every_request_is_answered_or_lost_and_has_its_row(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, parameters: dict[str, Any]
) -> None:
    client, _ = pw.play(
        *ends, "rtt", world, version=version, count=40, interval_ns=2 * MS, timeout_ns=500 * MS, **parameters
    )
    sent, replies = client.columns["sent/1"], client.columns["rtt/1"]
    counters = client.counters
    assert list(sent["seq"]) == list(range(40))
    assert counters["sent_packets"] == 40 == counters["received_packets"] + counters["lost_packets"]
    assert counters["received_packets"] == len(replies["seq"]) == len(set(replies["seq"])) > 0
    assert np.all(np.diff(sent["intended_ns"]) == 2 * MS)
    assert np.all(sent["sent_ns"] >= sent["intended_ns"])
    assert np.all(replies["rtt_ns"] == replies["received_ns"] - replies["sent_ns"])
    assert np.all(replies["rtt_ns"] > 0)
    stamped = replies["path_rtt_ns"] >= 0
    assert np.all(replies["path_rtt_ns"][stamped] <= replies["rtt_ns"][stamped])
    assert int((~stamped).sum()) == counters["unstamped_packets"]


def test_columns_are_those_of_the_schemas_and_blocks_are_numbered(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    plays = {
        "rtt": {"count": 5, "interval_ns": MS, "payload_bytes": 56},
        "burst_load": {"burst_bytes": 1000, "period_ns": 5 * MS, "duration_ns": 30 * MS},
        "udp_stream": {
            "frame_bytes": 100,
            "rate_bit_per_s": 10**7,
            "duration_ns": 50 * MS,
            "keep_sent": True,
        },
        "tcp_stream": {"duration_ns": 150 * MS},
        "tcp_rr": {"duration_ns": 50 * MS},
        "raw_stream": {"frame_bytes": 64, "rate_pps": 1000, "duration_ns": 50 * MS},
    }
    seen = set()
    for workload, parameters in plays.items():
        for samples in pw.play(*ends, workload, world, **parameters):
            assert samples is not None
            for schema, columns in samples.columns.items():
                wanted = BLOCKS[schema].columns
                assert list(columns) == list(wanted)
                assert {name: column.dtype for name, column in columns.items()} == {
                    name: pw.DTYPES[dtype] for name, dtype in wanted.items()
                }
                assert samples.rows[schema] == len(next(iter(columns.values())))
                numbers = [number for of, number in samples.blocks if of == schema]
                assert numbers == list(range(len(numbers)))
                seen.add(schema)
    assert seen == {"sent/1", "rtt/1", "burst/1", "packet/1", "interval/1", "transaction/1"}


@pytest.mark.parametrize("payload_bytes", [1472, 1500, 8000])
def test_echoes_have_the_size_on_the_wire_that_was_asked_for(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], payload_bytes: int
) -> None:
    before = world.b.interface()
    client, _ = pw.play(*ends, "rtt", world, count=20, interval_ns=MS, payload_bytes=payload_bytes)
    after = world.b.interface()
    packet = payload_bytes + 8
    fragments = -(-packet // 1480)
    wanted = 20 * (packet + fragments * (20 + 14))
    other = 2_000  # neighbour discovery and the like of the same seconds
    assert client.counters["sent_packets"] == 20
    for direction in ("rx", "tx"):
        assert wanted <= after[f"{direction}_bytes"] - before[f"{direction}_bytes"] < wanted + other


def test_an_unanswered_request_has_no_row_and_times_out(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    parameters = {
        "protocol": "icmp",
        "payload_bytes": 56,
        "count": 5,
        "interval_ns": MS,
        "timeout_ns": 100 * MS,
    }
    ends[0].ask(
        "arm", role="role", side="client", workload="rtt", parameters=parameters, local=world.a.end(),
        peer={**world.b.end(), "address": "10.0.0.77"},
    )  # fmt: skip
    ends[0].ask("start", role="role")
    finished = ends[0].wait_event("finished", "role")
    samples = ends[0].collect("role")
    ends[0].ask("disarm", role="role")
    assert finished["reason"] == "complete"
    assert samples.rows == {"sent/1": 5, "rtt/1": 0}
    assert samples.counters["lost_packets"] == 5


def test_a_start_at_an_instant_is_not_early_and_marks_it(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    with pw.role(ends[0], None, "rtt", world, count=3, interval_ns=MS, payload_bytes=56):
        at_ns = ends[0].ask("clock")["raw_ns"] + 60 * MS
        assert ends[0].ask("start", role="role", at_ns=at_ns)["t_ns"] == at_ns
        assert ends[0].wait_event("started", "role")["t_ns"] == at_ns
        ends[0].wait_event("finished", "role")
        sent = ends[0].collect("role").columns["sent/1"]
        assert list(sent["intended_ns"]) == [at_ns, at_ns + MS, at_ns + 2 * MS]
        with pytest.raises(pw.ProbeError, match="arm it again"):
            ends[0].ask("start", role="role")


@pytest.mark.parametrize("origin", ["from", "to", "both"])
@pytest.mark.parametrize("direction", ["one_way", "request_reply"])
def test_bursts_keep_their_bytes_whoever_originates(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], origin: str, direction: str
) -> None:
    client, server = pw.play(
        *ends, "burst_load", world, burst_bytes=30_001, period_ns=10 * MS, streams=3, origin=origin,
        direction=direction, phase="random", stop_after_s=0.3,
    )  # fmt: skip
    assert server is not None
    for samples, originates in ((client, origin != "to"), (server, origin != "from")):
        rows = samples.columns.get("burst/1")
        assert (rows is not None) == originates
        if rows is None:
            continue
        shares = {0: 10_001, 1: 10_000, 2: 10_000}
        assert {stream: set(rows["sent_bytes"][rows["stream"] == stream]) for stream in range(3)} == {
            stream: {share} for stream, share in shares.items()
        }
        for stream in range(3):
            mine = rows["stream"] == stream
            assert list(rows["burst"][mine]) == list(range(int(mine.sum())))
            assert np.all(np.diff(rows["intended_ns"][mine]) == 10 * MS)
        whole = rows["finished_ns"] >= 0
        assert np.all(rows["replied_bytes"][whole] == rows["sent_bytes"][whole])
        assert bool(whole.any()) == (direction == "request_reply")
        assert np.all(rows["finished_ns"][whole] > rows["sent_ns"][whole])
        assert samples.counters["requests_sent_bytes"] == int(rows["sent_bytes"].sum())
    near, far = (client, server) if origin != "to" else (server, client)
    assert 0 < far.counters["requests_received_bytes"] <= near.counters["requests_sent_bytes"]


def test_icmp_bursts_are_answered_by_the_far_kernel(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, _ = pw.play(
        *ends, "burst_load", world, protocol="icmp", burst_bytes=85_000, period_ns=10 * MS, streams=2,
        direction="request_reply", duration_ns=100 * MS,
    )  # fmt: skip
    rows = client.columns["burst/1"]
    assert len(rows["burst"]) == 20
    assert set(rows["sent_bytes"]) == {42_500}
    assert client.counters["replies_received_bytes"] == int(rows["replied_bytes"].sum())


def test_a_load_of_nothing_sends_nothing_until_it_is_set(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    with pw.role(*ends, "burst_load", world, burst_bytes=0, period_ns=5 * MS):
        client, server = ends
        server.ask("start", role="role")
        client.ask("start", role="role")
        time.sleep(0.05)
        with pytest.raises(pw.ProbeError, match="burst_bytes can"):
            client.ask("set", role="role", parameter="period_ns", value=1)
        with pytest.raises(pw.ProbeError, match="at least 18 B"):
            client.ask("set", role="role", parameter="burst_bytes", value=1)
        changed = client.ask("set", role="role", parameter="burst_bytes", value=700)["t_ns"]
        time.sleep(0.5)
        client.ask("stop", role="role")
        server.ask("stop", role="role")
        rows = client.collect("role").columns["burst/1"]
        assert set(rows["sent_bytes"]) == {700}
        assert int(rows["sent_ns"].min()) >= changed


@pytest.mark.parametrize("version", [4, 6])
def test_a_paced_stream_sends_its_rate_and_every_datagram_arrives_or_is_lost(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int
) -> None:
    client, server = pw.play(
        *ends, "udp_stream", world, version=version, ip_packet_bytes=1000, rate_bit_per_s=8_000_000,
        duration_ns=300 * MS, keep_sent=True,
    )  # fmt: skip
    assert server is not None
    sent, packets = client.columns["sent/1"], server.columns["packet/1"]
    assert client.counters["sent_packets"] == 300 - client.counters["unsent_packets"] == len(sent["seq"])
    assert np.all(np.diff(sent["intended_ns"]) == MS)
    lost = client.counters["sent_packets"] - server.counters["received_packets"]
    assert lost >= 0
    assert len(set(packets["seq"])) == server.counters["received_packets"]
    assert set(packets["payload_bytes"]) == {1000 - 28 if version == 4 else 1000 - 48}
    assert np.all(packets["user_ns"] >= packets["received_ns"] - 1000)


def test_a_flood_loses_nothing_that_is_not_counted(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = pw.play(*ends, "udp_stream", world, frame_bytes=64, duration_ns=300 * MS)
    assert server is not None
    lost = client.counters["sent_packets"] - server.counters["received_packets"]
    assert lost >= 0
    assert server.counters["socket_drops"] <= lost
    assert bool(server.counters["socket_drops"]) == any(
        taint.startswith("socket_drops") for taint in server.taints
    )


def test_a_receive_buffer_of_the_study_is_granted_twice_and_what_it_drops_is_no_taint(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    asked_bytes = 106_496  # of which Linux grants the 212,992 B = 208 KiB that it gives by default
    client, server = pw.play(
        *ends, "udp_stream", world, payload_bytes=1470, duration_ns=200 * MS,
        send_buffer_bytes=asked_bytes, receive_buffer_bytes=asked_bytes,
    )  # fmt: skip
    assert server is not None
    assert {end.counters["socket_buffer_bytes"] for end in (client, server)} == {2 * asked_bytes}
    lost = client.counters["sent_packets"] - server.counters["received_packets"]
    assert 0 <= server.counters["socket_drops"] <= lost
    assert not any(taint.startswith("socket_drops") for taint in server.taints)


def test_a_flood_crosses_as_the_datagrams_it_counts_and_none_longer(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    before = world.b.interface()
    client, server = pw.play(*ends, "udp_stream", world, payload_bytes=1000, duration_ns=200 * MS)
    after = world.b.interface()
    assert server is not None
    sent, packets = client.counters["sent_packets"], server.columns["packet/1"]
    assert set(packets["payload_bytes"]) == {1000}
    assert list(packets["seq"]) == sorted(set(packets["seq"]))
    # The interface counts what crosses it: were pieces handed on whole, it would see far fewer.
    assert after["rx_packets"] - before["rx_packets"] >= server.counters["received_packets"]
    assert client.counters["cut_batches"] <= sent


def test_a_flood_in_front_of_a_queue_discipline_goes_datagram_by_datagram(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    world.shape(world.a, "tbf", "rate", "100mbit", "burst", "15kb", "latency", "20ms")
    try:
        client, server = pw.play(*ends, "udp_stream", world, payload_bytes=1000, duration_ns=100 * MS)
    finally:
        world.a.run("tc", "qdisc", "del", "dev", "eth0", "root")
    assert server is not None
    assert client.counters["cut_batches"] == 0
    assert 0 < server.counters["received_packets"] <= client.counters["sent_packets"]


def test_threads_share_the_flows_and_each_flow_stays_in_order(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    for rate in ({"rate_pps": 6000}, {}):
        client, server = pw.play(
            *ends, "raw_stream", world, frame_bytes=64, duration_ns=100 * MS, flows=5, threads=2, **rate
        )
        assert server is not None
        near, packets = client.counters, server.columns["packet/1"]
        sent = [near[f"flow{flow}.sent_packets"] for flow in range(5)]
        assert sum(sent) == near["sent_packets"]
        if rate:
            assert near["sent_packets"] == 600 - near["unsent_packets"]
        for flow in range(5):
            seq = packets["seq"][packets["flow"] == flow]
            assert list(seq) == sorted(set(seq))
            assert len(seq) == server.counters[f"flow{flow}.received_packets"] <= sent[flow]
            assert len(seq) > 0
    with pw.role(*ends, "raw_stream", world, frame_bytes=64, duration_ns=50 * MS, flows=2, threads=2):
        for end in reversed(ends):
            end.ask("start", role="role")
        ends[0].wait_event("finished", "role")
        assert [event["event"] for event in ends[0].events if event["role"] == "role"] == ["started"]
    with pytest.raises(pw.ProbeError, match="3 threads for 2 flows"):
        pw.play(*ends, "raw_stream", world, frame_bytes=64, duration_ns=MS, flows=2, threads=3)


def test_raw_frames_have_their_exact_size_and_flows_count_apart(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    for frame_bytes in (64, 65, 1518):
        before = world.b.interface()
        client, server = pw.play(
            *ends, "raw_stream", world, frame_bytes=frame_bytes, rate_pps=5000, duration_ns=100 * MS, flows=3
        )
        after = world.b.interface()
        assert server is not None
        packets, sent = server.columns["packet/1"], client.counters["sent_packets"]
        assert sent == 500 - client.counters["unsent_packets"]
        assert sent - server.counters["received_packets"] >= server.counters["ring_drops"] >= 0
        assert set(packets["payload_bytes"]) == {frame_bytes}
        assert set(packets["flow"]) == {0, 1, 2}
        for flow in range(3):
            seq = packets["seq"][packets["flow"] == flow]
            assert list(seq) == sorted(set(seq))
            assert int(seq.max()) < sent // 3 + 1
        arrived = server.counters["received_packets"] * (frame_bytes - 4)
        assert arrived <= after["rx_bytes"] - before["rx_bytes"] < arrived + 2_000


def test_a_dozen_flows_take_no_address_away_from_the_receiver(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    for _ in range(2):
        client, server = pw.play(
            *ends, "raw_stream", world, frame_bytes=64, rate_pps=6000, duration_ns=100 * MS, flows=12
        )
        assert server is not None
        sent = client.counters["sent_packets"]
        assert sum(client.counters[f"flow{flow}.sent_packets"] for flow in range(12)) == sent
        arrived = [server.counters[f"flow{flow}.received_packets"] for flow in range(12)]
        assert sum(arrived) == server.counters["received_packets"] > 0.5 * sent
        assert all(count > 0 for count in arrived)


@pytest.mark.parametrize("version", [4, 6])
def test_tcp_bytes_written_are_bytes_read(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int
) -> None:
    client, server = pw.play(
        *ends, "tcp_stream", world, version=version, duration_ns=350 * MS, streams=2, message_bytes=5000,
        send_buffer_bytes=65_536, receive_buffer_bytes=65_536,
    )  # fmt: skip
    assert server is not None
    rows, read = client.columns["interval/1"], server.columns["interval/1"]
    assert set(rows["flow"]) == {0, 1} == set(read["flow"])
    assert int(rows["sent_bytes"].sum()) <= client.counters["sent_bytes"]
    assert (
        int(read["received_bytes"].sum())
        <= server.counters["received_bytes"]
        <= client.counters["sent_bytes"]
    )
    assert server.counters["connections"] == 2
    assert np.all(rows["end_ns"] > rows["begin_ns"])
    assert np.all(rows["srtt_ns"] > 0)
    assert np.all(rows["cwnd_packets"] > 0)
    for flow in range(2):
        mine = rows["flow"] == flow
        assert list(rows["begin_ns"][mine][1:]) == list(rows["end_ns"][mine][:-1])


def test_transactions_follow_one_another(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = pw.play(
        *ends, "tcp_rr", world, duration_ns=150 * MS, request_bytes=3000, response_bytes=5000
    )
    assert server is not None
    rows = client.columns["transaction/1"]
    assert client.counters["transactions"] == len(rows["started_ns"]) <= server.counters["answered"]
    assert np.all(rows["started_ns"][1:] >= rows["finished_ns"][:-1])
    assert np.all(rows["finished_ns"] > rows["started_ns"])


def test_samples_beyond_the_spool_are_counted_and_taint(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    _, server = pw.play(
        *ends, "raw_stream", world, frame_bytes=64, rate_pps=50_000, duration_ns=600 * MS, spool_bytes=200_000
    )
    assert server is not None
    kept = server.rows["packet/1"]
    assert 0 < kept < server.counters["received_packets"]
    assert kept + server.counters["spool_overflow"] == server.counters["received_packets"]
    assert any(taint.startswith("spool_overflow") for taint in server.taints)


def test_control_answers_while_samples_are_sent(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = ends
    with pw.role(client, server, "raw_stream", world, frame_bytes=64, duration_ns=300 * MS):
        server.ask("start", role="role")
        client.ask("start", role="role")
        client.wait_event("finished", "role")
        server.ask("stop", role="role")
        server.blocks.clear()
        collecting = server.send("collect", role="role")
        asked = server.send("clock")
        server.reply(asked)
        before_clock = len(server.blocks)
        rows = server.reply(collecting)["rows"]["packet/1"]
        assert sum(len(columns["seq"]) for columns in pw.decode(server.blocks)[0].values()) == rows
        assert before_clock < len(server.blocks)


def test_a_role_cannot_be_collected_while_it_runs(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    with pw.role(ends[0], None, "rtt", world, interval_ns=10 * MS, payload_bytes=56):
        ends[0].ask("start", role="role")
        with pytest.raises(pw.ProbeError, match="still runs"):
            ends[0].ask("collect", role="role")
        ends[0].ask("stop", role="role")
        assert ends[0].wait_event("finished", "role")["reason"] == "stopped"


def test_when_control_ends_the_probe_ends_and_so_does_its_traffic(world: pw.World) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    pw.arm(client, server, "udp_stream", world, frame_bytes=200)
    server.ask("start", role="role")
    client.ask("start", role="role")
    client.close()
    server.close()
    assert client.process.wait(timeout=60) == 0
    assert server.process.wait(timeout=60) == 0
    before = world.b.interface()["rx_packets"]
    time.sleep(0.2)
    assert world.b.interface()["rx_packets"] - before < 10


def test_a_silent_control_plane_that_promised_a_heartbeat_stops_traffic_and_fails_the_role(
    world: pw.World,
) -> None:
    client = world.probe(world.a)
    client.ask("hello", protocol=[1, 0], heartbeat_ns=1000 * MS)
    with pw.role(client, None, "rtt", world, interval_ns=10 * MS, payload_bytes=56):
        client.ask("start", role="role")
        finished = client.wait_event("finished", "role")
        assert (finished["reason"], finished["failure"]) == ("failed", "no request came within the heartbeat")


def test_a_killed_probe_leaves_no_traffic(world: pw.World) -> None:
    client, server = world.probe(world.a), world.probe(world.b)
    pw.arm(client, server, "burst_load", world, burst_bytes=10_000, period_ns=5 * MS)
    client.ask("start", role="role")
    os.kill(client.process.pid, signal.SIGKILL)
    client.process.wait(timeout=10)
    before = world.b.interface()["rx_packets"]
    time.sleep(0.1)
    assert world.b.interface()["rx_packets"] - before < 10


@pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc")
@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        ("udp_stream", {"ip_packet_bytes": 1500}),
        ("raw_stream", {"frame_bytes": 1518}),
        ("burst_load", {"burst_bytes": 300_000, "period_ns": 10 * MS, "streams": 3}),
    ],
    ids=["udp_stream", "raw_stream", "burst_load"],
)
def test_a_vnic_that_holds_back_its_sender_loses_nothing_and_a_stop_is_still_obeyed(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], workload: str, parameters: dict[str, Any]
) -> None:
    htb = ["rate", "20mbit", "burst", "15k", "overhead", "24", "mpu", "84"]
    world.shape(world.a, "handle", "1:", "htb", "default", "1")
    world.a.run("tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", *htb)
    client, server = ends
    try:
        with pw.role(client, server, workload, world, **parameters):
            server.ask("start", role="role")
            begun = time.monotonic()
            client.ask("start", role="role")
            time.sleep(0.5)
            client.ask("stop", role="role")
            took_s = time.monotonic() - begun
            # What was taken is still on its way: the queue holds at most its 1000 packets, 0.6 s at this rate.
            time.sleep(2.5)
            server.ask("stop", role="role")
            near, far = client.collect("role").counters, server.collect("role").counters
    finally:
        world.a.run("tc", "qdisc", "del", "dev", "eth0", "root")
    own_drops = far["socket_drops"] + far.get("ring_drops", 0)
    assert 0 < near["sent_packets"] == far["received_packets"] + own_drops
    # Far less than was asked for: the sender was held back.
    assert near["sent_bytes"] < 20e6 / 8 * (took_s + 1.5)
