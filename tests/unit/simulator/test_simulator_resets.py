"""A guest that is reset in virtual time: its vNICs are down for as long as asked, and then all goes on as before."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import Values, counters, parsed, simulated, values_of
from tests.unit.simulator.test_simulator import routed

from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile

RATE_PPS = 1000
DOWN_NS = 100_000_000


def reset(guest: str, down_ns: int = DOWN_NS, plus_ns: int = 200_000_000) -> dict[str, Any]:
    after = {"event": "measure.started", "plus_ns": plus_ns}
    return {"id": "cut", "do": "reset", "guest": guest, "for_ns": down_ns, "after": after}


def stream(values: Values, **more: Any) -> Values:
    """A thousand datagrams a second for half a second."""
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": 958, "rate_bit_per_s": 986 * 8 * RATE_PPS,
        "duration_ns": 500_000_000, **more,
    }  # fmt: skip
    values["collect"]["packets"] = ["probe"]
    return values


@pytest.mark.parametrize("guest", ["a", "b", "r"])
def test_what_meets_a_guest_that_is_down_is_lost_and_all_else_arrives(guest: str) -> None:
    values = stream(routed())
    values["timeline"].append(reset(guest))
    assert not Simulator().check(parsed(values))
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    down, up = outcome.marks["cut.started"].t_ns, outcome.marks["cut.done"].t_ns
    assert up - down == DOWN_NS
    seq = kept.column("probe", "packet/1", "seq")
    missing = sorted(set(range(500)) - set(seq.tolist()))
    assert len(missing) == 100
    assert missing == list(range(missing[0], missing[0] + 100)), "one gap, as long as the reset"
    end = counters(kept, "end")
    dropped = sum(
        end[name, counter]
        for (name, counter) in end
        if counter in {"rx_dropped", "tx_dropped"} and name.startswith(f"guests.{guest}.")
    )
    assert dropped == 100


def test_a_frame_that_is_on_the_wire_as_the_guest_comes_up_arrives() -> None:
    """1500 B take 123.04 us on each of two links; sent every millisecond, the first after the reset is whole."""
    values = stream(routed())
    values["timeline"].append(reset("b", down_ns=999_000, plus_ns=200_000_100))
    _, kept = simulated(values)
    assert len(kept.column("probe", "packet/1", "seq")) == 499


def test_a_message_of_which_a_fragment_came_while_the_guest_was_down_does_not_arrive() -> None:
    values = values_of(count=1, ip_packet_bytes=15_000)
    # Its eleven fragments come from 246 us on, every 123 us; the guest is down for the third.
    values["timeline"].append(reset("b", down_ns=50_000, plus_ns=470_000))
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    assert ("probe", "rtt/1") not in kept.blocks
    assert counters(kept, "end")["guests.b.vnics.eth0", "rx_dropped"] == 1


def test_without_a_reset_in_reach_the_same_frames_arrive_at_the_same_instants() -> None:
    """Then every frame has its events; the results are those of worlds in which it has not."""
    values = stream(values_of(pushback=True), payload_bytes=8000, rate_bit_per_s=40_000_000)
    _, before = simulated(values)
    values["timeline"].append(reset("b", plus_ns=600_000_000))
    _, after = simulated(values)
    assert (
        after.column("probe", "packet/1", "received_ns").tolist()
        == before.column("probe", "packet/1", "received_ns").tolist()
    )


@pytest.mark.slow
def test_a_stream_of_tcp_gets_on_after_a_reset() -> None:
    values = values_of(pushback=True)
    values["roles"]["probe"] = {"workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 3 * 10**9}
    values["timeline"].append(reset("b"))
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    begun = kept.column("probe", "interval/1", "begin_ns")
    received = kept.column("probe", "interval/1", "received_bytes")
    cut = outcome.marks["cut.started"].t_ns
    assert received[(begun >= cut - 100_000_000) & (begun + 100_000_000 <= cut)].sum() > 0
    later = received[(begun > cut + 2 * 10**9) & (received > 0)]
    assert np.median(later) * 80 > 0.9 * 94e6, "bit/s, of rows of 100 ms"


def test_a_guest_that_comes_up_has_forgotten_its_neighbours_where_it_had_asked_for_them() -> None:
    values = values_of(count=30, interval_ns=10_000_000)
    values["world"]["arp"] = "live"
    asked_before = counters(simulated(values)[1], "end")["guests.a.vnics.eth0", "sent_packets"]
    values["timeline"].append(reset("a", down_ns=1_000_000, plus_ns=95_000_000))
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    assert counters(kept, "end")["guests.a.vnics.eth0", "sent_packets"] == asked_before + 1
    waits = np.asarray(kept.column("probe", "rtt/1", "rtt_ns"))
    assert (waits > waits.min()).sum() == 2, "the first echo, and the first after the reset"


def test_a_guest_that_comes_up_says_of_itself_again_what_interfaces_say_then() -> None:
    """In between two echoes: 4 reports of 90 B, 1 question of 86 B and solicitations of 70 B, before and again."""

    def sent(*, noise: bool) -> tuple[int, int]:
        values = values_of(count=100, interval_ns=100_000_000)
        values["world"]["ipv6_noise"] = noise
        values["timeline"].append(reset("a", down_ns=10_000_000, plus_ns=5_020_000_000))
        outcome, kept = simulated(values)
        assert outcome.status == "ok", outcome.reasons
        assert len(kept.column("probe", "rtt/1", "rtt_ns")) == 100
        end = counters(kept, "end")
        return end["guests.a.vnics.eth0", "sent_packets"], end["guests.a.vnics.eth0", "sent_bytes"]

    (packets, octets), (quiet_packets, quiet_octets) = sent(noise=True), sent(noise=False)
    asked = packets - quiet_packets - 2 * (4 + 1)
    assert 2 <= asked <= 4
    assert octets - quiet_octets == 2 * (4 * 90 + 86) + asked * 70


def test_equal_seeds_give_equal_gaps_with_a_profile_too() -> None:
    values = stream(routed())
    values["timeline"].append(reset("r"))
    named = ("platform.namespace.forward_ns", "vswitch.linux_bridge.packet_ns", "links.departure_ns")
    profile = Profile("slow", parameters=dict.fromkeys(named, Parameter(100_000.0)))
    assert not Simulator(profile).check(parsed(values))
    from tests.contract.test_backend_contract import Kept, Watcher

    from virtlab.plan import Trial

    found = []
    for _ in range(2):
        kept = Kept()
        with Simulator(profile).open(parsed(values), Watcher()) as session:
            assert session.run(Trial("t0", 1), kept).status == "ok"
        found.append(kept.column("probe", "packet/1", "seq").tolist())
    assert found[0] == found[1]
    assert 399 <= len(found[0]) <= 401


def test_a_reset_of_nobody_is_refused() -> None:
    values = json.loads(parsed(values_of(count=5)).canonical())
    values["timeline"].append(reset("nobody"))
    assert [refusal.path for refusal in Simulator().check(parsed(values))] == ["timeline.cut.guest"]
