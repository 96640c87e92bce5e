"""`--points`: by number or by level, and what means nothing is told."""

from __future__ import annotations

import pytest

from virtlab.campaign.run import select_points
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

POINTS = load_text("""
version: 1
name: some
factors: {load: [0 B, 30 kB], switches: [1, 2]}
hosts: 2
topology: {shape: line, switches: "${switches}"}
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 20 ms, count: 5}
  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: "${load}", period: 10 ms, as: load}
""").points()


def levels(text: str) -> set[tuple[str, str]]:
    chosen = select_points(POINTS, text)
    return {(point.levels["load"], point.levels["switches"]) for point in POINTS if point.index in chosen}


def test_levels_of_several_factors_hold_together_and_of_one_either() -> None:
    assert levels("load=30 kB,switches=2") == {("30 kB", "2")}
    assert levels("load=30 kB, load=0 B,switches=1") == {("30 kB", "1"), ("0 B", "1")}
    assert len(levels("0,2-3")) == 3


def test_points_that_are_named_twice_are_those_of_either() -> None:
    assert select_points(POINTS, "0", "2-3") == {0, 2, 3}
    assert select_points(POINTS, "0", "load=30 kB") == {0, *select_points(POINTS, "load=30 kB")}
    with pytest.raises(ExperimentError, match="no point 7"):
        select_points(POINTS, "0", "7")


@pytest.mark.parametrize(
    ("text", "what", "cure"),
    [
        (
            "load=30 kB,3",
            "'3' is not a level, and beside levels there are no numbers",
            "write either 0,3-5 or",
        ),
        ("loads=30 kB", "'loads' is not a factor", "use one of load, switches"),
        ("load=31 kB", "'31 kB' is not a level of load", "use one of 0 B, 30 kB"),
        ("load=0 B|30 kB", "'0 B|30 kB' is not a level of load", "write 'load=0 B,load=30 kB'"),
        (
            "switches=1,load=0 B,30 kB",
            "'30 kB' is not a level, and beside levels there are no numbers",
            "write 'load=30 kB' for another level of load",
        ),
        ("7", "there is no point 7", "points are 0 to 3"),
        ("three", "'three' is not a point", "write e.g."),
    ],
)
def test_what_selects_nothing_is_told(text: str, what: str, cure: str) -> None:
    with pytest.raises(ExperimentError) as error:
        select_points(POINTS, text)
    assert error.value.where == "--points"
    assert error.value.what == what
    assert cure in error.value.cure
