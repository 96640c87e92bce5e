"""No simulated echo over routers, guests that forward frames, or beside streams by way of guests exceeds its bound."""

from __future__ import annotations

import random
import textwrap
from ipaddress import ip_interface
from itertools import pairwise
from typing import Any

import pytest
from tests.theory.routed import routed
from tests.theory.test_predictions import COSTLY

from virtlab.experiment import Experiment, load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.prediction.bound import NoBoundError, echo_bound
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

LONGEST = MetricPath.parse("probe.rtt.max")


def longest_and_bound(experiment: Experiment, profile: Profile = IDEAL_PROFILE) -> tuple[float, float]:
    bound = echo_bound(plan_run(experiment, experiment.points()[0], 0), "probe", profile, quantile=1.0)
    return max(simulate(experiment, profile, repetitions=2).values(LONGEST)), bound.ns


def line_of_routers(seed: int, more: str = "") -> Experiment:
    """Two hosts with routers in line between them; loads that cross some of them, drawn at random."""
    draw = random.Random(seed)
    routers = [f"r{number + 1}" for number in range(draw.randint(1, 3))]
    stations = ["h1", *routers, "h2"]
    links = [f"  l{at}: {{ends: [{a}, {b}]}}" for at, (a, b) in enumerate(pairwise(stations))]
    loads = [
        f"  load{at}: {{workload: burst_load, from: {ends}, burst: {draw.choice([3, 9, 20])} kB, "
        f"period: {draw.choice([5, 20])} ms, phase: {draw.choice(['fixed', 'random'])}{kind}}}"
        for at, (ends, kind) in enumerate(
            draw.sample(
                [
                    ("h1.g2, to: h2.g2", ", direction: request_reply"), ("h2.g2, to: h1.g2", ", streams: 2"),
                    ("h1.g2, to: h2.g1", ", origin: both"),
                ],
                2,
            )
        )
    ]  # fmt: skip
    size = draw.choice(["100 B ip_packet", "1500 B ip_packet", "4000 B payload"])
    return load_text(
        f"""
version: 1
name: routers
seed: {seed}
hosts: {{h1: {{vswitch: linux_bridge, guests: 2}}, h2: {{vswitch: linux_bridge, guests: 2}}}}
routers: [{", ".join(routers)}]
router: {{platform: namespace{more}}}
link: {{rate: 100 Mbit/s, propagation: {draw.choice([0, 5])} us, queue: {{kind: fifo, limit: 200 packets}}}}
links:
{chr(10).join(links)}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: {size}, interval: {draw.choice([2.3, 9.7])} ms, count: 100}}
{chr(10).join(loads)}
repeat: 2
"""
    )


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", ", licence: 40 Mbit/s"])
def test_no_echo_over_routers_exceeds_its_bound(more: str) -> None:
    bounded = 0
    for seed in range(8):
        try:
            longest, bound = longest_and_bound(line_of_routers(seed, more))
        except NoBoundError:  # drawn loads may come to more than a licence lets go
            continue
        assert longest <= bound, seed
        bounded += 1
    assert bounded >= (3 if more else 8)


@pytest.mark.slow
def test_an_idle_line_of_routers_is_bounded_by_what_its_links_take() -> None:
    experiment = load_text(
        """
version: 1
name: idle
hosts: {h1: {vswitch: linux_bridge}, h2: {vswitch: linux_bridge}}
routers: [r1, r2]
router: {platform: namespace}
link: {rate: 100 Mbit/s}
links: {l0: {ends: [h1, r1]}, l1: {ends: [r1, r2]}, l2: {ends: [r2, h2]}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 9 ms, count: 20}
repeat: 2
"""
    )
    longest, bound = longest_and_bound(experiment)
    assert longest == 6 * 122_080
    assert longest <= bound <= 1.3 * longest


FORWARDING = {"platform.namespace.forward_ns": 20_000.0, "platform.namespace.forward_byte_ns": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("processors", [1, 2])
@pytest.mark.parametrize("rouse_ns", [0.0, 30_000.0])
def test_routers_that_take_turns_on_processors_are_bounded(processors: int, rouse_ns: float) -> None:
    costs = COSTLY.parameters | {name: Parameter(value) for name, value in FORWARDING.items()}
    if rouse_ns:
        costs = costs | {"platform.namespace.rouse_ns": Parameter(rouse_ns)}
    profile = Profile("forwarding", processors, costs, {})
    bounded = 0
    for seed in range(6):
        experiment = line_of_routers(seed)
        try:
            longest, bound = longest_and_bound(experiment, profile)
        except NoBoundError:
            continue
        assert longest <= bound, seed
        assert bound > longest_and_bound(experiment)[1]
        bounded += 1
    assert bounded >= 2


def between(
    forwarding: str, *, via: str = "via: [sut.vm1, sut.vm2]", rate: str = "2000 packet/s", more: str = ""
) -> Experiment:
    """Guests between two virtual switches, echoes over the wires behind the one, and a stream by way of guests."""
    return load_text(
        textwrap.dedent(
            f"""
            version: 1
            name: between
            seed: 7
            hosts:
              sut:
                vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
                guests:
                  generator: {{vswitches: [br0], isolate: false}}
                  receiver: {{vswitches: [br1], isolate: false}}
                  vm: {{count: 2, vswitches: [br0, br1], forwarding: {forwarding}}}
            roles:
              probe: {{workload: rtt, from: sut.generator, to: sut.receiver, size: 500 B ip_packet, interval: 1.7 ms,
                count: 100}}
              load: {{workload: raw_stream, as: load, from: sut.generator, to: sut.receiver, size: 300 B frame,
                rate: {rate}, {via}{more}}}
            repeat: 2
            """
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", ", shares: [80 %, 20 %]", ", flows: 6"])
def test_streams_by_way_of_guests_are_a_bounded_load(more: str) -> None:
    costs = COSTLY.parameters | {name: Parameter(value) for name, value in FORWARDING.items()}
    longest, bound = longest_and_bound(between("layer3", more=more), Profile("costly", 1, costs, {}))
    assert longest <= bound <= 7 * longest
    assert longest_and_bound(between("layer3", more=more))[0] == 0  # nothing takes time there


@pytest.mark.slow
def test_a_guest_that_is_given_more_than_it_forwards_is_bounded_by_its_full_backlog() -> None:
    costs = COSTLY.parameters | {"platform.namespace.forward_ns": Parameter(300_000.0)}
    longest, bound = longest_and_bound(between("layer3", rate="5000 packet/s"), Profile("slow", 1, costs, {}))
    assert longest <= bound
    assert bound == pytest.approx(
        2 * 1002 * 2 * 300_000, rel=0.01
    )  # there and back, behind a frame of the other guest each


def test_a_guest_with_a_share_of_a_processor_has_no_bound_on_a_platform_that_costs() -> None:
    experiment = between("layer3")
    plan = plan_run(experiment, experiment.points()[0], 0)
    costs = Profile("costly", 1, COSTLY.parameters, {})
    assert echo_bound(plan, "probe", costs).ns > 0
    held = plan.world.guests["sut.vm2"].model_copy(update={"cpu_quota_ratio": 0.5})
    guests = plan.world.guests | {"sut.vm2": held}
    throttled = plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
    with pytest.raises(NoBoundError, match="share of a processor"):
        echo_bound(throttled, "probe", costs)
    assert echo_bound(throttled, "probe").ns == 0  # which costs nothing on the ideal platform


def test_a_router_that_cuts_packets_has_no_bound_and_that_is_said() -> None:
    probe = {"workload": "rtt", "size": "1400 B ip_packet", "interval": "5 ms", "count": 20}
    plan = routed({"probe": probe})
    assert echo_bound(plan, "probe").ns > 0
    router = plan.world.guests["r1"]
    vnics = {name: vnic.model_copy(update={"mtu_bytes": 1000}) for name, vnic in router.vnics.items()}
    guests = plan.world.guests | {"r1": router.model_copy(update={"vnics": vnics})}
    small = plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
    with pytest.raises(NoBoundError, match="cuts packets"):
        echo_bound(small, "probe")


def with_long_packets(host: str, roles: dict[str, dict[str, Any]]) -> Plan:
    """One of two hosts behind a router, and the router's end towards it, take packets of 9000 B; the other host 1500
    B.
    """
    plan = routed(roles)
    changed = dict(plan.world.guests)
    side = plan.world.guests[f"{host}.g1"]
    network = {ip_interface(address).network for vnic in side.vnics.values() for address in vnic.ip}
    for name in (f"{host}.g1", "r1"):
        vnics = {
            at: vnic.model_copy(update={"mtu_bytes": 9000})
            if network & {ip_interface(address).network for address in vnic.ip}
            else vnic
            for at, vnic in changed[name].vnics.items()
        }
        changed[name] = changed[name].model_copy(update={"vnics": vnics})
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": changed})})


@pytest.mark.slow
@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_sender_cuts_by_its_own_mtu_and_a_router_cuts_what_the_next_link_does_not_take(host: str) -> None:
    """Requests of the one, replies of the other: neither knows what the other's network takes."""
    probe = {"workload": "rtt", "interval": "5 ms", "count": 20}
    with pytest.raises(NoBoundError, match="cuts packets"):
        echo_bound(with_long_packets(host, {"probe": {**probe, "size": "4000 B payload"}}), "probe")
    short = {"probe": {**probe, "size": "100 B payload"}}
    assert echo_bound(with_long_packets(host, short), "probe") == echo_bound(routed(short), "probe")


@pytest.mark.slow
def test_nobody_asks_whether_replies_would_be_cut_to_what_is_not_answered() -> None:
    roles = {
        "probe": {"workload": "rtt", "interval": "5 ms", "count": 20, "size": "100 B payload"},
        "stream": {"workload": "udp_stream", "as": "load", "size": "4000 B payload", "rate": "10 Mbit/s"},
        "load": {"workload": "burst_load", "burst": "9 kB", "period": "9 ms"},
    }
    assert echo_bound(with_long_packets("h2", roles), "probe") == echo_bound(routed(roles), "probe")
    with pytest.raises(NoBoundError, match="cuts packets"):
        echo_bound(with_long_packets("h1", roles), "probe")


def far_away(profile: Profile = IDEAL_PROFILE) -> float:
    """The bound beside a TCP whose least round trip is beyond its least time-out."""
    experiment = load_text(
        """
version: 1
name: far
hosts: {h1: {vswitch: linux_bridge, guests: 2}, h2: {vswitch: linux_bridge, guests: 2}}
routers: [r1]
router: {platform: namespace}
link: {rate: 100 Mbit/s, propagation: 45 ms, queue: {kind: fifo, limit: 200 packets}}
links: {l0: {ends: [h1, r1]}, l1: {ends: [r1, h2]}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 9 ms, count: 20}
  flow: {workload: tcp_stream, as: load, from: h1.g2, to: h2.g2, receive_buffer: 64 kB, send_buffer: 64 kB}
repeat: 2
"""
    )
    return echo_bound(plan_run(experiment, experiment.points()[0], 0), "probe", profile).ns


@pytest.mark.slow
def test_a_tcp_that_gives_up_is_bounded_by_a_router_s_full_backlog_and_not_by_its_window() -> None:
    free = {"platform.namespace.send_ns": Parameter(0.0), "platform.namespace.message_ns": Parameter(0.0)}
    costs = COSTLY.parameters | {name: Parameter(value) for name, value in FORWARDING.items()}
    assert far_away(Profile("forwarding", 1, costs | free, {})) >= far_away() + 2 * 1000 * 20_000
    with pytest.raises(NoBoundError, match="what flow has processes do at once"):
        far_away(Profile("forwarding", 1, costs, {}))


@pytest.mark.slow
def test_a_way_over_a_virtual_switch_from_link_to_link_leaves_the_links_twice() -> None:
    experiment = load_text(
        """
version: 1
name: transit
hosts: {h1: {vswitch: linux_bridge}, h2: {vswitch: linux_bridge}, h3: {vswitch: linux_bridge}}
link: {rate: 100 Mbit/s, queue: {kind: fifo, limit: 200 packets}}
links: {l0: {ends: [h1, h2]}, l1: {ends: [h2, h3]}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h3.g1, size: 1500 B ip_packet, interval: 19 ms, count: 20}
repeat: 2
"""
    )
    late = Profile("late", 1, COSTLY.parameters, {"links.lateness": Quantiles((0.0, 1.0), (2e6, 2e6))})
    longest, bound = longest_and_bound(experiment, late)
    assert 4 * 2e6 < longest <= bound <= 1.2 * longest
