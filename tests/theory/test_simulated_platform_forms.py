"""What processors and devices make of a profile's costs: quotas, pinned guests, entries of flows, segments together.

Closed forms: a guest with a share q of a processor sends at most q / c packets a second, c its cost of a call. Guests
that share a processor forward 1 / c packets a second together, on processors of their own as much each. The first frame
of an entry of a datapath takes one upcall longer. Segments of TCP that cross a vNIC together pay for a packet once.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import Values, counters, parsed, simulated, values_of
from tests.theory.test_simulated_forwarding import COST_NS, GUESTS, file
from tests.theory.test_simulated_forwarding import profile as forwarding_profile

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.nominal import NOMINAL_BIT_PER_S, held_by_nominal_rate
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile

CALL_NS = 10_000
SECOND_NS = 10**9


def profile(**parts: float) -> Profile:
    """Calls that cost a process 10 us, and more by dotted names with underscores for dots."""
    plain = {
        "platform.namespace.send_ns": CALL_NS,
        "vswitch.linux_bridge.packet_ns": 0,
        "vswitch.ovs-netdev.packet_ns": 0,
        "links.departure_ns": 0,
    }
    given = {name.replace("__", "."): value for name, value in parts.items()}
    return Profile("forms", 2, {name: Parameter(value) for name, value in {**plain, **given}.items()})


def played(values: Values, costs: Profile, seed: int = 1) -> tuple[Outcome, Kept]:
    assert not Simulator(costs).check(parsed(values))
    kept = Kept()
    with Simulator(costs).open(parsed(values), Watcher()) as session:
        outcome = session.run(Trial("t0", seed), kept)
    assert outcome.status == "ok", outcome.reasons
    return outcome, kept


def on_one_bridge(role: dict[str, Any], **vnic: Any) -> Values:
    """Both guests on one virtual switch, with no links."""
    values = values_of()
    values["roles"]["probe"] = {"from": "a", "to": "b", **role}
    for guest in values["world"]["guests"].values():
        guest["vnics"]["eth0"] |= {"vswitch": "h1.br", **vnic}
        guest["host"] = values["world"]["guests"]["a"]["host"]
    values["world"]["links"], values["world"]["switches"] = {}, {}
    for vswitch in values["world"]["vswitches"].values():
        vswitch["uplinks"] = []
    return values


FLOOD = {"workload": "udp_stream", "payload_bytes": 100, "duration_ns": SECOND_NS}


@pytest.mark.slow
@pytest.mark.parametrize("quota", [None, 0.1, 0.5])
def test_a_flood_is_held_to_its_guests_share_of_a_processor(quota: float | None) -> None:
    values = on_one_bridge(FLOOD)
    if quota is not None:
        values["world"]["guests"]["a"]["cpu_quota_ratio"] = quota
    _, kept = played(values, profile())
    sent = kept.column("probe", "packet/1", "sent_ns")
    expected = SECOND_NS / CALL_NS * (quota or 1.0)
    # One quota more or less at the ends, as the first period began at any time.
    assert len(sent) == pytest.approx(expected, abs=2 + (0 if quota is None else quota * 1e8 / CALL_NS))
    if quota is not None:
        pauses = np.diff(np.sort(sent))
        throttled = pauses[pauses > CALL_NS * 2]
        assert 9 <= len(throttled) <= 11
        assert np.median(throttled) == pytest.approx((1 - quota) * 1e8, rel=0.02)


@pytest.mark.slow
def test_equal_seeds_are_throttled_at_equal_instants_and_others_are_not() -> None:
    values = on_one_bridge(FLOOD)
    values["world"]["guests"]["a"]["cpu_quota_ratio"] = 0.2
    one, again, other = (
        played(values, profile(), seed)[1].column("probe", "packet/1", "sent_ns").tolist()
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


@pytest.mark.slow
def test_a_large_quota_changes_nothing() -> None:
    values = on_one_bridge(FLOOD)
    free = played(values, profile())[1].column("probe", "packet/1", "sent_ns").tolist()
    values["world"]["guests"]["a"]["cpu_quota_ratio"] = 2.0
    assert played(values, profile())[1].column("probe", "packet/1", "sent_ns").tolist() == free


def pinned(text: str, pin: str, **costs: float) -> Kept:
    """One pass with `pin` of the guests that forward; a file says it of routers alone."""
    experiment = load_text(text)
    values = json.loads(plan_run(experiment, experiment.points()[0], 0).canonical())
    for guest in values["world"]["guests"].values():
        if guest.get("forwards"):
            guest["pin"] = pin
    return played(values, forwarding_profile(2, **costs))[1]


@pytest.mark.slow
@pytest.mark.parametrize(("pin", "processors"), [("none", 2), ("one", 1), ("spread", 2)])
def test_pinned_guests_forward_on_the_processors_that_they_share(pin: str, processors: int) -> None:
    """Four guests are sent 150,000 packets a second; a processor forwards 50,000."""
    kept = pinned(file(rate="150 kpacket/s", shares=(0.25,) * GUESTS), pin, forward_ns=COST_NS)
    times = np.sort(kept.blocks["load", "packet/1"][0]["received_ns"])
    middle = times[(times > times[0] + 50_000_000) & (times < times[0] + 350_000_000)]
    rate = (len(middle) - 1) / (middle[-1] - middle[0]) * 1e9
    assert rate == pytest.approx(processors * 1e9 / COST_NS, rel=0.02)


@pytest.mark.slow
def test_a_pinned_guest_that_has_nothing_to_do_has_its_processor_woken() -> None:
    def delays(pin: str) -> np.ndarray:
        kept = pinned(file(rate="1 kpacket/s"), pin, forward_ns=1000.0, steer_ns=7000.0)
        packets = kept.blocks["load", "packet/1"][0]
        return np.asarray(packets["received_ns"] - packets["sent_ns"])

    assert set(delays("one") - delays("none")) == {7000}


FLOWS = {
    "workload": "raw_stream",
    "frame_bytes": 128,
    "rate_pps": 1000,
    "flows": 4,
    "duration_ns": 40_000_000,
}


@pytest.mark.parametrize(("entries", "asked"), [("shared", 1), ("own", 4)])
def test_the_first_frame_of_each_entry_goes_up_to_the_rules(entries: str, asked: int) -> None:
    values = on_one_bridge(FLOWS)
    values["world"]["vswitches"]["h1.br"]["kind"] = "ovs-netdev"
    if entries == "own":
        values["world"]["vswitches"]["h1.br"]["parameters"] = {"flow_entries": "own"}
    _, kept = played(values, profile(**{"vswitch__ovs-netdev__upcall_ns": 60_000}))
    packets = kept.blocks["probe", "packet/1"][0]
    delays = packets["received_ns"] - packets["sent_ns"]
    assert sorted(delays)[-asked:] == [min(delays) + 60_000] * asked
    assert sorted(delays)[-asked - 1] < min(delays) + 60_000
    firsts = set(np.flatnonzero(delays == min(delays) + 60_000))
    assert firsts == set(range(asked)), "the first of each flow, which take turns"


STREAM = {"workload": "tcp_stream", "duration_ns": 200_000_000}


def goodput(kept: Kept) -> float:
    return float(kept.column("probe", "interval/1", "received_bytes").sum() * 8 / 0.2)


@pytest.mark.slow
def test_segments_that_go_together_pay_for_a_packet_once() -> None:
    """A call of 10 us for 1448 B is 1.16 Gbit/s; for 45 segments it is 45 times as much."""
    alone, together = (
        played(on_one_bridge(STREAM, offloads=offloads), profile())[1] for offloads in ("off", "default")
    )
    assert goodput(alone) == pytest.approx(1448 * 8 / CALL_NS * 1e9, rel=0.03)
    assert 20 * goodput(alone) < goodput(together) <= 45.1 * goodput(alone)
    frames = [counters(kept, "end")["guests.a.vnics.eth0", "sent_packets"] for kept in (alone, together)]
    octets = [counters(kept, "end")["guests.a.vnics.eth0", "sent_bytes"] for kept in (alone, together)]
    assert octets[0] / frames[0] < 1515 < 20_000 < octets[1] / frames[1] <= 14 + 20 + 32 + 45 * 1448
    with_retransmits = together.column("probe", "interval/1", "retransmits").sum()
    assert with_retransmits == 0


def over_links(offloads: str, **vnic: Any) -> Values:
    values = values_of(pushback=True)
    values["roles"]["probe"] = {"from": "a", "to": "b", **STREAM}
    for guest in values["world"]["guests"].values():
        guest["vnics"]["eth0"] |= {"offloads": offloads, **vnic}
    return values


def test_a_link_cuts_them_into_frames_that_fit_and_loses_none() -> None:
    _, kept = played(over_links("default"), profile())
    end = counters(kept, "end")
    links = {entity: value for (entity, name), value in end.items() if name == "packets"}
    octets = {entity: value for (entity, name), value in end.items() if name == "bytes"}
    forth = max(octets, key=lambda entity: octets[entity])
    assert octets[forth] / links[forth] <= 1514
    assert end["guests.a.vnics.eth0", "sent_packets"] < links[forth] / 2, (
        "the vNIC counts them as they cross it"
    )
    assert 0.93e8 * 1448 / 1538 < goodput(kept) <= 1.01e8 * 1448 / 1538
    assert all(value == 0 for (_, name), value in end.items() if name == "drops")


@pytest.mark.slow
def test_every_byte_that_is_acknowledged_came_once() -> None:
    """Requests of many segments, with losses: a FIFO of four packets at the link cuts into what goes together."""
    values = over_links("default")
    values["roles"]["probe"] = {
        "workload": "tcp_rr", "from": "a", "to": "b", "request_bytes": 100_000, "response_bytes": 1,
        "duration_ns": 2 * SECOND_NS,
    }  # fmt: skip
    for link in values["world"]["links"].values():
        link["queue"] = {way: {"limit_packets": 4} for way in ("ab", "ba")}
    del values["world"]["guests"]["a"]["vnics"]["eth0"]["pushback_bit_per_s"]
    _, kept = played(values, profile())
    told = {name: value for (_, name), value in counters(kept, "stop").items()}
    drops = sum(value for (_, name), value in counters(kept, "end").items() if name == "drops")
    assert drops > 10
    assert told["retransmits"] >= drops / 2
    assert told["transactions"] >= 5
    assert told["answered"] - told["transactions"] in {0, 1}


@pytest.mark.slow
def test_a_device_that_cuts_them_itself_pays_for_each() -> None:
    def platform(model: str) -> Values:
        values = on_one_bridge(STREAM, offloads="default", model=model)
        for guest in values["world"]["guests"].values():
            guest["platform"] = "qemu"
        return values

    costs = profile(platform__qemu__send_ns=CALL_NS, platform__qemu__e1000__send_ns=CALL_NS)
    virtio, e1000 = (goodput(played(platform(model), costs)[1]) for model in ("virtio", "e1000"))
    assert e1000 == pytest.approx(1448 * 8 / CALL_NS * 1e9, rel=0.03)
    assert virtio > 20 * e1000


def test_equal_seeds_send_together_alike() -> None:
    one, other = (played(over_links("default"), profile())[1] for _ in "12")
    assert (
        one.column("probe", "interval/1", "received_bytes").tolist()
        == other.column("probe", "interval/1", "received_bytes").tolist()
    )


@pytest.mark.slow
def test_what_nothing_on_its_own_way_holds_goes_at_its_devices_rate_wherever_there_are_links() -> None:
    values = values_of()
    values["roles"]["probe"] = {"from": "a", "to": "b", **STREAM}
    across = parsed(values)
    assert not held_by_nominal_rate(across, IDEAL_PROFILE)
    near = values["world"]["guests"]["a"]
    values["world"]["guests"]["b"] |= {"host": near["host"]}
    values["world"]["guests"]["b"]["vnics"]["eth0"]["vswitch"] = near["vnics"]["eth0"]["vswitch"]
    assert not Simulator().check(parsed(values))
    assert values["world"]["links"], "nobody uses them"
    assert set(held_by_nominal_rate(parsed(values), IDEAL_PROFILE)) == {
        "guests.a.vnics.eth0", "guests.b.vnics.eth0",
    }  # fmt: skip
    _, kept = simulated_ideal(values)
    assert 8e9 < goodput(kept) < NOMINAL_BIT_PER_S


def noisy(*, on: bool, count: int) -> Values:
    values = values_of(count=count, interval_ns=100_000_000)
    values["world"]["ipv6_noise"] = on
    return values


def test_kernels_say_of_themselves_what_they_say_and_it_occupies_links() -> None:
    """In 10 s an interface sends 4 reports, 1 probe and 2 solicitations: a guest's vNIC, its bridge, its uplink."""
    _, quiet = simulated_ideal(noisy(on=False, count=100))
    _, loud = simulated_ideal(noisy(on=True, count=100))
    before, after = counters(quiet, "end"), counters(loud, "end")
    more = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    assert more["guests.a.vnics.eth0", "sent_packets"] == 7
    assert more["guests.a.vnics.eth0", "sent_bytes"] == 4 * 90 + 86 + 2 * 70
    # On the link from each host: the vNIC's, the uplink's, and the bridge's own with two more reports.
    links = {entity: value for (entity, name), value in more.items() if name == "packets"}
    assert set(links.values()) == {7 + 7 + 9}
    # A guest hears its own port and bridge, and all of the other's that came over the links.
    assert more["guests.a.vnics.eth0", "received_packets"] == 7 + 9 + 23
    assert len(loud.column("probe", "rtt/1", "rtt_ns")) == 100


def test_noise_is_the_same_for_equal_seeds_and_delays_only_what_it_meets() -> None:
    _, one = simulated_ideal(noisy(on=True, count=200))
    _, again = simulated_ideal(noisy(on=True, count=200))
    _, quiet = simulated_ideal(noisy(on=False, count=200))
    first, second, plain = (kept.column("probe", "rtt/1", "rtt_ns") for kept in (one, again, quiet))
    assert first.tolist() == second.tolist()
    assert (first >= plain).all()
    assert (first == plain).mean() > 0.9


def simulated_ideal(values: Values) -> tuple[Outcome, Kept]:
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    return outcome, kept


@pytest.mark.slow
def test_a_distant_network_holds_each_packet_and_loses_some_at_random() -> None:
    """1 ms each way on the first link, of 10 % of packets nothing is heard: 19 % of echoes are lost."""
    count, delay_ns, loss = 2000, 1_000_000, 0.1
    values = values_of(count=count, interval_ns=10_000_000)
    plain = simulated_ideal(values)[1].column("probe", "rtt/1", "rtt_ns")
    link = values["world"]["links"][min(values["world"]["links"])]
    queue = {"kind": "netem", "limit_packets": 1000, "parameters": {"delay_ns": delay_ns, "loss_ratio": loss}}
    link["queue"] = {"ab": queue, "ba": queue}
    _, first = simulated_ideal(values)
    rtts = first.column("probe", "rtt/1", "rtt_ns")
    assert set(rtts) == {plain[0] + 2 * delay_ns}
    answered = (1 - loss) ** 2
    # Five standard deviations of a binomial draw.
    assert len(rtts) == pytest.approx(count * answered, abs=5 * np.sqrt(count * answered * (1 - answered)))
    drops = sum(value for (_, name), value in counters(first, "end").items() if name == "drops")
    assert drops == count - len(rtts)
    again, other = (simulated(values, seed)[1].column("probe", "rtt/1", "seq").tolist() for seed in (1, 2))
    assert again == first.column("probe", "rtt/1", "seq").tolist()
    assert other != again
