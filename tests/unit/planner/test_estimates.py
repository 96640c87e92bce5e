"""What `check` and `plan` say a run will take: its trials where it searches, a licence's time where requests wait for
it.
"""

from __future__ import annotations

import pytest

from virtlab.catalogue import PLATFORMS
from virtlab.experiment import load_text
from virtlab.planner.estimate import estimate_points

SEARCHED = """
version: 1
name: searched
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
roles: {load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 64 B frame, duration: 1 s}}
"""
ROUTED = """
version: 1
name: routed
factors: {{licence: [{licences}]}}
hosts: {{h1: {{vswitch: linux_bridge}}, h2: {{vswitch: linux_bridge}}}}
routers: [r1]
router: {{platform: namespace, licence: "${{licence}}"}}
link: {{rate: 1 Gbit/s}}
links: {{one: {{ends: [h1, r1]}}, two: {{ends: [r1, h2]}}}}
roles: {{bulk: {{workload: psping, test: bandwidth, from: h1.g1, to: h2.g1, size: 8192 B, count: 10000, warmup: 0}}}}
"""


def seconds(text: str) -> list[float]:
    return [cost.time_ns / 1e9 for cost in estimate_points(load_text(text))]


@pytest.mark.parametrize(
    ("search", "trials_s"),
    [
        (
            "{variable: load.rate, low: 1 kpacket/s, method: bisection, goals: [{loss: 0 %, width: 1 %}]}",
            7 * 60,
        ),
        ("{variable: load.rate, low: 1 kpacket/s}", 2 * 21),
    ],
    ids=["bisection in trials of 60 s", "MLRsearch"],
)
def test_the_trials_of_a_search_are_counted(search: str, trials_s: float) -> None:
    alone = seconds(SEARCHED)[0]
    with_search = seconds(f"{SEARCHED}search: {search}\n")[0]
    assert alone < 10
    assert with_search - alone >= trials_s


def test_requests_take_the_time_that_a_licence_lets_them() -> None:
    slow, fast = seconds(ROUTED.format(licences="2.5 Mbit/s, 250 Mbit/s"))
    measured_s = 10_000 * 8192 / 298.1e3  # a licence counts headers too: 298.1 kB/s came of 312.5
    assert measured_s <= slow <= 1.02 * measured_s
    assert fast < slow / 10


def test_what_the_guests_take_to_start_is_counted() -> None:
    plain = SEARCHED.replace(
        "hosts: 2", "hosts: {h1: {platform: %s, guests: 3, vswitch: linux_bridge}, h2: {platform: native}}"
    )
    machine, namespace = (seconds(plain % platform)[0] for platform in ("qemu", "namespace"))
    assert machine - namespace == pytest.approx(
        3 * (PLATFORMS["qemu"].start_ns - PLATFORMS["namespace"].start_ns) / 1e9
    )
