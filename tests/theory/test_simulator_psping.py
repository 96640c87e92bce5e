"""psping and a router's licence in the simulator against what can be computed by hand.

A licence lets B bytes of frames through in 8 B / R; a request that waits for its answer leaves the bucket no time to
fill, so each takes as long as its own frames: n segments of TCP carry 66 B of headers each (14 Ethernet, 20 IP, 32
TCP), a datagram 42 B. What lies beyond the licence, 1 Gbit/s, is hidden behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.routed import routed
from tests.theory.simulated import counters

from virtlab.experiment import load
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

RATE_BIT_PER_S = 2_500_000
LICENCE = ", licence: 2.5 Mbit/s"
SEGMENT_BYTES = 1448
HEADERS_BYTES = {"tcp": 66, "udp": 42}


def played(plan: Plan, seed: int = 1) -> tuple[Outcome, Kept]:
    assert Simulator().check(plan) == []
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", seed), kept)
    assert outcome.status == "ok", outcome.reasons
    return outcome, kept


def psping(router: str = LICENCE, **said: Any) -> tuple[dict[str, Any], Kept]:
    """Columns of the requests of one test, in the order of their numbers."""
    _, kept = played(routed({"test": {"workload": "psping", **said}}, router=router))
    columns = {
        name: kept.column("test", "request/1", name)
        for name in ("seq", "sent_ns", "finished_ns", "payload_bytes")
    }
    order = np.argsort(columns["seq"])
    return {name: column[order] for name, column in columns.items()}, kept


def frames_bytes(size_bytes: int, protocol: str) -> int:
    """Bytes of frames, header without FCS, that carry a request."""
    segments = -(-size_bytes // SEGMENT_BYTES) if protocol == "tcp" else 1
    return size_bytes + segments * HEADERS_BYTES[protocol]


@pytest.mark.parametrize(("protocol", "size_bytes"), [("tcp", 32), ("tcp", 8192), ("udp", 32), ("udp", 1400)])
def test_a_request_takes_the_time_that_the_licence_gives_its_frames(protocol: str, size_bytes: int) -> None:
    rows, _ = psping(test="latency", protocol=protocol, size=f"{size_bytes} B", count=60, warmup=40)
    times = (rows["finished_ns"] - rows["sent_ns"])[rows["seq"] >= 0]
    expected_ns = frames_bytes(size_bytes, protocol) * 8 * 10**9 / RATE_BIT_PER_S
    assert times.size == 60
    assert np.median(times) == pytest.approx(expected_ns, rel=1e-6)


def test_the_published_28_ms_of_8192_bytes_are_those_of_the_licence() -> None:
    rows, _ = psping(test="latency", size="8192 B", count=20)
    times = (rows["finished_ns"] - rows["sent_ns"])[rows["seq"] >= 0]
    assert np.median(times) == pytest.approx(27_481_600, abs=100)


def test_a_bucket_that_had_time_to_fill_shortens_a_request() -> None:
    """A request each 100 ms finds 3076 B of tokens: three frames of 1514 B go before it is overdrawn."""
    rows, _ = psping(test="latency", size="8192 B", count=5, warmup=0, interval="100 ms")
    times = rows["finished_ns"] - rows["sent_ns"]
    ahead_bytes = (
        8192 + 6 * 66 - 3076 - (8192 - 5 * SEGMENT_BYTES + 66)
    )  # the last frame goes when the bucket is empty
    assert np.all(times >= ahead_bytes * 8 * 10**9 / RATE_BIT_PER_S)
    assert np.all(times < 27_481_600)


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_bandwidth_is_the_licences_share_of_payload(protocol: str) -> None:
    size_bytes = 8192 if protocol == "tcp" else 1400
    rows, _ = psping(test="bandwidth", protocol=protocol, size=f"{size_bytes} B", count=300, outstanding=16)
    finished, late = rows["finished_ns"], rows["seq"] >= 50
    steady = np.sort(finished[late])
    byte_per_s = (steady.size - 1) * size_bytes / ((steady[-1] - steady[0]) / 1e9)
    share = size_bytes / frames_bytes(size_bytes, protocol)
    assert byte_per_s == pytest.approx(RATE_BIT_PER_S / 8 * share, rel=0.005)


def test_as_many_requests_are_under_way_as_asked_for_and_no_more() -> None:
    rows, _ = psping(test="bandwidth", size="512 B", count=200, warmup=0, outstanding=7)
    events = sorted([(at, 1) for at in rows["sent_ns"]] + [(at, -1) for at in rows["finished_ns"]])
    assert max(np.cumsum([step for _, step in events])) == 7


def test_what_the_licence_has_no_room_for_is_lost_and_not_a_number() -> None:
    """300 datagrams at once: 100 wait, a few pass as the bucket is full, the others are lost after their time-out."""
    rows, kept = psping(
        test="bandwidth", protocol="udp", size="1000 B", count=300, warmup=0, outstanding=300, timeout="2 s"
    )
    lost = int((rows["finished_ns"] == -1).sum())
    dropped = sum(value for (_, name), value in counters(kept, "end").items() if name == "tx_dropped")
    assert list(rows["seq"]) == list(range(300))
    assert lost == dropped
    assert 300 - lost == pytest.approx(100, abs=20)


def test_requests_of_the_warm_up_have_numbers_below_zero_and_the_interval_is_kept() -> None:
    rows, _ = psping("", test="latency", count=10, warmup=3, interval="5 ms")
    assert list(rows["seq"]) == list(range(-3, 10))
    assert np.all(np.diff(rows["sent_ns"]) == 5_000_000)


def test_a_bound_ends_the_test_with_requests_left() -> None:
    rows, kept = psping("", test="latency", count=1000, warmup=0, interval="10 ms", at_most="95 ms")
    assert len(rows["seq"]) == 10
    unsent = {value for (_, name), value in counters(kept, "stop").items() if name == "unsent_requests"}
    assert unsent == {990}


def test_reverse_puts_the_payload_on_the_way_back() -> None:
    rows, kept = psping("", test="bandwidth", size="8192 B", count=50, warmup=0, reverse=True)
    totals = {name: value for (_, name), value in counters(kept, "stop").items()}
    assert set(rows["payload_bytes"]) == {8192}
    assert (totals["sent_bytes"], totals["received_bytes"]) == (50, 50 * 8192)


def test_a_tcp_ping_is_a_handshake_each_time() -> None:
    """SYN and SYN+ACK of 74 B frames over four stores at 1 Gbit/s, 96 B on the wire with FCS, preamble and gap."""
    rows, _ = psping("", test="ping", protocol="tcp", count=20, warmup=1, interval="1 ms")
    times = rows["finished_ns"] - rows["sent_ns"]
    assert list(rows["seq"]) == list(range(-1, 20))
    assert len(set(times)) == 1
    one_way_ns = 2 * (74 + 24) * 8  # two cables, each holds the frame for its serialisation time
    assert times[0] == pytest.approx(2 * one_way_ns, rel=0.25)


def test_an_icmp_ping_keeps_the_rows_of_rtt() -> None:
    _, kept = played(
        routed({"test": {"workload": "psping", "test": "ping", "protocol": "icmp", "count": 20, "warmup": 1}})
    )
    assert list(kept.column("test", "rtt/1", "seq")) == list(range(21))


def test_a_stream_through_a_licence_gets_the_licences_rate_and_no_frame_is_unaccounted_for() -> None:
    plan = routed(
        {"test": {"workload": "udp_stream", "rate": "5 Mbit/s", "size": "1472 B payload", "duration": "4 s"}},
        router=LICENCE,
    )
    _, kept = played(plan)
    totals = {name: value for (_, name), value in counters(kept, "stop").items()}
    arrived = kept.column("test", "packet/1", "received_ns")
    spacing_ns = np.diff(arrived)[150:]
    assert np.median(spacing_ns) == pytest.approx(1514 * 8 * 10**9 / RATE_BIT_PER_S, rel=1e-6)
    dropped = sum(value for (_, name), value in counters(kept, "end").items() if name == "tx_dropped")
    waiting = totals["sent_packets"] - dropped - arrived.size
    assert dropped > 0
    assert 0 <= waiting <= 100


@pytest.mark.slow
@pytest.mark.parametrize("routers", [1, 3])
def test_ospf_is_played_as_the_static_routes_that_it_converges_to(routers: int) -> None:
    role = {"test": {"workload": "psping", "test": "latency", "size": "100 B", "count": 5}}
    found = []
    for routing in ("static", "ospf"):
        plan = routed(role, router=f"{LICENCE}, routing: {routing}", routers=routers)
        _, kept = played(plan)
        found.append(list(kept.column("test", "request/1", "finished_ns")))
        with Simulator().open(plan, Watcher()) as session:
            said = session.realised.objects["guests.r1"].read_back
        assert ("as OSPF has converged" in said.get("routing", "")) is (routing == "ospf")
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_triangle_of_the_study_takes_the_direct_side() -> None:
    from pathlib import Path

    from virtlab.simulator.ospf import converged

    experiment = load(Path(__file__).parents[2] / "experiments" / "virtual-routers" / "full-ospf.yaml")
    point = next(point for point in experiment.points() if point.levels["routing"] == "ospf")
    plan = plan_run(experiment, point, 0)
    routes = converged(plan)
    assert set(routes) == {"r1", "r2", "r3"}
    for own in routes.values():
        assert len(own) == 3  # two stubs and the far side
        assert len({route.to for route in own}) == 3
    _, kept = played(plan)
    assert (kept.column("small", "request/1", "finished_ns") > 0).all()
