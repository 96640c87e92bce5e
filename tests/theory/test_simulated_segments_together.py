"""Segments of TCP that go together through a router, a token bucket, a vNIC that takes none, a link that is too narrow.

Closed forms: a bucket counts what the segments will be cut into, with each one's headers. A vNIC without offloads is
crossed by frames that fit alone. A packet that is too long is one packet, however many segments it holds.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract.test_backend_contract import Kept
from tests.theory.routed import routed
from tests.theory.simulated import Values, counters
from tests.theory.test_simulated_platform_forms import on_one_bridge, played, profile

SECOND_NS = 10**9
FULL_BYTES = 1448
FRAME_BYTES = 14 + 20 + 32 + FULL_BYTES
STREAM = {"workload": "tcp_stream", "duration": "1 s"}


def on_bridges(role: dict[str, Any], *, licence: str = "", routers: int = 1) -> Values:
    """Client and server on virtual switches, a router between each two of them, and no links."""
    plan = routed({"probe": role}, router=f", licence: {licence}" if licence else "", routers=routers)
    values: Values = json.loads(plan.canonical())
    world = values["world"]
    switches = {
        uplink: name for name, vswitch in world["vswitches"].items() for uplink in vswitch.get("uplinks", ())
    }
    joined = [sorted(switches[end] for end in link["ends"]) for link in world["links"].values()]
    for guest in world["guests"].values():
        for vnic in guest["vnics"].values():
            vnic.pop("pushback_bit_per_s", None)
            (vnic["vswitch"],) = (first for first, second in joined if vnic["vswitch"] in {first, second})
            vnic["offloads"] = "default"
    for vswitch in world["vswitches"].values():
        vswitch["uplinks"] = []
    world["links"] = {}
    values["collect"]["counters"] = ["vnics"]
    return values


def ports(values: Values) -> dict[str, tuple[str, str]]:
    """Guest and vNIC on the way there: the client's, the router's two, the server's."""
    guests = values["world"]["guests"]
    found = {}
    for side, guest in (("client", "h1.g1"), ("server", "h2.g1")):
        (found[side],) = ((guest, name) for name in guests[guest]["vnics"])
    for side, beside in (("in", "client"), ("out", "server")):
        guest, name = found[beside]
        switch = guests[guest]["vnics"][name]["vswitch"]
        (found[side],) = (
            ("r1", own) for own, vnic in guests["r1"]["vnics"].items() if vnic["vswitch"] == switch
        )
    return found


def mean_bytes(kept: Kept, port: tuple[str, str], way: str) -> float:
    """Of the frames that a vNIC sent or received."""
    end = counters(kept, "end")
    name = f"guests.{port[0]}.vnics.{port[1]}"
    return end[name, f"{way}_bytes"] / end[name, f"{way}_packets"]


def test_segments_cross_a_router_together_and_its_licence_counts_their_headers() -> None:
    values = on_bridges(STREAM, licence="100 Mbit/s")
    _, kept = played(values, profile())
    assert mean_bytes(kept, ports(values)["out"], "sent") > 2 * FRAME_BYTES, "they did"
    received = kept.column("probe", "interval/1", "received_bytes")
    steady = received[received > 0][1:9]  # with the server's rows alone
    assert steady.mean() * 80 == pytest.approx(1e8 * FULL_BYTES / FRAME_BYTES, rel=0.015)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("off", "long", "short"),
    [
        ("in", [("client", "sent")], [("in", "received"), ("out", "sent"), ("server", "received")]),
        ("out", [("client", "sent"), ("in", "received")], [("out", "sent"), ("server", "received")]),
        ("server", [("client", "sent"), ("in", "received"), ("out", "sent")], [("server", "received")]),
    ],
)
def test_a_vnic_that_takes_none_together_gets_them_one_by_one(
    off: str, long: list[tuple[str, str]], short: list[tuple[str, str]]
) -> None:
    values = on_bridges(STREAM | {"duration": "100 ms"})
    place = ports(values)
    guest, name = place[off]
    values["world"]["guests"][guest]["vnics"][name]["offloads"] = "off"
    _, kept = played(values, profile())
    assert all(mean_bytes(kept, place[port], way) > 2 * FRAME_BYTES for port, way in long)
    assert all(mean_bytes(kept, place[port], way) <= FRAME_BYTES for port, way in short)
    assert kept.column("probe", "interval/1", "received_bytes").sum() > 10_000_000


@pytest.mark.slow
def test_what_is_too_long_for_a_router_is_one_packet_and_told_of_once() -> None:
    request = {
        "workload": "tcp_rr",
        "request": "10 kB",
        "response": "1 B",
        "duration": "100 ms",
    }
    values = on_bridges(request, routers=2)
    for guest, name in (("r1", "eth1"), ("r2", "eth0")):
        values["world"]["guests"][guest]["vnics"][name]["mtu_bytes"] = 1000
    _, kept = played(values, profile())
    end = {
        name: value for (name, counter), value in counters(kept, "end").items() if counter == "sent_packets"
    }
    told = end["guests.r1.vnics.eth0"] - end["guests.h2.g1.vnics.eth0"]
    assert told == 1, "beside what it forwards from the server"
    assert dict(counters(kept, "stop"))["probe/client", "transactions"] > 10


def test_a_bucket_takes_two_short_segments_for_two_frames() -> None:
    """Of a request's 696 B, in segments of 348 B, at 1 Mbit/s; ten frames of 1538 B go at once."""
    request = {"workload": "tcp_rr", "request_bytes": 696, "response_bytes": 1, "duration_ns": 2 * SECOND_NS}
    values = on_one_bridge(request, offloads="default")
    values["world"]["guests"]["b"]["vnics"]["eth0"]["mtu_bytes"] = 400
    values["world"]["guests"]["a"]["vnics"]["eth0"]["pushback_bit_per_s"] = 1_000_000
    _, kept = played(values, profile())
    told = {name: value for (_, name), value in counters(kept, "stop").items()}
    request_bytes, answer_bytes = 2 * (348 + 66 + 24), 66 + 24
    bucket_bytes = 2 * 1_000_000 / 8 + 10 * 1538
    least, most = bucket_bytes / (request_bytes + answer_bytes), bucket_bytes / request_bytes
    assert least - 3 <= told["transactions"] <= most + 3
