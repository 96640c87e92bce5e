"""Runs made with known costs give back a profile that predicts like them, and what they cannot tell is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.theory.test_predictions import COSTLY, RTT, constant, echoes

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.prediction.calibration.calibrate import Calibrated, calibrate, designs
from virtlab.prediction.calibration.rows import usable
from virtlab.prediction.simulation.simulate import simulate
from virtlab.results import Dataset, RunRecord
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile, load_profile

pytestmark = pytest.mark.slow
KNOWN = Profile(
    "known",
    4,
    {
        **COSTLY.parameters,
        "flow.first_packet_ns": Parameter(40_000),
        "flood.raw_stream.packet_ns": Parameter(900),
        "flood.raw_stream.byte_ns": Parameter(0.2),
        "flood.udp_stream.packet_ns": Parameter(2500),
        "flood.udp_stream.byte_ns": Parameter(0.5),
        "links.frame_ns": Parameter(3000),
        "links.frame_byte_ns": Parameter(1.5),
        "qdisc.codel.frame_ns": Parameter(400),
        "qdisc.fq_codel.frame_ns": Parameter(1100),
        "platform.namespace.forward_ns": Parameter(20_000),
        "platform.namespace.forward_byte_ns": Parameter(5),
        "platform.namespace.bridge_ns": Parameter(15_000),
        "platform.namespace.bridge_byte_ns": Parameter(4),
        "platform.namespace.steer_ns": Parameter(7000),
        "vswitch.ovs-netdev.packet_ns": Parameter(2700),
        "vswitch.ovs-netdev.byte_ns": Parameter(0.5),
        "vswitch.ovs-netdev.upcall_ns": Parameter(150_000),
        "vswitch.ovs-kernel.packet_ns": Parameter(1200),
        "vswitch.ovs-kernel.upcall_ns": Parameter(90_000),
    },
    {
        **COSTLY.tables,
        "wakeup.poll": constant(3000),
        "wakeup.sleep.links": constant(50_000),
        "wakeup.poll.links": constant(4000),
        "links.notice": constant(60_000),
    },
)


MEDIAN = MetricPath.parse("probe.rtt.median")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    folder: Path = tmp_path_factory.mktemp("calibration")
    records: list[RunRecord] = []
    for name, text in designs(quick=True).items():
        with Dataset.create(folder / f"{name}.results", text, name=name, backend="simulator") as dataset:
            run_campaign(load_text(text), dataset, Simulator(KNOWN), CampaignObserver())
            records += usable(dataset)
    return records


@pytest.fixture(scope="module")
def calibrated(measured: list[RunRecord]) -> Calibrated:
    return calibrate(measured, processors=2, provenance={}, name="again")


def test_every_number_is_explained(calibrated: Calibrated) -> None:
    assert set(calibrated.residuals) == {"path", "process", "first", "period"}
    for kind, (_, _, p90) in calibrated.residuals.items():
        assert p90 < (20 if kind == "period" else 5), kind  # costs are whole nanoseconds; a flood has an end


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("flow.first_packet_ns", 0.001),
        ("flood.raw_stream.packet_ns", 0.02),
        ("flood.raw_stream.byte_ns", 0.02),
        ("flood.udp_stream.packet_ns", 0.02),
        ("flood.udp_stream.byte_ns", 0.02),
        ("links.frame_ns", 0.02),
        ("links.frame_byte_ns", 0.05),
        ("qdisc.codel.frame_ns", 0.05),
        ("qdisc.fq_codel.frame_ns", 0.05),
        ("platform.namespace.forward_ns", 0.02),
        ("platform.namespace.forward_byte_ns", 0.05),
        ("platform.namespace.bridge_ns", 0.02),
        ("platform.namespace.bridge_byte_ns", 0.05),
        ("vswitch.ovs-netdev.upcall_ns", 0.01),
        ("vswitch.ovs-kernel.upcall_ns", 0.01),
    ],
)
def test_costs_that_stand_alone_come_back(calibrated: Calibrated, name: str, tolerance: float) -> None:
    found = {one.name: one for one in calibrated.fit.costs}[name]
    assert found.identified
    assert found.value == pytest.approx(KNOWN.value(name), rel=tolerance)
    assert found.low <= found.value <= found.high


def test_a_datapath_is_told_from_the_bridge_and_not_from_the_vnics(calibrated: Calibrated) -> None:
    costs = {one.name: one for one in calibrated.fit.costs}
    bridge = costs["vswitch.linux_bridge.packet_ns"].value
    for kind, more_ns in (("ovs-netdev", 2000), ("ovs-kernel", 500)):  # beyond the bridge's 700
        found = costs[f"vswitch.{kind}.packet_ns"]
        assert found.seen
        assert not found.identified
        assert "platform.namespace.crossing_ns" in found.together
        assert found.value - bridge == pytest.approx(more_ns, abs=20)
    assert "upcall_ns" in calibrated.profile.text()
    per_byte = costs["vswitch.ovs-netdev.byte_ns"].value - costs["vswitch.linux_bridge.byte_ns"].value
    assert per_byte == pytest.approx(0.5, abs=0.05)


def test_what_steering_to_a_pinned_router_costs_comes_back_and_a_load_there_is_held_against_the_model(
    calibrated: Calibrated,
) -> None:
    found = calibrated.steering
    assert found.cost is not None
    assert found.cost.value == pytest.approx(7000, abs=50)
    assert calibrated.profile.value("platform.namespace.steer_ns") == found.cost.value
    assert found.loaded_ns is not None
    assert found.modelled_ns is not None
    assert found.modelled_ns == pytest.approx(found.loaded_ns, abs=1000)
    assert calibrated.profile.fit["pinned_path_ns"] == pytest.approx(14_000, abs=100)


def test_without_pinned_routers_what_steering_costs_is_not_identified_and_said_so(
    measured: list[RunRecord],
) -> None:
    none = calibrate(
        [run for run in measured if "pin" not in run.plan.point], processors=2, provenance={}, name="none"
    )
    assert none.steering.cost is None
    assert "not identified" in none.steering.why
    assert "platform.namespace.steer_ns" not in none.profile.parameters
    assert "not identified" in none.profile.fit["pinned"]


def test_costs_that_come_together_are_named_and_the_file_says_so(calibrated: Calibrated) -> None:
    costs = {one.name: one for one in calibrated.fit.costs}
    assert not costs["wakeup.sleep"].identified
    assert "platform.namespace.message_ns" in costs["wakeup.sleep"].together
    together = costs["wakeup.sleep"].value + costs["platform.namespace.message_ns"].value
    assert together <= 26_000 + 10  # with the send call at most
    slower = costs["wakeup.sleep.links"].value - costs["wakeup.sleep"].value
    assert slower == pytest.approx(30_000, abs=50)  # the difference is known where neither is
    assert "identified = false" in calibrated.profile.text()
    assert not costs["qdisc.hfsc.frame_ns"].seen
    assert "qdisc.hfsc.frame_ns" not in calibrated.profile.parameters
    assert "qdisc.hfsc.frame_ns" in calibrated.profile.fit["unseen"]


@pytest.mark.parametrize("switches", [1, 2, 5])
@pytest.mark.parametrize("more", ["", ", protocol: udp"])
def test_the_profile_predicts_what_its_model_measured_also_beyond_the_levels_of_the_fit(
    calibrated: Calibrated, switches: int, more: str
) -> None:
    world = echoes(switches, more=more)
    truth, again = (simulate(world, one, repetitions=2).values(RTT)[0] for one in (KNOWN, calibrated.profile))
    assert again == pytest.approx(truth, abs=50)


def test_what_busy_neighbours_cost_comes_back_and_is_paid_while_all_processors_are_busy(
    tmp_path: Path,
) -> None:
    crowded = {"busy.crossing_ns": Parameter(700)}
    known = Profile(
        "crowded",
        2,
        dict(KNOWN.parameters) | crowded,
        dict(KNOWN.tables) | {"wakeup.busy": constant(300_000)},
    )
    texts = {name: text for name, text in designs(quick=True).items() if name in {"bridge", "udp", "busy"}}
    records: list[RunRecord] = []
    for name, text in texts.items():
        with Dataset.create(tmp_path / f"{name}.results", text, name=name, backend="simulator") as dataset:
            run_campaign(load_text(text), dataset, Simulator(known), CampaignObserver())
            records += usable(dataset)
    found = calibrate(records, processors=2, provenance={}, name="again")
    assert found.profile.value("busy.crossing_ns") == pytest.approx(700, abs=200)
    assert found.contention.table is not None
    wake = found.contention.table.ns
    assert wake[len(wake) // 2] == pytest.approx(300_000, rel=0.1)  # a message is told as a sum with it
    assert found.profile.fit["busy_2_process_ns"] == pytest.approx(280_000, rel=0.05)
    held = tmp_path / "held.toml"
    held.write_text(found.profile.text(), encoding="utf-8")
    again = load_profile(str(held))
    assert again.identity == found.profile.identity
    beside = load_text(texts["busy"])
    ends = [
        point.index for point in beside.points() if point.levels["busy"] != "one"
    ]  # in between, medians jump
    truth, predicted = (
        simulate(beside, one, points=ends, repetitions=2).values(MEDIAN) for one in (known, again)
    )
    assert predicted == pytest.approx(truth, rel=0.03)
    assert max(truth) > min(truth) + 250_000


def test_without_busy_runs_what_neighbours_cost_is_not_identified_and_said_so(
    measured: list[RunRecord],
) -> None:
    none = calibrate(
        [run for run in measured if "busy" not in run.plan.point], processors=2, provenance={}, name="none"
    )
    assert none.contention.table is None
    assert "not identified" in none.contention.why
    assert "busy.crossing_ns" not in none.profile.parameters
    assert "not identified" in none.profile.fit["busy"]
