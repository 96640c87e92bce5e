"""No simulated echo takes longer than its worst case, and the worst case is near what an empty network takes."""

from __future__ import annotations

import itertools

import pytest

from virtlab.experiment import Experiment, load_text
from virtlab.metrics import MetricPath
from virtlab.planner import plan_run
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.prediction.bound import NoBoundError, bounds_of, echo_bound, frames_bits
from virtlab.prediction.bound.paths import Paths
from virtlab.prediction.bound.sources import flows_of
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE

LONGEST = MetricPath.parse("probe.rtt.max")


def world(
    load: str, *, switches: int = 1, rate: str = "100 Mbit/s", more: str = "", size: str = "1500 B ip_packet",
    queue: str = "{kind: fifo, limit: 100 packets}", extra: str = "", host: str = "",
) -> Experiment:  # fmt: skip
    return load_text(
        f"""
version: 1
name: worst
hosts: 2
host: {{guests: 3{host}}}
topology: {{shape: line, switches: {switches}}}
switch: {{processing: 3 us}}
link: {{rate: {rate}, propagation: 2 us, queue: {queue}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: {size}, interval: 3.1 ms, count: 100}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: {load}, period: 10 ms{more}}}
{extra}
repeat: 2
"""
    )


def worst(experiment: Experiment) -> float:
    return echo_bound(plan_run(experiment, experiment.points()[0], 0), "probe").ns


def longest(experiment: Experiment) -> float:
    return max(simulate(experiment, IDEAL_PROFILE, repetitions=3).values(LONGEST))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switches", "load", "more"),
    [
        (switches, load, more)
        for switches, (load, more) in itertools.product(
            (1, 3),
            [
                ("10 kB", ""), ("40 kB", ", direction: request_reply, phase: random"),
                ("60 kB", ", streams: 3, direction: request_reply, phase: random"),
                ("30 kB", ", origin: both, direction: request_reply, phase: random, streams: 2"),
                ("120 kB", ", streams: 2, phase: spread"), ("124 kB", ", streams: 2, origin: to"),
            ],
        )
    ],
)  # fmt: skip
def test_no_simulated_echo_exceeds_its_bound(switches: int, load: str, more: str) -> None:
    experiment = world(load, switches=switches, more=more)
    assert longest(experiment) <= worst(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["{kind: fifo, limit: 20 packets}", "{kind: fifo, limit: 3 packets}"])
@pytest.mark.parametrize("pushback", ["guest", "uplink"])
def test_full_queues_bound_an_overloaded_network(queue: str, pushback: str) -> None:
    """More than the wire carries: lost in the link's queue, or held back in the one that the guests share."""
    extra = (
        "  other: {workload: burst_load, from: h1.g3, to: h2.g3, burst: 60 kB, period: 5 ms, phase: random}\n"
        "  third: {workload: burst_load, from: h1.g2, to: h2.g3, burst: 60 kB, period: 10 ms, phase: random}"
    )
    experiment = world(
        "60 kB", switches=2, queue=queue, extra=extra, more=", phase: random", host=f", pushback: {pushback}"
    )
    table = simulate(experiment, IDEAL_PROFILE, repetitions=3)
    lost = sum(table.values(MetricPath.parse("other.loss.ratio")))
    late = min(table.values(MetricPath.parse("load.late_bursts.ratio")))
    assert (lost > 0, late > 0.9) == (pushback == "guest", pushback == "uplink")
    assert max(table.values(LONGEST)) <= worst(experiment)


PRIORITY = "{kind: prio, classes: {fast: {prio: 1}, slow: {prio: 2}}, match: [{class: fast, dscp: EF}], default: slow}"


@pytest.mark.slow
@pytest.mark.parametrize("switches", [1, 3])
@pytest.mark.parametrize("load", ["20 kB", "60 kB"])
@pytest.mark.parametrize("probe_first", [True, False])
def test_strict_priority_is_bounded_for_the_class_before_and_the_class_behind(
    switches: int, load: str, probe_first: bool
) -> None:
    marks = ("EF", "0") if probe_first else ("0", "EF")
    experiment = world(
        load, switches=switches, queue=PRIORITY, size=f"1500 B ip_packet, dscp: {marks[0]}",
        more=f", direction: request_reply, phase: random, dscp: {marks[1]}",
    )  # fmt: skip
    assert longest(experiment) <= worst(experiment)
    if probe_first:  # one frame of the load at most stands before it at each port, each way
        assert worst(experiment) <= longest(world("0 B", switches=switches)) + 2 * (switches + 2) * 130_000


@pytest.mark.slow
@pytest.mark.parametrize("size", ["100 B ip_packet", "1500 B ip_packet", "9000 B payload", "600 B frame"])
@pytest.mark.parametrize("switches", [1, 4])
def test_an_empty_network_is_bounded_within_its_own_period(size: str, switches: int) -> None:
    experiment = world("0 B", switches=switches, size=size)
    least = longest(experiment)
    assert least <= worst(experiment) <= 1.3 * least


@pytest.mark.slow
def test_a_stream_at_a_rate_is_bounded_beside_the_echo() -> None:
    extra = "  stream: {workload: udp_stream, as: load, from: h1.g3, to: h2.g3, size: 1472 B payload, rate: 60 Mbit/s}"
    experiment = world("10 kB", switches=2, extra=extra)
    assert longest(experiment) <= worst(experiment)


@pytest.mark.slow
def test_roles_that_run_one_after_another_do_not_meet() -> None:
    extra = "  stream: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 1472 B payload, duration: 100 ms}"
    assert worst(world("10 kB", extra=extra)) == worst(world("10 kB"))


def timed(roles: str, timeline: str, limit: int = 100) -> Experiment:
    """Echoes after or beside what a timeline of its own says."""
    return load_text(
        f"""
version: 1
name: timed
hosts: 2
host: {{guests: 3}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s, queue: {{kind: fifo, limit: {limit} packets}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 3.1 ms, count: 60}}
{roles}
timeline:
{timeline}
repeat: 2
"""
    )


ALONE = timed("", "  - {id: echoes, do: run, role: probe}")
STREAMS = """\
  first: {workload: udp_stream, from: h1.g2, to: h2.g2, size: 1472 B payload, rate: 80 Mbit/s, duration: 100 ms}
  second: {workload: udp_stream, from: h1.g3, to: h2.g3, size: 1472 B payload, rate: 80 Mbit/s, duration: 100 ms}
"""


def after_streams(rest: str) -> Experiment:
    return timed(
        STREAMS,
        f"""\
  - {{id: first, do: run, role: first}}
  - {{id: second, do: run, role: second}}
  - {{id: rest, do: wait, for: {rest}, after: {{all: [first.finished, second.finished]}}}}
  - {{id: echoes, do: run, role: probe, after: rest.done}}""",
    )


@pytest.mark.slow
def test_echoes_right_after_streams_meet_the_queues_that_these_have_filled() -> None:
    experiment = after_streams("1 ms")
    assert 5 * worst(ALONE) < longest(experiment) <= worst(experiment)


@pytest.mark.slow
def test_echoes_long_after_streams_meet_nothing_of_them() -> None:
    experiment = after_streams("200 ms")
    assert longest(experiment) <= worst(experiment) == worst(ALONE)


def after_a_stopped_load(more: str, rest: str = "0 ms") -> Experiment:
    return timed(
        f"  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: 60 kB, streams: 2, period: 10 ms{more}}}",
        f"""\
  - {{id: begin, do: start, role: load}}
  - {{id: end, do: stop, role: load, after: begin.started + 100010 us}}
  - {{id: echoes, do: run, role: probe, after: end.done + {rest}}}""",
    )


@pytest.mark.slow
def test_what_a_stopped_load_has_sent_is_still_there_unless_all_of_it_was_answered() -> None:
    meets = after_a_stopped_load("")
    assert 3 * worst(ALONE) < longest(meets) <= worst(meets)
    for gone in (after_a_stopped_load("", "100 ms"), after_a_stopped_load(", direction: request_reply")):
        assert longest(gone) <= worst(gone) == worst(ALONE)


@pytest.mark.slow
def test_echoes_after_echoes_meet_none_of_them_once_those_have_been_answered_or_given_up() -> None:
    def after(timeout: str) -> float:
        own = f"size: 400 B payload, interval: 5 ms, count: 20, timeout: {timeout}"
        before = f"  before: {{workload: rtt, from: h1.g2, to: h2.g2, {own}}}"
        first = "  - {id: before, do: run, role: before}"
        return worst(
            timed(before, f"{first}\n  - {{id: echoes, do: run, role: probe, after: before.finished}}")
        )

    assert after("1 s") == worst(ALONE)
    assert after("50 us") > worst(ALONE)  # given up while they are under way


def changing(role: str, parameter: str, value: str) -> Experiment:
    return timed(
        f"""\
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: 50 kB, period: 10 ms}}
  other: {{{role}, as: load, from: h1.g3, to: h2.g3}}""",
        f"""\
  - {{id: begin, do: start, role: load}}
  - {{id: beside, do: start, role: other}}
  - {{id: echoes, do: run, role: probe, after: begin.started}}
  - {{id: more, do: set, role: other, parameter: {parameter}, value: {value}, after: echoes.started + 31 ms}}
  - {{id: end, do: stop, role: load, after: echoes.finished}}
  - {{id: last, do: stop, role: other, after: echoes.finished}}""",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "parameter", "before", "after"),
    [
        ("workload: burst_load, period: 10 ms, streams: 2, burst: 5 kB", "burst", "5 kB", "60 kB"),
        ("workload: udp_stream, size: 1472 B payload, rate: 5 Mbit/s", "rate", "5 Mbit/s", "90 Mbit/s"),
        ("workload: raw_stream, size: 1518 B frame, rate: 400 packet/s", "rate", "400 packet/s", "7 kpacket/s"),
    ],
)  # fmt: skip
def test_what_the_timeline_sets_counts_where_it_is_more(
    role: str, parameter: str, before: str, after: str
) -> None:
    as_ever, more = changing(role, parameter, before), changing(role, parameter, after)
    assert longest(as_ever) <= worst(as_ever) < longest(more) <= worst(more)


@pytest.mark.parametrize("size", [1472, 9000])
def test_a_stream_has_its_rate_before_its_packets_are_cut(size: int) -> None:
    role = f"  stream: {{workload: udp_stream, as: load, from: h1.g3, to: h2.g3, size: {size} B payload, rate: 60 Mbit/s}}"
    experiment = world("0 B", extra=role)
    plan = plan_run(experiment, experiment.points()[0], 0)
    (flow,) = flows_of(plan, Paths(plan, LayerTwo(plan)), "stream", plan.roles["stream"])
    frames = -(-(size + 8) // 1480)
    assert flow.calls_per_s == pytest.approx(frames * 60e6 / 8 / (size + 28))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {
                "queue": "{kind: sfq}",
                "extra": "  flow: {workload: tcp_stream, as: load, from: h1.g3, to: h2.g3}",
            },
            "what flow sends at once is not bounded, and neither is the queue",
        ),
        ({"extra": "network: {arp: live}"}, "until addresses are known"),
        ({"extra": "network: {ipv6_noise: true}"}, "announce of IPv6"),
        ({"size": "60000 B payload", "host": ", pushback: guest"}, "more than its vNIC lets go"),
        (
            {
                "queue": "{kind: sfq}",
                "extra": "  flow: {workload: raw_stream, as: load, from: h1.g3, to: h2.g3, size: 64 B frame, "
                "rate: 1 kpacket/s, arrivals: poisson}",
            },
            "what flow sends at once is not bounded, and neither is the queue",
        ),
    ],
)
def test_what_has_no_bound_is_said_with_the_reason(changed: dict[str, str], says: str) -> None:
    experiment = world(**{"load": "10 kB", **changed})  # type: ignore[arg-type]
    with pytest.raises(NoBoundError, match=says):
        worst(experiment)
    (found,) = bounds_of(plan_run(experiment, experiment.points()[0], 0)).values()
    assert says in str(found)


def test_fragments_are_those_of_ipv4() -> None:
    assert frames_bits(1480, 1500) == [8 * 1538]
    assert len(frames_bits(65_000 - 20, 1500)) == 44  # as `ping` of 65,000 B of IP
    assert frames_bits(1, 1500) == [8 * 84]
