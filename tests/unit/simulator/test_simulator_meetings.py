"""Packets that meet others at a switch without events are what events make of them: samples and counters to the
byte.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.simulator.test_simulator_trains import by_events, played

from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import all_ports, with_port_links
from virtlab.simulator.lower import lower
from virtlab.simulator.session import ordered_once

STREAMS = """
  one: {workload: udp_stream, from: h1.g1, to: h4.g1, size: 1200 B payload, rate: 40 Mbit/s, duration: 120 ms,
    arrivals: poisson}
  two: {workload: udp_stream, from: h2.g1, to: h4.g2, size: 700 B payload, rate: 45 Mbit/s, duration: 120 ms}
  back: {workload: udp_stream, from: h4.g2, to: h1.g2, size: 90 B payload, rate: 3 Mbit/s, duration: 120 ms}
"""
ECHOES = (
    "  probe: {workload: rtt, from: h3.g1, to: h4.g1, size: 1500 B ip_packet, interval: 0.7 ms, count: 150}\n"
)
FRAMES = (
    "  raw: {workload: raw_stream, from: h3.g2, to: h4.g2, size: 300 B frame, rate: 9 kpacket/s, duration: 120 ms, "
    "flows: 3}\n"
)
LONG = "  long: {workload: udp_stream, from: h1.g2, to: h4.g1, size: 7000 B payload, rate: 30 Mbit/s, duration: 120 ms}\n"
BURSTS = "  bursts: {workload: burst_load, from: h2.g2, to: h4.g2, burst: 20 kB, period: 10 ms, direction: request_reply}\n"
CONNECTION = "  flow: {workload: tcp_stream, from: h2.g2, to: h4.g2, duration: 120 ms}\n"


def world(roles: str, queue: str, switches: int = 1) -> dict[str, Any]:
    """Four hosts with two guests each, as the core is given it."""
    experiment = load_text(
        f"""
version: 1
name: meeting
seed: 4
hosts: 4
host: {{guests: 2}}
topology: {{shape: line, switches: {switches}}}
switch: {{processing: 1 us}}
link: {{rate: 100 Mbit/s, propagation: 1 us, queue: {queue}}}
roles:
{roles}
collect: {{counters: [vnics, links]}}
repeat: 1
"""
    )
    plan = with_port_links(plan_run(experiment, experiment.points()[0], 0), all_ports)
    lowered: dict[str, Any] = json.loads(json.dumps({**lower(ordered_once(plan), 3), "costs": None}))
    return lowered


@pytest.mark.slow
@pytest.mark.parametrize(
    "queue",
    ["{kind: fifo, limit: 100 packets}", "{kind: fifo, limit: 4 packets}", "{kind: fifo, limit: 9 kB}"],
)
@pytest.mark.parametrize(
    "roles",
    [STREAMS, STREAMS + ECHOES, STREAMS + FRAMES, STREAMS + LONG + ECHOES, STREAMS + BURSTS + CONNECTION],
    ids=["streams", "echoes", "frames", "fragments", "connections"],
)  # fmt: skip
def test_a_packet_that_meets_others_is_what_its_event_makes_of_it(roles: str, queue: str) -> None:
    lowered = world(roles, queue)
    without, few = played(lowered)
    events, many = played(by_events(lowered))
    assert few < many
    assert without == events


@pytest.mark.slow
def test_where_a_line_between_switches_has_several_sources_all_is_played_by_events() -> None:
    lowered = world(STREAMS, "{kind: fifo, limit: 100 packets}", switches=3)
    assert played(lowered)[0] == played(by_events(lowered))[0]
