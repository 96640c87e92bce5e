"""Every shape of world is built for real, reaches itself, and is read back as planned."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Session, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

SHAPES: dict[str, dict[str, Any]] = {
    "no_switch": worlds.bridged(switches=0),
    "one_switch": worlds.bridged(switches=1),
    "two_switches": worlds.bridged(switches=2),
    "large_mtu": worlds.bridged(switches=1, mtu=9000),
    "ipv6": worlds.bridged(switches=1, ipv6=True),
    "live_arp": {**worlds.bridged(switches=1), "arp": "live"},
    "live_neighbour_discovery": {**worlds.bridged(switches=1, ipv6=True), "arp": "live"},
    "shaping_only": worlds.bridged(switches=2, realise="shaping"),
    "shaping_without_switch": worlds.bridged(switches=0, realise="shaping"),
    "native": worlds.native(),
    "star": worlds.star(),
    "one_host": worlds.one_host(),
}


def opened(world: dict[str, Any]) -> Session:
    plan = worlds.plan(world)
    assert Testbed().check(plan) == []
    return Testbed().open(plan, worlds.Patient())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_world_of_every_shape_reaches_itself(shape: str) -> None:
    with opened(SHAPES[shape]) as session:
        assert isinstance(session, TestbedSession)
        guests = session.describe().guests
        assert len(session.reached_ns) == len(guests)
        assert all(rtt_ns > 0 for rtt_ns in session.reached_ns.values())


def test_a_router_carries_between_two_networks() -> None:
    world = worlds.routed()
    with Testbed().open(worlds.echo_plan(world), worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == 20
        assert session.realised.objects["routes.a"].read_back["routes"][0]["via"] == "10.0.0.254"


def test_what_was_built_is_read_back_with_who_built_it() -> None:
    with opened(SHAPES["one_switch"]) as session:
        vnic = session.realised.objects["guests.a.vnics.eth0"]
        assert vnic.read_back["mac"] == "02:00:00:00:00:01"
        assert not any(vnic.read_back["offloads"][name] for name in ("tx", "sg", "tso", "gso"))
        shaped = [qdisc for qdisc in vnic.read_back["qdiscs"] if "rate_bit_per_s" in qdisc]
        assert [
            (qdisc["rate_bit_per_s"], qdisc["overhead_bytes"], qdisc["minimum_bytes"]) for qdisc in shaped
        ] == [(worlds.RATE, 24, 84)]
        assert session.realised.link_realisation() == "soft_switch"
        assert session.realised.objects["links.l0"].read_back["sleep_overshoot_p99_ns"] > 0
        assert session.realised.versions["agent_protocol"] == "1.0"


def test_shaping_is_declared_as_such() -> None:
    with opened(SHAPES["shaping_only"]) as session:
        assert session.realised.link_realisation() == "shaping"


def test_guests_that_cannot_reach_each_other_are_named() -> None:
    world = worlds.bridged(switches=1)
    world["guests"]["b"]["vnics"]["eth0"]["ip"] = ["10.9.9.2/24"]
    with pytest.raises(GuestError, match=r"guests\.a.*does not reach b"):
        Testbed().open(worlds.plan(world), worlds.Patient())


def test_an_echo_takes_the_time_of_its_serialisations() -> None:
    """1,000 B of IP are 1,038 octets, 83,040 ns on each link: two links out and two back with one switch, else
    three.
    """
    times = {}
    for switches in (1, 2):
        plan = worlds.echo_plan(worlds.bridged(switches=switches))
        with Testbed().open(plan, worlds.Patient()) as session:
            sink = worlds.MemorySink()
            session.run(Trial("t0", 1), sink)
        rtt = next(columns["path_rtt_ns"] for stream, schema, columns in sink.blocks if schema == "rtt/1")
        times[switches] = int(rtt.min())
    wire_ns = 1038 * 8 * 10
    assert times[1] >= 4 * wire_ns
    assert times[2] >= 6 * wire_ns
