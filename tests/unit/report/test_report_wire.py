"""What a role asks of the wire stands beside its values: a stream's share of the slowest link, an idle wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.report.gather import wire

STUDY = Path(__file__).parents[3] / "experiments" / "virtual-switches"
TEXT = """
version: 1
name: wire
hosts: 2
topology: {shape: line, switches: 1}
factors: {load: [50 Mbit/s, 100 Mbit/s]}
links: {h1-s1: {rate: 1 Gbit/s}, s1-h2: {rate: 200 Mbit/s}}
roles:
  whole: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, rate: "${load}"}
  flood: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 1500 B ip_packet}
  cut: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 3000 B ip_packet, rate: 10 Mbit/s}
  frames: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 64 B frame, rate: 100 kpacket/s}
"""


def test_the_study_fills_the_wire_with_udp_and_leaves_it_idle_with_requests() -> None:
    experiment = shipped(STUDY / "published.yaml")
    said = wire.facts([plan_run(experiment, experiment.points()[0], 0)])
    assert set(said) == {"rr", "udp"}
    assert "99.3 % of the slowest wire" in said["udp"]
    assert "wire stands idle" in said["rr"]


def test_a_share_is_of_the_slowest_link_and_ranges_over_design_points() -> None:
    experiment = load_text(TEXT)
    plans = [plan_run(experiment, point, 0) for point in experiment.points()]
    said = wire.facts(plans)
    assert set(said) == {"whole", "frames"}, "no rate, or packets that are cut: no share"
    # 1538 octets of wire for 1500 of IP; 84 for the shortest frame.
    assert "25.6 % to 51.3 %" in said["whole"]
    assert "33.6 %" in said["frames"]
    assert wire.wire_bit_per_s(plans[0], plans[0].roles["whole"]) == pytest.approx(50e6 * 1538 / 1500)


def test_without_a_link_there_is_no_wire_to_fill() -> None:
    text = TEXT.replace("hosts: 2", "hosts: {h1: {guests: 2}}").replace(
        "topology: {shape: line, switches: 1}\n", ""
    )
    text = text.replace("links: {h1-s1: {rate: 1 Gbit/s}, s1-h2: {rate: 200 Mbit/s}}\n", "").replace(
        "h2.g1", "h1.g2"
    )
    experiment = load_text(text)
    assert wire.facts([plan_run(experiment, experiment.points()[0], 0)]) == {}


REQUESTS = """
version: 1
name: requests
hosts: {{h1: {{guests: 2}}, h2: {{guests: 2}}}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s}}
{rest}
roles:
  rr: {{workload: tcp_rr, from: h1.g1, to: h2.g1, duration: 1 s{more}}}
  other: {{workload: tcp_stream, from: h1.g2, to: h2.g2, {how}}}
"""
MEASURES, LOADS = "duration: 1 s", "as: load"


def idle(more: str = "", how: str = MEASURES, rest: str = "") -> bool:
    """Whether the wire is said to stand idle beside requests."""
    experiment = load_text(REQUESTS.format(more=more, how=how, rest=rest))
    said = wire.facts([plan_run(experiment, point, 0) for point in experiment.points()])
    return "wire stands idle" in said.get("rr", "")


@pytest.mark.slow
def test_beside_requests_the_wire_stands_idle_only_while_nobody_else_sends() -> None:
    assert idle()
    assert not idle(rest="timing: {together: true}")
    assert not idle(how=LOADS), "the load is there all the time"


@pytest.mark.slow
def test_a_request_of_several_packets_does_not_leave_the_wire_idle() -> None:
    assert idle(more=", request: 1448 B")
    assert not idle(more=", request: 1449 B")
    assert not idle(more=", response: 1 MB")
    for answer, is_idle in (("1448 B", True), ("1 MB", False)):
        levels = f"factors: {{answer: [1 B, {answer}]}}"
        assert idle(more=', response: "${answer}"', rest=levels) is is_idle, "at every design point"


SEVERAL = """
version: 1
name: several
hosts: {{h1: {{guests: 1}}, h2: {{guests: {{n1: {{disk: {{size: 1 GB}}}}, web: {{}}}}}}}}
host: {{platform: qemu}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s}}
services:
  depot: {{kind: store, on: [h2.n1], copies: 1, lookup: elastic_hash}}
  shop: {{kind: demand_server, on: h2.web}}
roles:
  asks: {role}
"""


@pytest.mark.parametrize(
    ("role", "is_idle"),
    [
        ("{workload: request_response, from: h1.g1, to: shop, connections: 1}", True),
        ("{workload: request_response, from: h1.g1, to: h2.web, connections: 1, threads: 4}", True),
        ("{workload: request_response, from: h1.g1, to: shop, connections: 2}", False),
        ("{workload: objects, from: h1.g1, to: depot, operations: create, threads: 2}", False),
        ("{workload: objects, from: h1.g1, to: depot, operations: create}", False),
    ],
)
def test_several_requests_at_once_do_not_leave_the_wire_idle(role: str, is_idle: bool) -> None:
    experiment = load_text(SEVERAL.format(role=role))
    said = wire.facts([plan_run(experiment, experiment.points()[0], 0)])
    assert ("wire stands idle" in said.get("asks", "")) is is_idle


TIMELINE = """
timeline:
  - {{id: load, do: start, role: other, after: {load}}}
  - {{id: end, do: stop, role: other, after: {end}}}
  - {{id: ask, do: run, role: rr, after: {ask}}}
"""


@pytest.mark.parametrize(
    ("load", "end", "ask", "is_idle"),
    [
        ("ask.finished", "load.started + 1 s", None, True),
        (None, "load.started + 1 s", "end.done", True),
        (None, "load.started + 1 s", "{all: [end.done, load.started]}", True),
        (None, "load.started + 1 s", "{any: [end.done, load.started]}", False),
        (None, "load.started + 1 s", "load.started", False),
        ("ask.started", "load.started + 1 s", None, False),
    ],
)
def test_what_a_timeline_of_the_file_keeps_apart_is_apart(
    load: str | None, end: str, ask: str | None, is_idle: bool
) -> None:
    rest = TIMELINE.format(load=load, end=end, ask=ask).replace(", after: None", "")
    assert idle(how=LOADS, rest=rest) is is_idle
