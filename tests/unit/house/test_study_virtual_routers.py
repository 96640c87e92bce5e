"""The virtual-routers study is whole: three forms, every figure of the source, the published procedure, its
licences.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.experiment import Experiment
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, load_profile
from virtlab.simulator.without_effect import without_effect
from virtlab.testbed.build.lower import lower
from virtlab.testbed.steps.operations import ClassAdd

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "virtual-routers"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name not in {"figures.yaml", "statements.yaml"})


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: shipped(path) for path in FILES}


@pytest.mark.slow
def test_the_published_sizes_and_counts_are_there(experiments: dict[str, Experiment]) -> None:
    published = experiments["published.yaml"]
    assert published.repeat.minimum == 10
    (point,) = published.points()
    roles = published.study(point).roles
    asked = {name: roles[name].parameters for name in ("small", "large", "bulk")}
    assert {name: (values["request_bytes"], values["count"]) for name, values in asked.items()} == {
        "small": (32, 1000), "large": (8192, 1000), "bulk": (8192, 10_000),
    }  # fmt: skip


@pytest.mark.slow
def test_a_licence_limits_each_port_of_each_router_and_nothing_else(
    experiments: dict[str, Experiment],
) -> None:
    published = experiments["published.yaml"]
    plan = plan_run(published, published.points()[0], 0)
    licensed = [
        step.op.namespace
        for step in lower(plan).steps
        if isinstance(step.op, ClassAdd) and step.op.discipline.options["rate_bit_per_s"] == 2_500_000
    ]
    assert sorted(licensed) == [f"guest:r{number}" for number in (1, 1, 1, 2, 2, 2, 3, 3, 3)]
    assert {name: guest.licence_bit_per_s for name, guest in plan.world.guests.items()} == {
        "h1.g1": None, "h2.g1": None, "h3.g1": None, "r1": 2_500_000, "r2": 2_500_000, "r3": 2_500_000,
    }  # fmt: skip


@pytest.mark.slow
def test_streams_are_repeated_five_times_one_way_and_both_ways_at_once(
    experiments: dict[str, Experiment],
) -> None:
    streams = experiments["published-streams.yaml"]
    assert streams.repeat.minimum == 5
    (point,) = streams.points()
    starts = {action.role: action.after for action in plan_run(streams, point, 0).timeline if action.role}
    assert set(starts) == {"tcp", "forth", "back", "udp"}
    assert starts["forth"] == starts["back"] != starts["udp"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "quick.yaml",
        "full.yaml",
        "full-ospf.yaml",
        "full-pinned.yaml",
        "published.yaml",
        "published-streams.yaml",
    ],
)
def test_every_form_can_be_simulated(name: str, experiments: dict[str, Experiment]) -> None:
    experiment = experiments[name]
    for point in experiment.points():
        assert Simulator().check(plan_run(experiment, point, 0)) == []


@pytest.mark.slow
def test_processors_that_forward_change_nothing_in_an_ideal_world_and_are_played_with_costs(
    experiments: dict[str, Experiment],
) -> None:
    """An ideal world says that it makes no difference; a profile that knows what forwarding costs plays it."""
    pinned = experiments["full-pinned.yaml"]
    costly = load_profile(str(ROOT / "experiments" / "forwarding-fairness" / "forwarding.profile.toml"))
    for point in pinned.points():
        plan = plan_run(pinned, point, 0)
        routers = set() if point.levels["pin"] == "none" else {f"guests.r{number}" for number in (1, 2, 3)}
        assert {one.path for one in without_effect(plan, IDEAL_PROFILE) if "pin" in one.setting} == routers
        assert Simulator(costly).check(plan) == []
        assert not [one for one in without_effect(plan, costly) if "pin" in one.setting]


def test_a_unit_that_the_source_cannot_mean_is_read_as_the_one_it_must_mean() -> None:
    from virtlab.analysis.claims import PublishedReference
    from virtlab.analysis.published import published_values

    reference = PublishedReference(
        "virtual_router_hyperv_vmware.csv", "throughput_mean", {"platform": "VMware"}
    )
    (value,) = published_values(reference, ROOT / "published")
    assert value.in_unit("byte/s") == 289.33 * 1024
    assert "Kb/s, meant as KiB/s" in str(value)
