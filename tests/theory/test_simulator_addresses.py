"""IPv6, questions for hardware addresses, and several MTUs: what they take on the wire is known in closed form.

A frame of f octets (header to FCS, 64 at least) has wholly come over 100 Mbit/s after (f + 8) * 80 ns, preamble with
it. A packet of IPv6 has a header of 40 B, a fragment of it 8 B more (RFC 8200). ARP takes 64 octets of frame, a
neighbour solicitation and its advertisement 90 each.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.contract.closed_form import one_way_ns, path_between
from tests.theory.routed import in_ipv6, routed
from tests.theory.simulated import Values, counters, parsed, simulated, values_of

from virtlab.plan import Plan
from virtlab.simulator import Simulator

BIT_NS = 10  # at 100 Mbit/s
ARP_NS = (64 + 8) * 8 * BIT_NS
SOLICITATION_NS = (90 + 8) * 8 * BIT_NS
PROBE_PATH = "guests.{}.vnics.eth0"


def by_ipv6(values: Values) -> Values:
    """The same guests with addresses of IPv6."""
    for last, name in enumerate("ab", 1):
        values["world"]["guests"][name]["vnics"]["eth0"]["ip"] = [f"fd00::{last}/64"]
    return values


def fragments_of_ipv6(packet_bytes: int, mtu_bytes: int = 1500) -> list[int]:
    """Sizes of the packets that one is carried in."""
    if packet_bytes <= mtu_bytes:
        return [packet_bytes]
    room, left, sizes = (mtu_bytes - 48) // 8 * 8, packet_bytes - 40, []
    while left > 0:
        sizes.append(48 + min(room, left))
        left -= room
    return sizes


@pytest.mark.parametrize("size", [48, 1500, 1501, 1528, 2944, 65_000, 65_535])
@pytest.mark.parametrize("switches", [0, 1, 2])
@pytest.mark.parametrize("protocol", ["icmp", "udp"])
def test_an_echo_over_ipv6_takes_its_fragments_one_serialisation_per_link(
    size: int, switches: int, protocol: str
) -> None:
    size = max(size, 66) if protocol == "udp" else size
    values = by_ipv6(
        values_of(switches=switches, ip_packet_bytes=size, protocol=protocol, interval_ns=50_000_000)
    )
    _, kept = simulated(values)
    path = path_between(parsed(values), "a", "b")
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {2 * one_way_ns(fragments_of_ipv6(size), path)}


def test_tcp_over_ipv6_reads_1428_of_1538_octets() -> None:
    values = by_ipv6(values_of(pushback=True))
    values["roles"]["probe"] = {
        "workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 2 * 10**9,
    }  # fmt: skip
    _, kept = simulated(values)
    rows = {
        name: kept.column("probe", "interval/1", name) for name in ("received_bytes", "begin_ns", "end_ns")
    }
    read = rows["received_bytes"] > 0
    spent_ns = int(rows["end_ns"][read].max() - rows["begin_ns"][read].min())
    goodput = float(rows["received_bytes"].sum()) * 8e9 / spent_ns
    assert goodput == pytest.approx(1e8 * 1428 / 1538, rel=0.01)


def test_where_both_ends_have_both_versions_the_role_says_which() -> None:
    took = {}
    for family in ("ipv4", "ipv6"):
        values = values_of(payload_bytes=64, family=family)
        del values["roles"]["probe"]["ip_packet_bytes"]
        for last, name in enumerate("ab", 1):
            values["world"]["guests"][name]["vnics"]["eth0"]["ip"].append(f"fd00::{last}/64")
        _, kept = simulated(values)
        (took[family],) = set(kept.column("probe", "rtt/1", "rtt_ns"))
    assert took["ipv6"] - took["ipv4"] == 2 * 2 * 20 * 8 * BIT_NS


def routed_by_ipv6(size: int) -> Plan:
    """g1 - r1 - g1 over links of 1 Gbit/s, every network one of IPv6."""
    return in_ipv6(routed({"probe": {"workload": "rtt", "size": f"{size} B ip_packet", "count": 5}}))


@pytest.mark.parametrize("size", [128, 1500, 4000])
def test_routers_forward_ipv6_as_they_do_ipv4(size: int) -> None:
    plan = routed_by_ipv6(size)
    assert not Simulator().check(plan)
    outcome, kept = simulated(json.loads(plan.canonical()))
    assert outcome.status == "ok", outcome.reasons
    assert len(kept.column("probe", "rtt/1", "rtt_ns")) == 5
    hops = fragments_of_ipv6(size)
    # Two links of 1 Gbit/s each way, store and forward.
    arrival = [0, 0]
    free = [0, 0]
    for packet in hops:
        at = 0
        for link in range(2):
            start = max(at, free[link])
            at = start + (packet + 18 + 8) * 8
            free[link] = start + (packet + 38) * 8
        arrival = [at, at]
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {2 * arrival[1]}


def live(values: Values) -> Values:
    """Guests that ask."""
    values["world"]["arp"] = "live"
    return values


@pytest.mark.parametrize("switches", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 6])
def test_only_the_first_echo_waits_for_a_question_and_its_answer(switches: int, version: int) -> None:
    values = live(values_of(switches=switches))
    values = by_ipv6(values) if version == 6 else values
    _, kept = simulated(values)
    rtt = kept.column("probe", "rtt/1", "rtt_ns")
    asked = 2 * (switches + 1) * (ARP_NS if version == 4 else SOLICITATION_NS)
    assert set(rtt[1:]) == {244_160 * (switches + 1)}
    assert rtt[0] == rtt[1] + asked
    assert set(kept.column("probe", "rtt/1", "path_rtt_ns")) == {rtt[1]}, "from when the packet left"


def test_switches_flood_the_question_and_learn_from_it() -> None:
    """A guest that nobody talks to sees the question, and nothing else."""
    values = live(values_of(switches=1))
    other = json.loads(json.dumps(values["world"]["guests"]["b"]))
    other["vnics"]["eth0"] |= {"ip": ["10.0.0.3/24"], "mac": "02:00:00:00:00:03"}
    values["world"]["guests"]["c"] = {**other, "host": "h3"}
    world = values["world"]
    world["hosts"]["h3"] = {}
    world["vswitches"]["h3.br"] = {"host": "h3", "kind": "linux_bridge", "uplinks": ["h3.up"]}
    world["guests"]["c"]["vnics"]["eth0"]["vswitch"] = "h3.br"
    world["links"]["l2"] = {**world["links"]["l1"], "ends": ["s1.p3", "h3.up"]}
    _, kept = simulated(values)
    end = counters(kept, "end")
    probes = 30
    assert end[PROBE_PATH.format("c"), "received_packets"] == 1
    assert end[PROBE_PATH.format("c"), "rx_dropped"] == 0
    assert end[PROBE_PATH.format("b"), "received_packets"] == probes + 1
    assert end[PROBE_PATH.format("a"), "received_packets"] == probes + 1


def test_packets_that_wait_for_an_address_go_in_order_and_the_oldest_are_given_up() -> None:
    """212,992 B of memory hold 92 frames of 1514 B, which take 2304 B each; 200 come in 20 us, before any answer."""
    values = live(values_of())
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "ip_packet_bytes": 1500, "rate_bit_per_s": 120 * 10**9,
        "duration_ns": 20_000,
    }  # fmt: skip
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    assert counters(kept, "end")[PROBE_PATH.format("a"), "tx_dropped"] == 200 - 92
    assert list(kept.column("probe", "packet/1", "seq")) == list(range(108, 200))


def test_a_neighbour_is_looked_after_again_while_its_packets_go_on() -> None:
    """Over a minute of echoes both guests ask again, and no echo waits but the first."""
    values = live(values_of(count=900, interval_ns=70_003_000))
    _, kept = simulated(values)
    rtt = kept.column("probe", "rtt/1", "rtt_ns")
    assert rtt[0] == 488_320 + 4 * ARP_NS
    assert set(rtt[1:]) == {488_320}
    asked = counters(kept, "end")[PROBE_PATH.format("a"), "sent_packets"] - 900
    assert 3 <= asked <= 10


def test_equal_seeds_ask_at_equal_instants() -> None:
    values = live(values_of(count=900, interval_ns=70_000_000))
    first, second = (simulated(values, seed=3)[1].column("probe", "rtt/1", "rtt_ns") for _ in range(2))
    assert np.array_equal(first, second)


def test_whom_no_question_reaches_is_asked_three_times_and_given_up_after_three_seconds() -> None:
    values = live(values_of(count=4, interval_ns=500_000_000, timeout_ns=5_000_000_000))
    for vswitch in values["world"]["vswitches"].values():
        vswitch["flooding"] = False
    _, kept = simulated(values)
    end = counters(kept, "end")
    assert end[PROBE_PATH.format("a"), "sent_packets"] == 3
    assert end[PROBE_PATH.format("a"), "tx_dropped"] == 4
    assert counters(kept, "stop")["probe/client", "lost_packets"] == 4


@pytest.mark.slow
def test_every_router_on_the_way_asks_for_the_next() -> None:
    """Two links of 1 Gbit/s: the sender asks for the router, the router for the receiver; on the way back all are
    known.
    """
    plan = routed({"probe": {"workload": "rtt", "size": "1500 B ip_packet", "count": 5}})
    values = json.loads(plan.canonical())
    values["world"]["arp"] = "live"
    _, kept = simulated(values)
    rtt = kept.column("probe", "rtt/1", "rtt_ns")
    assert rtt[0] - rtt[1] == 2 * 2 * (64 + 8) * 8
    assert len(set(rtt[1:])) == 1


def with_mtu(values: Values, guest: str, mtu_bytes: int) -> Values:
    values["world"]["guests"][guest]["vnics"]["eth0"]["mtu_bytes"] = mtu_bytes
    return values


def test_ports_of_one_network_have_one_mtu() -> None:
    (found,) = Simulator().check(parsed(with_mtu(values_of(ip_packet_bytes=1000), "a", 9000)))
    assert (found.path, "9000 B" in found.reason) == ("guests.b.vnics.eth0.mtu_bytes", True)


def narrowed(size: int, workload: dict[str, Any] | None = None) -> Plan:
    """Guests with MTUs of 3000 B, and between the two routers 1500 B."""
    roles = {"probe": workload or {"workload": "rtt", "size": f"{size} B ip_packet", "count": 5}}
    values = json.loads(routed(roles, routers=2).canonical())
    for guest in values["world"]["guests"].values():
        for vnic in guest["vnics"].values():
            vnic["mtu_bytes"] = 3000
    shared: dict[str, list[Any]] = {}
    for name in ("r1", "r2"):
        for vnic in values["world"]["guests"][name]["vnics"].values():
            shared.setdefault(vnic["ip"][0].rpartition(".")[0], []).append(vnic)
    (between,) = (vnics for vnics in shared.values() if len(vnics) == 2)
    for vnic in between:
        vnic["mtu_bytes"] = 1500
    return Plan.parse(json.dumps(values))


@pytest.mark.slow
def test_a_router_cuts_what_is_too_long_for_its_next_link() -> None:
    plan = narrowed(3000)
    assert not Simulator().check(plan)
    outcome, kept = simulated(json.loads(plan.canonical()))
    assert outcome.status == "ok", outcome.reasons
    # 2980 B of body: 1480, 1480 and 20 B behind headers of 20 B, from the first router on.
    parts, at = [1500, 1500, 40], (3000 + 26) * 8
    arrivals = [at] * len(parts)
    for _ in range(2):
        free = 0
        for number, octets in enumerate(parts):
            start = max(arrivals[number], free)
            frame = max(octets + 18, 64)
            arrivals[number], free = start + (frame + 8) * 8, start + (frame + 20) * 8
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {2 * arrivals[-1]}
