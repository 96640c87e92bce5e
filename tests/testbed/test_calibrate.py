"""A calibration in its shortest form on the real thing: the bridge alone, and a flood over it.

What a machine costs is its own, so only bounds hold: costs are there and none is absurd, what is known as a sum is
called so, and the profile explains the very runs that it comes from, each by its own Plan. A busy machine's runs are
tainted and serve here all the same. A machine that was busy during some of them only can spoil that: then all are
played once more.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.testbed.testbed_world import missing

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.prediction.calibration.calibrate import ECHO_COSTS, WAKEUPS, Calibrated, calibrate
from virtlab.prediction.calibration.designs import BESIDE, PROBE, designs
from virtlab.prediction.calibration.rows import numbers_of, rows_of
from virtlab.prediction.simulation.simulate import Job, play_records
from virtlab.results import Dataset, RunRecord
from virtlab.simulator.profile import load_profile
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.undisturbed,
]
SHORT = {
    "count: 200": "count: 60", "count: 100": "count: 60", "minimum: 2, maximum: 2": "minimum: 1, maximum: 1",
    "minimum: 3, maximum: 3": "minimum: 1, maximum: 1", "100 ms}": "30 ms}",
}  # fmt: skip
FLOODS, SIZES = ("raw", "forward_layer3", "forward_layer2"), ("64 B frame", "1518 B frame")
DESIGNS = ("bridge", *FLOODS, "pinned", "vswitch_ovs_netdev")


def short(name: str) -> str:
    text = designs(quick=True)[name]
    for long, brief in SHORT.items():
        text = text.replace(long, brief)
    return text


def calibrated_in(folder: Path) -> tuple[Calibrated, list[RunRecord]]:
    """The designs, played into that folder, and the profile fitted to their runs."""
    records: list[RunRecord] = []
    backend = Testbed()
    for name in DESIGNS:
        experiment = load_text(short(name))
        if backend.check(plan_run(experiment, experiment.points()[0], 0)):
            continue  # as `virtlab calibrate` leaves out what a machine cannot play
        with Dataset.create(folder / f"{name}.results", short(name), name=name, backend="testbed") as dataset:
            run_campaign(experiment, dataset, backend, CampaignObserver())
            found = {run.point: run for run in dataset.runs() if run.status in {"ok", "tainted"}}
            records += found.values()
    if len(records) < 6:
        pytest.skip("this machine played too few runs to their end")
    return calibrate(records, processors=2, provenance={}, name="short"), records


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Calibrated, list[RunRecord]]:
    return calibrated_in(tmp_path_factory.mktemp("calibrate"))


def fitted_to(records: list[RunRecord]) -> list[RunRecord]:
    """Runs whose echoes the costs were fitted to. Those of pinned routers tell what steering costs, and no other
    cost.
    """
    return [record for record in records if PROBE in record.plan.roles and BESIDE not in record.plan.point]


def predicted_to_measured(calibrated: Calibrated, records: list[RunRecord]) -> NDArray[np.float64]:
    """Of each run that the costs were fitted to, the median of its echoes: as its own Plan is simulated, to as
    measured.
    """
    runs = fitted_to(records)
    played = play_records([Job(run.plan, calibrated.profile) for run in runs])
    predicted, seen = (
        np.array([np.median(run.samples(PROBE, "rtt/1", ["rtt_ns"])["rtt_ns"]) for run in some])
        for some in (played, runs)
    )
    ratios: NDArray[np.float64] = predicted / seen
    return ratios


def test_costs_of_this_machine_are_there_and_none_is_absurd(
    measured: tuple[Calibrated, list[RunRecord]],
) -> None:
    calibrated, _ = measured
    costs = {one.name: one for one in calibrated.fit.costs}
    crossing = costs["platform.namespace.crossing_ns"].value + costs["vswitch.linux_bridge.packet_ns"].value
    process = sum(
        costs[name].value
        for name in ("platform.namespace.send_ns", "platform.namespace.message_ns", "wakeup.sleep")
    )
    assert 0 <= crossing < 1e6
    assert 500 < process < 2e6
    assert 100 < costs["flood.raw_stream.packet_ns"].value < 100_000
    assert not costs["platform.namespace.send_ns"].identified
    assert not costs["links.departure_ns"].seen


def test_the_profile_predicts_the_runs_that_it_comes_from(
    measured: tuple[Calibrated, list[RunRecord]], tmp_path: Path
) -> None:
    calibrated, records = measured
    file = tmp_path / "short.toml"
    file.write_text(calibrated.profile.text(), encoding="utf-8")
    assert load_profile(str(file)).identity == calibrated.profile.identity
    ratios = predicted_to_measured(calibrated, records)
    if not 0.5 < float(np.median(ratios)) < 2:
        ratios = predicted_to_measured(*calibrated_in(tmp_path))
    assert 0.5 < float(np.median(ratios)) < 2, ratios


def test_a_simulated_path_takes_what_the_fit_says(measured: tuple[Calibrated, list[RunRecord]]) -> None:
    """However noisy the runs were: nothing is drawn on a path that a far kernel answers over one virtual switch."""
    calibrated, records = measured
    costs = {one.name: one.value for one in calibrated.fit.costs}
    runs = [run for run in fitted_to(records) if run.plan.roles[PROBE].parameters["protocol"] == "icmp"]
    assert runs
    for run, played in zip(
        runs, play_records([Job(run.plan, calibrated.profile) for run in runs]), strict=True
    ):
        seen, simulated = numbers_of(run, PROBE), numbers_of(played, PROBE)
        assert seen is not None
        assert simulated is not None
        row = next(each for each in rows_of([run], (*ECHO_COSTS, *WAKEUPS))[0] if each.kind == "path")
        explained = sum(costs[name] * added for name, added in row.design.items())
        fitted = seen[0]["path"][0] - row.excess_ns + explained
        assert simulated[0]["path"][0] == pytest.approx(fitted, rel=0.01, abs=100), run.plan.point


def test_what_forwarding_costs_is_told_from_what_a_call_costs(
    measured: tuple[Calibrated, list[RunRecord]], tmp_path: Path
) -> None:
    calibrated, records = measured
    costs = {one.name: one for one in calibrated.fit.costs}
    if not costs["platform.namespace.bridge_ns"].value:  # other work hid it
        calibrated, records = calibrated_in(tmp_path)
        costs = {one.name: one for one in calibrated.fit.costs}
    floods = [record for record in records if "flood" in record.plan.roles]
    if len(floods) < len(SIZES) * len(FLOODS) or calibrated.residuals["period"][0] < len(floods):
        pytest.skip("this machine played too few floods to their end")
    for way in ("forward", "bridge"):
        each, byte = costs[f"platform.namespace.{way}_ns"], costs[f"platform.namespace.{way}_byte_ns"]
        assert each.seen
        assert each.identified
        assert byte.identified
        assert 0 < each.value + 1518 * byte.value < 1_000_000
    assert f"platform.namespace.{way}_ns" in calibrated.profile.parameters


def test_what_pinned_routers_and_other_datapaths_cost_is_measured_where_the_machine_has_them(
    measured: tuple[Calibrated, list[RunRecord]],
) -> None:
    calibrated, records = measured
    pinned = {record.plan.point["pin"] for record in records if "pin" in record.plan.point}
    found = calibrated.steering
    if pinned == {"none", "one"} and found.cost is not None:
        assert 0 <= found.cost.value < 1e6
        assert not found.cost.identified  # a run each tells no interval
        assert calibrated.profile.parameters["platform.namespace.steer_ns"] == found.cost
    else:
        assert "not identified" in found.why
    switched = any(
        each.kind == "ovs-netdev" for record in records for each in record.plan.world.vswitches.values()
    )
    datapath = {one.name: one for one in calibrated.fit.costs}["vswitch.ovs-netdev.packet_ns"]
    assert datapath.seen == switched
    assert ("vswitch.ovs-netdev.packet_ns" in calibrated.profile.parameters) == switched
    assert 0 <= datapath.value < 1e6
