"""The switched-network study is whole: three forms, every figure of the source, numbers that its page repeats."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.experiment import Experiment
from virtlab.planner import plan_run
from virtlab.planner.estimate import estimate_points
from virtlab.testbed.platforms.qemu.platform import MEMORY_MIN_BYTES

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "switched-network"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name not in {"figures.yaml", "statements.yaml"})


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: shipped(path) for path in FILES}


@pytest.mark.slow
def test_the_quick_form_is_planned_to_take_less_than_two_minutes(experiments: dict[str, Experiment]) -> None:
    quick = experiments["quick.yaml"]
    time_ns = sum(cost.time_ns for cost in estimate_points(quick)) * quick.repeat.maximum
    assert time_ns < 120 * 10**9


@pytest.mark.slow
def test_the_published_loads_are_all_there(experiments: dict[str, Experiment]) -> None:
    published = experiments["published.yaml"]
    assert published.factors["load"] == tuple(f"{size} kB" for size in range(0, 86, 5))
    study = published.study(published.points()[-1])
    probe = study.roles["probe"].parameters
    assert (probe["count"], probe["interval_ns"], probe["ip_packet_bytes"]) == (1000, 100_000_000, 1500)
    assert study.roles["load"].parameters["period_ns"] == 10_000_000


@pytest.mark.slow
def test_machines_have_too_little_memory_at_one_level_and_two_or_five_of_them_stand_on_each_host(
    experiments: dict[str, Experiment],
) -> None:
    machines = experiments["machines.yaml"]
    assert machines.factors["memory"] == ("86 MiB", "96 MiB", "128 MiB", "256 MiB")
    assert machines.factors["guests"] == ("2", "5")
    assert {"memory", "guests"} <= set(machines.study(machines.points()[0]).collect.counters)
    for point in machines.points():
        guests = plan_run(machines, point, 0).world.guests
        assert {guest.platform for guest in guests.values()} == {"qemu"}
        assert len(guests) == 2 * int(point.levels["guests"])
        memory_bytes = int(point.levels["memory"].removesuffix(" MiB")) << 20
        assert {guest.memory_bytes for guest in guests.values()} == {memory_bytes}
    least = int(machines.factors["memory"][0].removesuffix(" MiB")) << 20
    beyond = least - MEMORY_MIN_BYTES["cloud"]
    assert 0 < beyond <= 4 << 20, "too little, and just enough that all of ten machines come up"
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    assert f"{least >> 20} MiB is the lowest" in page


@pytest.mark.slow
def test_machines_start_up_time_and_memory_pressure_are_claimed(experiments: dict[str, Experiment]) -> None:
    claimed = {
        str(path.metric)
        for claim in experiments["machines.yaml"].claims
        for path in claim.parsed().expression.paths()
    }
    assert {"start_time", "memory_pressure", "memory_available"} <= claimed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "probed"),
    [
        ("published.yaml", True),
        ("published-throughput.yaml", False),
        ("published-extra-load.yaml", True),
        ("published-memory.yaml", True),
    ],
)
def test_each_published_form_has_the_load_and_the_repetitions_of_the_source(
    experiments: dict[str, Experiment], file: str, probed: bool
) -> None:
    """Echoed bursts of ping every 10 ms in a phase of their own per run, every setting twice; 1000 probes of 1500 B."""
    published = experiments[file]
    assert (published.repeat.minimum, published.repeat.maximum) == (2, 2)
    roles = published.study(published.points()[-1]).roles
    for role in roles.values():
        if role.workload == "burst_load":
            asked = role.parameters
            assert (asked["protocol"], asked["period_ns"]) == ("icmp", 10_000_000)
            assert (asked["direction"], asked["phase"]) == ("request_reply", "random")
    assert ("probe" in roles) == probed
    if probed:
        probe = roles["probe"].parameters
        assert (probe["protocol"], probe["count"], probe["interval_ns"]) == ("icmp", 1000, 100_000_000)
        assert probe["ip_packet_bytes"] == 1500


@pytest.mark.slow
def test_extra_load_enters_at_the_second_switch_alone(experiments: dict[str, Experiment]) -> None:
    extra = experiments["published-extra-load.yaml"]
    for point in extra.points():
        plan = plan_run(extra, point, 0)
        (joined,) = [link.ends for link in plan.world.links.values() if "h3.up" in link.ends]
        assert any(end.startswith(f"s{point.levels['switches']}.") for end in joined)
        assert point.levels["switches"] == "2" or point.levels["extra_load"] == "0 kB"
        if point.levels["extra_load"] != "0 kB":
            assert plan.roles["extra"].from_ == "h3.g1"
