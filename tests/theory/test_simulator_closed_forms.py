"""What a network of FIFO links takes is known in closed form; the simulator must give it.

A frame of an IP packet of b bytes holds 100 Mbit/s for (b + 38) * 80 ns and has wholly come 12 octets before that ends.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.contract.closed_form import fragments, one_way_ns, path_between
from tests.theory.simulated import beside, counters, parsed, simulated, values_of


@pytest.mark.parametrize(("switches", "rtt_ns"), [(0, 244_160), (1, 488_320), (2, 732_480)])
@pytest.mark.parametrize("pushback", [False, True])
@pytest.mark.parametrize("protocol", ["icmp", "udp"])
def test_an_echo_takes_one_serialisation_per_link(
    switches: int, rtt_ns: int, pushback: bool, protocol: str
) -> None:
    _, kept = simulated(values_of(switches=switches, pushback=pushback, protocol=protocol))
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {rtt_ns}
    assert set(kept.column("probe", "rtt/1", "path_rtt_ns")) == {rtt_ns}


@pytest.mark.parametrize("size", [28, 46, 1500, 1501, 1528, 2980, 65_000, 65_535])
@pytest.mark.parametrize("switches", [1, 2])
@pytest.mark.parametrize("pushback", [False, True])
def test_fragments_follow_each_other_through_the_links(size: int, switches: int, pushback: bool) -> None:
    values = values_of(switches=switches, pushback=pushback, ip_packet_bytes=size, interval_ns=50_000_000)
    _, kept = simulated(values)
    path = path_between(parsed(values), "a", "b")
    exact = 2 * one_way_ns(fragments(size, 1500), path)
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {exact}
    if (size, switches) == (65_000, 1):
        assert round(exact / 1e6, 2) == 11.05


def test_a_second_of_propagation_and_processing_is_added_once_per_way() -> None:
    values = values_of()
    values["world"]["switches"]["s1"] = {"processing_ns": 700}
    values["world"]["links"]["l1"]["propagation_ns"] = 30_000
    _, kept = simulated(values)
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {488_320 + 2 * (700 + 30_000)}


def test_a_stream_as_fast_as_possible_fills_the_link_and_loses_nothing() -> None:
    """1472 B of payload hold 1538 octets of wire: 95.71 Mbit/s."""
    values = values_of(pushback=True, limit_packets=100)
    values["roles"]["stream"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": 1472, "duration_ns": 500_000_000,
    }  # fmt: skip
    values["timeline"] = [
        {"id": "stream", "do": "run", "role": "stream"},
        {"id": "drain", "do": "wait", "for_ns": 200_000_000, "after": {"event": "stream.finished"}},
    ]
    values["windows"] = {}
    values["collect"]["packets"] = ["stream"]
    _, kept = simulated(values)
    received = kept.column("stream", "packet/1", "received_ns")
    gaps = np.diff(received)
    assert set(gaps[20:]) == {123_040}
    end = counters(kept, "stop")
    assert end["stream/client", "sent_packets"] == end["stream/server", "received_packets"] == len(received)
    assert math.isclose(1472 * 8 / 123.04e-6, 95.71e6, rel_tol=1e-3)


@pytest.mark.parametrize("streams", [1, 7])
@pytest.mark.parametrize("origin", ["from", "to", "both"])
def test_every_packet_arrives_or_is_dropped_and_counted(streams: int, origin: str) -> None:
    values = values_of(count=200, limit_packets=8)
    load = {
        "burst_bytes": 100_000, "period_ns": 10_000_000, "streams": streams, "origin": origin, "phase": "random",
        "duration_ns": 1_500_000_000,
    }  # fmt: skip
    values = beside(values, load)
    values["timeline"][-1]["for_ns"] = 2_000_000_000
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    end = counters(kept, "end")
    vnics = [f"guests.{guest}.vnics.eth0" for guest in "ab"]
    sent = sum(end[vnic, "sent_packets"] for vnic in vnics)
    received = sum(end[vnic, "received_packets"] for vnic in vnics)
    drops = sum(value for (_, counter), value in end.items() if counter == "drops")
    assert drops > 0
    assert sent == received + drops
    sent_bytes = sum(end[vnic, "sent_bytes"] for vnic in vnics)
    assert sent_bytes > sum(end[vnic, "received_bytes"] for vnic in vnics)
    stop = counters(kept, "stop")
    for client, server in (("client", "server"), ("server", "client")):
        asked = stop.get((f"load/{client}", "requests_sent_packets"), 0)
        assert stop.get((f"load/{server}", "requests_received_packets"), 0) <= asked
