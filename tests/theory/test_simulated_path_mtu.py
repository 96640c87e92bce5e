"""Path MTU discovery in virtual time: who sends too long packets is told, and sends shorter ones (RFC 1191, RFC
8201).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract.test_backend_contract import Kept
from tests.theory.routed import in_ipv6, routed
from tests.theory.simulated import counters, simulated

from virtlab.plan import Outcome, Plan
from virtlab.simulator import Simulator

NARROW = 1500
WIDE = 3000
ECHOES = {"workload": "rtt", "size": "2900 B ip_packet", "count": 10, "interval": "10 ms"}
STREAM = {"workload": "tcp_stream", "duration": "500 ms"}


def narrowed(workload: dict[str, Any], *, version: int = 4, narrow: int = NARROW) -> Plan:
    """h1.g1, router r1, router r2, h2.g1: guests with MTUs of 3000 B, and less between the two routers."""
    values = json.loads(routed({"probe": workload}, routers=2).canonical())
    shared: dict[str, list[Any]] = {}
    for guest in values["world"]["guests"].values():
        for vnic in guest["vnics"].values():
            vnic["mtu_bytes"] = WIDE
            if guest.get("forwards"):
                shared.setdefault(vnic["ip"][0].rpartition(".")[0], []).append(vnic)
    (between,) = (vnics for vnics in shared.values() if len(vnics) == 2)
    for vnic in between:
        vnic["mtu_bytes"] = narrow
    values["collect"]["counters"] = ["vnics"]
    plan = Plan.parse(json.dumps(values))
    return in_ipv6(plan) if version == 6 else plan


def played(plan: Plan) -> tuple[Outcome, Kept]:
    assert not Simulator().check(plan)
    outcome, kept = simulated(json.loads(plan.canonical()))
    assert outcome.status == "ok", outcome.reasons
    return outcome, kept


def times_ns(kept: Kept) -> list[int]:
    return sorted(set(kept.column("probe", "rtt/1", "rtt_ns").tolist()))


@pytest.mark.slow
def test_routers_cut_echoes_of_ipv4_and_nobody_is_told() -> None:
    _, kept = played(narrowed(ECHOES))
    assert kept.column("probe", "rtt/1", "seq").tolist() == list(range(10))
    assert len(times_ns(kept)) == 1


@pytest.mark.slow
def test_of_ipv6_one_echo_is_lost_each_way_and_all_later_ones_are_cut_by_their_senders() -> None:
    _, kept = played(narrowed(ECHOES, version=6))
    assert kept.column("probe", "rtt/1", "seq").tolist() == list(range(2, 10))
    end = counters(kept, "end")
    # Each end: ten packets of its own, of which the first was whole and was lost; then two fragments each.
    sent = {
        name: value for (name, counter), value in end.items() if counter == "sent_packets" and ".g1." in name
    }
    assert sorted(sent.values()) == [1 + 2 * 8, 1 + 2 * 9]
    # A packet too big of 1280 B comes to each end, once: frames of 1294 B.
    received = {
        name: (end[name, "received_packets"], end[name, "received_bytes"])
        for name, counter in end
        if counter == "received_bytes" and ".g1." in name
    }
    fragments = {0: 1500 - 4 + 14, 1: 2900 - 40 - 1448 + 48 + 14}
    for packets, octets in received.values():
        assert (packets - 1) % 2 == 0
        assert octets - 1294 == (packets - 1) // 2 * sum(fragments.values())


@pytest.mark.slow
@pytest.mark.parametrize(("version", "payload"), [(4, 1448), (6, 1428)])
def test_a_tcp_stream_finds_the_narrow_link_and_fills_it(version: int, payload: int) -> None:
    """1 Gbit/s between routers; a segment of 1500 B takes 1538 octet times there."""
    _, kept = played(narrowed(STREAM, version=version))
    received = kept.column("probe", "interval/1", "received_bytes")
    rate = received[received > 0].max() * 8 / 0.1
    most = 1e9 * payload / 1538
    assert 0.9 * most < rate <= 1.001 * most
    again = kept.column("probe", "interval/1", "retransmits").sum()
    assert 10 <= again <= 40, "the first window, cut in two or three, and what was sent before anybody knew"


@pytest.mark.slow
def test_what_is_sent_again_is_what_the_first_window_held() -> None:
    """Ten segments of 2948 B, each two of 1448 B and one of 52 B."""
    plan = narrowed({"workload": "tcp_rr", "request": "29480 B", "response": "1 B", "duration": "100 ms"})
    _, kept = played(plan)
    told = {name: value for (_, name), value in counters(kept, "stop").items()}
    assert told["retransmits"] == 30
    assert told["transactions"] > 50


@pytest.mark.slow
def test_a_path_within_the_ends_own_mtu_is_never_told_of() -> None:
    wide = narrowed(STREAM, narrow=WIDE)
    plain = json.loads(wide.canonical())
    _, kept = simulated(plain)
    assert kept.column("probe", "interval/1", "retransmits").sum() == 0


@pytest.mark.slow
def test_equal_seeds_learn_at_equal_instants() -> None:
    values = json.loads(narrowed(STREAM, version=6).canonical())
    one, other = (simulated(values)[1].column("probe", "interval/1", "received_bytes") for _ in range(2))
    assert one.tolist() == other.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("narrow", "frames"), [(552, (552,)), (400, (396, 176))])
def test_no_path_of_tcp_is_believed_to_be_narrower_than_linux_does(
    narrow: int, frames: tuple[int, ...]
) -> None:
    """Segments of 500 B in packets of 552 B, which a router cuts where even those are too long: 376 and 156 B of
    532.
    """
    _, kept = played(narrowed(STREAM, narrow=narrow))
    received = kept.column("probe", "interval/1", "received_bytes")
    rate = received[received > 0].max() * 8 / 0.1
    most = 1e9 * 500 / sum(frame + 38 for frame in frames)
    assert 0.85 * most < rate <= 1.001 * most


@pytest.mark.slow
def test_programs_make_guests_forget_paths_and_neighbours() -> None:
    values = json.loads(narrowed({**ECHOES, "count": 20}, version=6).canonical())
    probe = next(action["id"] for action in values["timeline"] if action.get("role"))
    flush = ["ip", "-6", "route", "flush", "cache"]
    after = {"event": f"{probe}.started", "plus_ns": 105_000_000}
    for number, guest in enumerate(("h1.g1", "h2.g1")):
        action = {"id": f"forget{number}", "do": "exec", "guest": guest, "argv": flush, "after": after}
        values["timeline"].append(action)
    _, kept = simulated(values)
    answered = kept.column("probe", "rtt/1", "seq").tolist()
    lost = sorted(set(range(20)) - set(answered))
    assert lost[:2] == [0, 1]
    assert len(lost) == 4, "and once more after the caches were flushed"
    assert lost[3] == lost[2] + 1
