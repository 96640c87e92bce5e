"""No simulated echo exceeds its bound: networks drawn at random, every discipline that has a curve, costly
platforms.
"""

from __future__ import annotations

import random

import pytest
from tests.theory.test_predictions import COSTLY

from virtlab.experiment import Experiment, load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.prediction.bound import Bound, NoBoundError, bounds_of, echo_bound
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

LONGEST = MetricPath.parse("probe.rtt.max")
CLASSES = "match: [{class: first, dscp: EF}, {class: second, dscp: AF41}], default: rest"
QUEUES = {
    "fifo": "{kind: fifo, limit: 60 packets}",
    "bytes": "{kind: fifo, limit: 90 kB}",
    "codel": "{kind: codel, by: virtlab}",
    "sfq": "{kind: sfq, by: virtlab}",
    "fq_codel": "{kind: fq_codel, by: virtlab}",
    "prio": f"{{kind: prio, classes: {{first: {{prio: 1}}, second: {{prio: 2}}, rest: {{prio: 3}}}}, {CLASSES}}}",
    "drr": "{kind: drr, classes: {first: {quantum: 3000 B}, second: {quantum: 1514 B}, rest: {quantum: 6000 B}}, "
    f"{CLASSES}}}",
    "htb": "{kind: htb, by: virtlab, classes: {first: {rate: 20 Mbit/s, ceil: 95 Mbit/s, burst: 30 kB}, "
    "second: {rate: 30 Mbit/s, ceil: 60 Mbit/s, burst: 40 kB}, rest: {rate: 40 Mbit/s, ceil: 95 Mbit/s, burst: 60 kB}}, "
    f"{CLASSES}}}",
    "tbf": "{kind: tbf, by: virtlab, rate: 60 Mbit/s, burst: 12 kB, limit: 200 kB}",
    "shaped": "{kind: htb, by: virtlab, rate: 50 Mbit/s, burst: 6 kB}",
    "hfsc": "{kind: hfsc, by: virtlab, classes: {first: {rt_m1: 30 Mbit/s, rt_d: 4 ms, rt_m2: 15 Mbit/s, ls_m2: 15 Mbit/s}, "
    "second: {rt_m2: 20 Mbit/s, ls_m2: 20 Mbit/s}, "
    "rest: {rt_m1: 5 Mbit/s, rt_d: 3 ms, rt_m2: 25 Mbit/s, ls_m2: 25 Mbit/s}}, "
    f"{CLASSES}}}",
    "limited": "{kind: hfsc, by: virtlab, classes: {all: {ls_m2: 100 Mbit/s}, "
    "first: {parent: all, rt_m1: 32 Mbit/s, rt_d: 5 ms, rt_m2: 18 Mbit/s, ls_m2: 10 Mbit/s, ul_m2: 60 Mbit/s}, "
    "second: {parent: all, rt_m2: 18 Mbit/s, ls_m2: 30 Mbit/s, ul_m2: 80 Mbit/s}, rest: {rt_m2: 20 Mbit/s}}, "
    f"{CLASSES}}}",
    "unpromised": "{kind: hfsc, by: virtlab, classes: {first: {ls_m2: 10 Mbit/s}, second: {ls_m2: 50 Mbit/s}, "
    f"rest: {{rt_m2: 5 Mbit/s, ls_m2: 9 Mbit/s}}}}, {CLASSES}}}",
    "one": "{kind: hfsc, by: virtlab, m1: 90 Mbit/s, d: 5 ms, m2: 20 Mbit/s}",
}
CODE_POINTS = ("EF", "AF41", "0")
CALLS_ARE_FREE = {f"platform.namespace.{one}_ns": Parameter(0.0) for one in ("send", "message")}


def network(seed: int, queue: str, tcp: bool = False, raw: bool = False) -> Experiment:
    """Hosts on a line or a star of switches, and two to four loads between guests drawn at random."""
    draw = random.Random(f"{queue} {seed}")
    hosts = draw.randint(2, 4)
    topology = draw.choice(
        ["{shape: line, switches: 1}", "{shape: line, switches: 2}", "{shape: line, switches: 3}"]
    )
    loads = []
    for at in range(draw.randint(2, 4)):
        here, there = draw.sample(range(1, hosts + 1), 2)
        burst = draw.choice([3, 8, 15, 25])
        more = draw.choice(
            ["", ", direction: request_reply", ", origin: both", ", streams: 3", ", streams: 2, origin: to"]
        )
        loads.append(
            f"  load{at}: {{workload: burst_load, from: h{here}.g{draw.randint(2, 3)}, to: h{there}.g{draw.randint(2, 3)}, "
            f"burst: {burst} kB, period: {draw.choice([5, 10, 20])} ms, phase: {draw.choice(['fixed', 'random', 'spread'])}"
            f"{more}, dscp: {draw.choice(CODE_POINTS)}}}"
        )
    if tcp:
        loads.append(
            "  flow: {workload: tcp_stream, as: load, from: h1.g2, to: h2.g2, receive_buffer: "
            f"{draw.choice([16, 64, 200])} kB, send_buffer: 200 kB, dscp: {draw.choice(CODE_POINTS)}}}"
        )
    if raw:
        flows = draw.choice(["", ", flows: 3", ", shares: [60 %, 30 %, 10 %]"])
        loads.append(
            f"  frames: {{workload: raw_stream, as: load, from: h{hosts}.g2, to: h1.g2, "
            f"size: {draw.choice([64, 500, 1518])} B frame, rate: {draw.choice([300, 1700])} packet/s{flows}}}"
        )
    size = draw.choice(["100 B ip_packet", "1500 B ip_packet", "4000 B payload"])
    return load_text(
        f"""
version: 1
name: drawn
seed: {seed}
hosts: {hosts}
host: {{guests: 3}}
topology: {topology}
switch: {{processing: {draw.choice([0, 3])} us}}
link: {{rate: 100 Mbit/s, propagation: 2 us, queue: {QUEUES[queue]}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: {size}, interval: {draw.choice([2.3, 7.9])} ms, count: 80,
    protocol: {draw.choice(["icmp", "udp"])}, dscp: {draw.choice(CODE_POINTS)}}}
{chr(10).join(loads)}
repeat: 2
"""
    )


def longest_and_bound(experiment: Experiment, profile: Profile = IDEAL_PROFILE) -> tuple[float, Bound]:
    bound = echo_bound(plan_run(experiment, experiment.points()[0], 0), "probe", profile, quantile=1.0)
    return max(simulate(experiment, profile, repetitions=2).values(LONGEST)), bound


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
def test_no_echo_of_a_drawn_network_exceeds_its_bound(queue: str) -> None:
    bounded = 0
    for seed in range(6):
        try:
            longest, bound = longest_and_bound(network(seed, queue))
        except NoBoundError:  # drawn loads may come to more than a port carries
            continue
        assert longest <= bound.ns, seed
        assert bound.quantile is None
        bounded += 1
    assert bounded >= 2


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["fifo", "prio", "drr", "htb", "hfsc", "sfq", "tbf"])
def test_frames_below_ip_at_a_rate_are_a_bounded_load(queue: str) -> None:
    bounded = 0
    for seed in range(10, 15):
        try:
            longest, bound = longest_and_bound(network(seed, queue, raw=True))
        except NoBoundError:
            continue
        assert longest <= bound.ns, seed
        bounded += 1
    assert bounded >= 2


def urgent(rt: str, probe: str = "EF") -> tuple[float, float]:
    """The longest echo, and its bound, of a class with a curve beside one that has far more to send than the line
    takes.
    """
    experiment = load_text(
        f"""
version: 1
name: urgent
hosts: 2
host: {{guests: 3}}
topology: {{shape: line, switches: 2}}
link: {{rate: 100 Mbit/s, queue: {{kind: hfsc, by: virtlab, classes: {{first: {{{rt}ls_m2: 10 Mbit/s}},
  rest: {{rt_m2: 40 Mbit/s, ls_m2: 90 Mbit/s, limit: 200 packets}}}}, match: [{{class: first, dscp: EF}}], default: rest}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 7.3 ms, count: 150, dscp: {probe}}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: 115 kB, streams: 2, period: 10 ms, phase: random,
    direction: request_reply}}
  more: {{workload: burst_load, from: h1.g3, to: h2.g3, burst: 115 kB, streams: 2, period: 10 ms, phase: random,
    direction: request_reply}}
repeat: 2
"""
    )
    longest, bound = longest_and_bound(experiment)
    return longest, bound.ns


@pytest.mark.slow
def test_a_real_time_curve_promises_a_delay_apart_from_its_rate() -> None:
    base = 2 * 3 * 122_080
    # A packet of 1514 counted bytes: by when the curve has it, one frame of the others, and what a slower line adds.
    for rt, promised_ns in (
        ("rt_m1: 50 Mbit/s, rt_d: 1 ms, rt_m2: 2 Mbit/s, ", 1514 * 8 / 50e6 * 1e9),
        ("rt_m2: 50 Mbit/s, ", 1514 * 8 / 50e6 * 1e9),
        ("rt_m1: 1 kbit/s, rt_d: 2 ms, rt_m2: 50 Mbit/s, ", 2e6 + 1514 * 8 / 50e6 * 1e9),
    ):
        longest, bound = urgent(rt)
        assert longest <= bound
        assert bound <= base + 2 * 3 * (promised_ns + 123_040) * 1.1
    assert urgent("rt_m1: 50 Mbit/s, rt_d: 1 ms, rt_m2: 2 Mbit/s, ")[1] < urgent("rt_m2: 12 Mbit/s, ")[1] / 2


def test_a_class_without_a_curve_is_promised_nothing_and_full_queues_do_not_bound_it() -> None:
    with pytest.raises(NoBoundError, match="more than it has left for the class of probe"):
        urgent("")  # loads that come to more than the line never let it idle


@pytest.mark.slow
def test_a_full_class_of_hfsc_is_bounded_by_its_curve() -> None:
    longest, bound = urgent("rt_m2: 30 Mbit/s, ", probe="0")  # among the loads, in a queue of 200 packets
    assert longest <= bound <= 2 * 3 * (206 * 12_304 / 40e6 * 1e9 + 123_040) * 1.1


@pytest.mark.slow
def test_windows_of_tcp_bound_what_meets_it() -> None:
    for seed in range(8):
        longest, bound = longest_and_bound(network(seed, "fifo", tcp=True))
        assert longest <= bound.ns


def with_offloads(plan: Plan) -> Plan:
    guests = {
        name: guest.model_copy(
            update={
                "vnics": {
                    at: vnic.model_copy(update={"offloads": "default"}) for at, vnic in guest.vnics.items()
                }
            }
        )
        for name, guest in plan.world.guests.items()
    }
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})


@pytest.mark.slow
def test_segments_that_cross_a_vnic_together_have_no_bound_on_a_platform_that_costs() -> None:
    experiment = network(0, "fifo", tcp=True)
    plan = plan_run(experiment, experiment.points()[0], 0)
    offloaded = with_offloads(plan)
    assert (
        echo_bound(offloaded, "probe").ns == echo_bound(plan, "probe").ns
    )  # of an ideal platform nothing changes
    with pytest.raises(NoBoundError, match="together"):
        echo_bound(offloaded, "probe", COSTLY)


@pytest.mark.parametrize(("protocol", "by_tcp"), [("tcp", True), ("udp", False)])
def test_it_is_tcp_and_not_a_known_window_by_which_segments_go_together(protocol: str, by_tcp: bool) -> None:
    experiment = load_text(
        f"""
version: 1
name: requests
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s, queue: {{kind: fifo, limit: 50 packets}}}}
timing: {{together: true}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 2.3 ms, count: 20}}
  requests: {{workload: psping, test: latency, protocol: {protocol}, from: h1.g2, to: h2.g2, size: 8192 B, count: 20}}
repeat: 2
"""
    )
    plan = with_offloads(plan_run(experiment, experiment.points()[0], 0))
    profile = Profile("calls are free", 1, COSTLY.parameters | CALLS_ARE_FREE, {})
    if by_tcp:
        with pytest.raises(NoBoundError, match="together"):
            echo_bound(plan, "probe", profile)
    else:
        assert echo_bound(plan, "probe", profile).ns > echo_bound(plan, "probe").ns


@pytest.mark.slow
def test_frames_catch_up_with_one_that_a_virtual_switch_had_no_entry_for() -> None:
    """A burst that its vNIC has spaced stands at the link as one, and so do the first echo and its answer behind it."""
    experiment = load_text(
        """
version: 1
name: asked
hosts: 2
host: {guests: 2}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, queue: {kind: fifo, limit: 1000 packets}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 300 ms, count: 3}
  load: {workload: burst_load, from: h1.g2, to: h2.g2, burst: 240 kB, streams: 4, period: 1 s}
timeline:
  - {id: load, do: start, role: load}
  - {id: echoes, do: run, role: probe, after: load.started + 1 ms}
  - {id: end, do: stop, role: load, after: echoes.finished}
repeat: 2
"""
    )
    upcall = {"vswitch.linux_bridge.upcall_ns": Parameter(15e6)}
    profile = Profile("asking", 2, COSTLY.parameters | CALLS_ARE_FREE | upcall, {})
    longest, bound = longest_and_bound(experiment, profile)
    assert 4 * 15e6 + 10e6 < longest <= bound.ns


@pytest.mark.slow
def test_the_window_and_not_the_queue_is_the_bound_where_it_is_less() -> None:
    def worst(window: str, limit: int) -> float:
        experiment = load_text(
            f"""
version: 1
name: windowed
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s, queue: {{kind: fifo, limit: {limit} packets}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 2.3 ms, count: 200}}
  flow: {{workload: tcp_stream, as: load, from: h1.g2, to: h2.g2, receive_buffer: {window}, send_buffer: {window}}}
repeat: 2
"""
        )
        longest, bound = longest_and_bound(experiment)
        assert longest <= bound.ns
        return bound.ns

    small, large = worst("20 kB", 1000), worst("60 kB", 1000)
    assert small < large
    assert large < 1000 * 123_040 / 4  # a queue of 1000 packets takes far longer
    assert worst("20 kB", 5) < small  # here the queue is what is less


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["fifo", "prio", "drr", "tbf", "htb"])
def test_a_platform_that_costs_is_bounded_up_to_a_quantile_which_is_said(queue: str) -> None:
    tables = {
        "wakeup.sleep": Quantiles((0.0, 0.5, 1.0), (5_000.0, 20_000.0, 90_000.0)),
        "links.lateness": Quantiles((0.0, 0.9, 1.0), (0.0, 2_000.0, 40_000.0)),
    }
    profile = Profile("late", 1, COSTLY.parameters, tables)
    bounded = 0
    for seed in range(5):
        experiment = network(seed, queue)
        plan = plan_run(experiment, experiment.points()[0], 0)
        try:
            longest, bound = longest_and_bound(experiment, profile)
        except NoBoundError:
            continue
        assert longest <= bound.ns, seed
        assert bound.quantile == 1.0
        assert "no worst case" in bound.words
        median = echo_bound(plan, "probe", profile, quantile=0.5)
        assert echo_bound(plan, "probe").ns < median.ns < bound.ns
        bounded += 1
    assert bounded >= 2


@pytest.mark.slow
def test_a_class_that_is_given_more_than_its_share_has_no_bound_and_that_is_said() -> None:
    text = """
version: 1
name: starved
hosts: 2
host: {guests: 2}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, queue: QUEUE}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 2 ms, count: 20}
  load: {workload: burst_load, from: h1.g2, to: h2.g2, burst: 30 kB, period: 5 ms, dscp: EF}
repeat: 2
"""
    scarce = "{kind: htb, by: virtlab, classes: {first: {rate: 60 Mbit/s, burst: BURST}, rest: {rate: RATE, burst: BURST}}, "
    for rate, burst in (
        ("50 Mbit/s", "60 kB"),
        ("30 Mbit/s", "1600 B"),
    ):  # more than the link; bursts that lose tokens
        queue = (
            scarce.replace("RATE", rate).replace("BURST", burst)
            + "match: [{class: first, dscp: EF}], default: rest}"
        )
        experiment = load_text(text.replace("QUEUE", queue))
        with pytest.raises(NoBoundError, match="more than it has left for the class of probe"):
            echo_bound(plan_run(experiment, experiment.points()[0], 0), "probe")
        (found,) = bounds_of(plan_run(experiment, experiment.points()[0], 0)).values()
        assert isinstance(found, str)
