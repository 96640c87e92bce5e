"""What a role asks of the wire stands beside its values: a stream's share of the slowest link, an idle wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.experiment import load, load_text
from virtlab.planner import plan_run
from virtlab.report import wire

STUDY = Path(__file__).parents[2] / "experiments" / "virtual-switches"
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
    experiment = load(STUDY / "published.yaml")
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
