"""The forwarding study is whole: its forms, its split of the load, and numbers that its page repeats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fairness import fairness
from tests.shipped import shipped
from tools.figures import check_figures

from virtlab.campaign.execution.trial import as_tested
from virtlab.catalogue.split import shares
from virtlab.experiment import Experiment
from virtlab.experiment.work.search import trial_ns
from virtlab.planner import plan_run
from virtlab.planner.estimate import estimate_points
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator import Simulator

STUDY = Path(__file__).parents[3] / "experiments" / "forwarding-fairness"
FILES = (
    "quick.yaml", "throughput.yaml", "full.yaml", "full-throughput.yaml", "published.yaml", "published-throughput.yaml",
)  # fmt: skip
WITH_MACHINES = ("machines.yaml", "full-machines.yaml")
OF_EVERY_SIZE = [
    "para-virtual-forwards-more-at-its-worst",
    "para-virtual-forwards-more-at-the-fair-load",
    "para-virtual-is-five-times-emulated",
    "para-virtual-does-not-depend-on-fairness",
]
GUESTS, WEAK_SHARE = 12, 0.01


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {name: shipped(STUDY / name) for name in FILES}


@pytest.mark.slow
def test_every_plot_that_figures_yaml_names_will_exist() -> None:
    assert [str(problem) for problem in check_figures(STUDY / "figures.yaml")] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_levels_of_j_are_the_index_of_their_shares(name: str, experiments: dict[str, Experiment]) -> None:
    experiment = experiments[name]
    strong = {f"{fairness(GUESTS, k, WEAK_SHARE):.4f}": k for k in range(1, GUESTS + 1)}
    seen = set()
    for point in experiment.points():
        level = point.levels["J"]
        if level not in seen:
            seen.add(level)
            wanted = shares(GUESTS, strong[level], WEAK_SHARE)
            for role in experiment.study(point).roles.values():
                assert role.parameters["shares"] == pytest.approx(wanted, rel=1e-9)
    assert seen == set(experiment.factors["J"])


@pytest.mark.slow
def test_the_doubling_over_j_is_asked_of_emulated_devices_from_the_least_fair_load_of_twelve_guests_alone() -> (
    None
):
    """A law linear in J gives less over a shorter range: 1.56 from 0.3401."""
    claimed = {
        (path.name, claim.id): claim
        for path in STUDY.glob("*.yaml")
        if path.name not in {"figures.yaml", "statements.yaml"}
        for claim in shipped(path).claims
        if claim.published is not None and claim.published["metric"] == "throughput_ratio_j1_to_j009"
    }
    assert {name for name, _ in claimed} == {"full-machines.yaml"}
    assert all(
        "vnic = e1000" in claim.text and "J 1.0000 / 0.0850" in claim.text for claim in claimed.values()
    )
    (gain,) = (
        claim
        for claim in shipped(STUDY / "machines.yaml").claims
        if claim.id == "emulated-gains-with-fairness"
    )
    linear = 2 / (1 + (0.3401 - 0.0850) / (1 - 0.0850))
    assert f"within {100 * linear:.0f} % +-" in gain.text


@pytest.mark.slow
def test_all_twelve_values_of_k_are_in_the_long_forms(experiments: dict[str, Experiment]) -> None:
    assert all(
        len(experiments[name].factors["J"]) == GUESTS
        for name in ("full.yaml", "full-throughput.yaml", "published.yaml", "published-throughput.yaml")
    )


@pytest.mark.slow
def test_the_published_form_of_throughput_is_rfc_2544_as_it_stands(
    experiments: dict[str, Experiment],
) -> None:
    """Bisection without loss in any guest, and each test for 60 s at least, as the source has it; latency twenty
    times.
    """
    experiment = experiments["published-throughput.yaml"]
    for point in experiment.points():
        search = experiment.study(point).search
        assert search is not None
        assert (search.method, search.loss_per) == ("rfc2544", "flow")
        assert [(goal.loss, trial_ns(goal, search.method)) for goal in search.goals] == [(0.0, 60 * 10**9)]
        assert search.tests is not None
        assert search.tests.latency is not None
        assert (search.tests.latency.trials, search.tests.latency.trial_ns) == (20, 60 * 10**9)
        assert [load.part for load in search.tests.latency.loads] == ["at100"]


EVERY = [(name, what) for name in WITH_MACHINES for what in OF_EVERY_SIZE] + [
    ("machines.yaml", "emulated-gains-with-fairness"),
    ("full-machines.yaml", "emulated-doubles-with-fairness"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), EVERY)
def test_what_the_source_says_of_every_size_is_judged_at_every_size(name: str, what: str) -> None:
    experiment = shipped(STUDY / name)
    (claim,) = (claim.parsed() for claim in experiment.claims if claim.id == what)
    assert [member.at for member in claim.members] == [
        f"frame {size}" for size in experiment.factors["frame"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, *WITH_MACHINES])
def test_every_form_can_be_simulated(name: str) -> None:
    """Those with machines too: what a platform costs is the profile's to say, not the file's."""
    experiment = shipped(STUDY / name)
    for point in experiment.points()[:: max(1, len(experiment.points()) // 8)]:
        plan = plan_run(experiment, point, 0)
        assert [
            one
            for played in as_tested(experiment.study(point).search, plan)
            for one in Simulator().check(played)
        ] == []


@pytest.mark.slow
def test_the_quick_form_has_5_sizes_and_4_values_of_k_and_is_planned_to_take_less_than_ten_minutes(
    experiments: dict[str, Experiment],
) -> None:
    quick = experiments["quick.yaml"]
    assert (len(quick.factors["frame"]), len(quick.factors["J"])) == (5, 4)
    time_ns = sum(cost.time_ns for cost in estimate_points(quick)) * quick.repeat.maximum
    assert time_ns < 600 * 10**9


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_flow_has_a_guest_of_its_own_and_no_frame_circles(
    name: str, experiments: dict[str, Experiment]
) -> None:
    experiment = experiments[name]
    for point in experiment.points()[:: max(1, len(experiment.points()) // 6)]:
        plan = plan_run(experiment, point, 0)
        assert LayerTwo(plan).loops == []
        for role in plan.roles.values():
            via = role.parameters["via"]
            assert len(set(via)) == GUESTS
            assert all(plan.world.guests[guest].forwards or plan.world.guests[guest].bridges for guest in via)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "guests"), list(zip(WITH_MACHINES, (3, 12), strict=True)))
def test_the_forms_with_machines_have_every_kind_of_vnic_in_the_guests_that_forward_alone(
    name: str, guests: int
) -> None:
    experiment = shipped(STUDY / name)
    kinds = set()
    seen = set()
    for point in experiment.points():
        if point.levels["vnic"] in seen and point.levels["J"] != "1.0000":
            continue
        seen.add(point.levels["vnic"])
        plan = plan_run(experiment, point, 0)
        role = next(iter(plan.roles.values()))
        strong = {f"{fairness(guests, k, WEAK_SHARE):.4f}": k for k in range(1, guests + 1)}
        assert role.parameters["shares"] == pytest.approx(
            shares(guests, strong[point.levels["J"]], WEAK_SHARE)
        )
        forwarders = [plan.world.guests[guest] for guest in role.parameters["via"]]
        assert len(forwarders) == guests
        kinds |= {(one.platform, vnic.model) for one in forwarders for vnic in one.vnics.values()}
        ends = {plan.world.guests[guest].platform for guest in (role.from_, role.to)}
        assert "qemu" not in ends
    wanted = {("namespace", None), ("qemu", "virtio"), ("qemu", "e1000")}
    assert kinds == wanted | ({("qemu", "e1000e")} if guests == GUESTS else set())


@pytest.mark.slow
def test_the_page_repeats_the_runs_of_each_file(experiments: dict[str, Experiment]) -> None:
    page = (STUDY / "README.md").read_text()
    machines = {name: shipped(STUDY / name) for name in ("machines.yaml", "full-machines.yaml", "xen.yaml")}
    for name, experiment in (experiments | machines).items():
        points, repeat = len(experiment.points()), experiment.repeat
        low, high = points * repeat.minimum, points * repeat.maximum
        runs = str(low) if low == high else f"{low} to {high}"
        assert re.search(rf"\[{re.escape(name)}\]\({re.escape(name)}\) \|[^|]*\| {runs} \|", page), name
