"""Runs made with known costs give back a profile that predicts like them, and what they cannot tell is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.theory.test_predictions import COSTLY, RTT, echoes

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load_text
from virtlab.prediction.calibration import Calibrated, calibrate, designs
from virtlab.prediction.simulate import simulate
from virtlab.results import Dataset, RunRecord
from virtlab.simulator import Simulator


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    folder: Path = tmp_path_factory.mktemp("calibration")
    records: list[RunRecord] = []
    for name, text in designs(quick=True).items():
        with Dataset.create(folder / f"{name}.results", text, name=name, backend="simulator") as dataset:
            run_campaign(load_text(text), dataset, Simulator(COSTLY), CampaignObserver())
            records += dataset.runs("ok")
    return calibrate(records, processors=2, provenance={}, name="again")


def test_every_median_is_explained(calibrated: Calibrated) -> None:
    assert calibrated.runs == 64
    assert calibrated.fit.residual_p90 < 5  # costs are whole nanoseconds


def test_costs_that_come_together_are_named_and_the_file_says_so(calibrated: Calibrated) -> None:
    costs = {one.name: one for one in calibrated.fit.costs}
    assert not costs["wakeup.sleep"].identified
    assert "platform.namespace.message_ns" in costs["wakeup.sleep"].together
    assert costs["flow.first_packet_ns"].value == pytest.approx(0, abs=5)
    together = costs["wakeup.sleep"].value + costs["platform.namespace.message_ns"].value
    assert together <= 26_000 + 10  # with the send call at most
    assert "identified = false" in calibrated.profile.text()


@pytest.mark.parametrize("switches", [1, 2, 5])
@pytest.mark.parametrize("more", ["", ", protocol: udp"])
def test_the_profile_predicts_what_its_model_measured_also_beyond_the_levels_of_the_fit(
    calibrated: Calibrated, switches: int, more: str
) -> None:
    world = echoes(switches, more=more)
    truth, again = (
        simulate(world, one, repetitions=2).values(RTT)[0] for one in (COSTLY, calibrated.profile)
    )
    assert again == pytest.approx(truth, abs=50)
