"""Validation finds next to no error where the model is the truth, and a large one where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.theory.line_of_switches import file_of
from tests.theory.test_predictions import COSTLY
from typer.testing import CliRunner

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.cli.prediction.validate import app
from virtlab.experiment import load_text
from virtlab.plan import Observer, Plan, Session
from virtlab.prediction.calibration.spread import passage
from virtlab.prediction.validation import Validation, by_nearness, reach, validate
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Profile

pytestmark = pytest.mark.slow
FILE = file_of("known", count=40, stream="duration: 200 ms", repeat=3)


class Slower(Simulator):
    """A world whose second and later switches have links of half the rate that the Plan says."""

    def open(self, plan: Plan, observe: Observer) -> Session:
        links = {
            name: link.model_copy(update={"rate_bit_per_s": link.rate_bit_per_s // 2})
            if len(plan.world.switches) > 1
            else link
            for name, link in plan.world.links.items()
        }
        world = plan.world.model_copy(update={"links": links})
        return super().open(plan.model_copy(update={"world": world}), observe)


def measured(folder: Path, backend: Simulator, text: str = FILE) -> Dataset:
    place = folder / "known.results"
    experiment = load_text(text)
    with Dataset.create(place, text, name="known", seed=experiment.seed, backend="testbed") as dataset:
        run_campaign(experiment, dataset, backend, CampaignObserver())
    return Dataset.open(place)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return measured(tmp_path_factory.mktemp("honest"), Simulator(COSTLY))


@pytest.fixture(scope="module")
def validated(honest: Dataset) -> Validation:
    return validate(honest)


def test_the_refitted_model_predicts_left_out_levels_of_its_own_truth(validated: Validation) -> None:
    for one in validated.overall:
        assert one.median < 0.02, one
        assert one.reached
    paths = {str(one.path) for one in validated.overall}
    jitter = {f"probe.jitter_rfc3550.{statistic}" for statistic in ("mean", "final")}
    assert paths == {"probe.rtt.mean", "probe.rtt.mdev", "stream.goodput.mean", *jitter}


def test_the_naive_guess_is_far_worse_where_the_level_matters(validated: Validation) -> None:
    (delay,) = [
        one for one in validated.per_factor if one.factor == "switches" and str(one.path) == "probe.rtt.mean"
    ]
    assert delay.naive_median is not None
    assert delay.naive_median > 0.15 > 10 * delay.median


def test_ends_are_extrapolations_and_what_lies_between_is_an_interpolation(validated: Validation) -> None:
    kinds = {(one.factor, one.level): one.reach for one in validated.errors}
    assert kinds == {
        ("switches", "1"): "extrapolation", ("switches", "2"): "interpolation", ("switches", "3"): "extrapolation",
        ("load", "0 B"): "extrapolation", ("load", "30 kB"): "extrapolation",
    }  # fmt: skip


def test_a_world_that_is_not_what_the_plan_says_shows_as_a_large_error(tmp_path: Path) -> None:
    dataset = measured(tmp_path, Slower(COSTLY))
    error = {
        one.level: one.ratio
        for one in validate(dataset, profile=COSTLY).errors
        if str(one.path) == "stream.goodput.mean" and one.point["load"] == "0 B" and one.factor == "switches"
    }
    assert error["1"] < 0.001
    assert error["2"] == error["3"] == pytest.approx(1.0, abs=0.02)  # at the Plan's rate: twice what came
    refitted = {str(one.path): one for one in validate(dataset).overall}
    assert not refitted["stream.goodput.mean"].reached
    assert not refitted["probe.rtt.mean"].reached


def test_a_profile_can_be_held_instead_of_refitted(honest: Dataset) -> None:
    held = validate(honest, profile=COSTLY)
    assert all(one.median < 0.001 for one in held.overall)
    assert held.how.startswith("held profile made-up")


def test_a_dataset_without_a_factor_of_two_levels_says_so(tmp_path: Path) -> None:
    text = FILE.replace("[1, 2, 3]", "[1]").replace("[0 B, 30 kB]", "[0 B]")
    found = validate(measured(tmp_path, Simulator(COSTLY), text))
    assert found.errors == ()
    assert [note.partition(":")[0] for note in found.notes] == ["switches", "load"]
    assert "only 1 has good runs" in found.notes[0]


REQUESTS = """
version: 1
name: requests
factors: {switches: [1, 2, 3]}
hosts: 2
host: {guests: 1}
topology: {shape: line, switches: "${switches}"}
link: {rate: 100 Mbit/s}
roles:
  web: {workload: ROLE, from: h1.g1, to: h2.g1, MORE}
repeat: 2
"""


@pytest.mark.parametrize(
    ("role", "more", "path"),
    [
        ("tcp_rr", "duration: 200 ms, request: 100 B, response: 4 kB", "web.transaction_time.mean"),
        ("psping", "test: latency, protocol: udp, size: 100 B, count: 40, interval: 3 ms", "web.rtt.mean"),
    ],
)
def test_requests_tell_costs_where_no_echo_is_measured(
    tmp_path: Path, role: str, more: str, path: str
) -> None:
    text = REQUESTS.replace("ROLE", role).replace("MORE", more)
    found = validate(measured(tmp_path, Simulator(COSTLY), text))
    (delay,) = [one for one in found.overall if str(one.path) == path]
    assert delay.median < 0.05
    assert delay.naive_median is not None
    assert delay.naive_median > 0.1


def test_where_nothing_tells_a_cost_the_ideal_platform_is_held_and_that_is_said(tmp_path: Path) -> None:
    text = REQUESTS.replace("ROLE", "tcp_stream").replace("MORE", "duration: 300 ms")
    found = validate(measured(tmp_path, Simulator(COSTLY), text))
    assert any("the ideal platform is held" in note for note in found.notes)
    (goodput,) = found.overall
    assert str(goodput.path) == "web.goodput.mean"


def test_a_level_that_pays_what_no_other_tells_cannot_be_judged_and_says_why(tmp_path: Path) -> None:
    text = FILE.replace("switches: [1, 2, 3]", "vswitch: [linux_bridge, ovs-netdev]").replace(
        '"${switches}"', "1"
    )
    text = text.replace("host: {guests: 2}", 'host: {guests: 2, vswitch: "${vswitch}"}')
    more = {"vswitch.ovs-netdev.packet_ns": COSTLY.parameters["vswitch.linux_bridge.packet_ns"]}
    both = Profile("both", 2, dict(COSTLY.parameters) | more, COSTLY.tables)
    found = validate(measured(tmp_path, Simulator(both), text))
    (said,) = [note for note in found.notes if note.startswith("vswitch = ovs-netdev")]
    assert "no other level tells what vswitch.ovs-netdev costs" in said
    assert {one.factor for one in found.errors} == {"load"}


def test_one_passage_is_what_makes_an_echo_of_two_also_in_the_tail() -> None:
    drawn = np.random.default_rng(4)

    def passages() -> NDArray[np.float64]:
        rare = np.where(drawn.random(6000) < 0.01, drawn.exponential(200_000, 6000), 0.0)
        return drawn.normal(0, 1000, 6000) + rare

    def jitter(values: NDArray[np.float64]) -> float:
        return float(np.abs(np.diff(values)).mean())

    echoes = passages() + passages()
    one = passage([echoes - np.median(echoes)])
    again = drawn.choice(one, 60_000) + drawn.choice(one, 60_000)
    halved = echoes / 2**0.5
    assert jitter(again) == pytest.approx(jitter(echoes), rel=0.1)
    assert jitter(drawn.choice(halved, 60_000) + drawn.choice(halved, 60_000)) > 1.2 * jitter(echoes)


def test_nearness_is_by_number_where_levels_are_numbers_and_by_place_where_they_are_names() -> None:
    assert by_nearness("64 kB", ["0 B", "1 MB", "64 kB"]) == ["0 B", "1 MB"]
    assert by_nearness("c", ["a", "b", "c"]) == ["b", "a"]
    assert reach("c", ["a", "b", "c"]) == "other name"


def test_the_command_prints_the_median_error_and_whether_the_goal_is_reached(honest: Dataset) -> None:
    run = CliRunner().invoke(app, [str(honest.path), "--metric", "rtt.mean", "--repetitions", "2"])
    assert run.exit_code == 0, run.output
    assert "goal 10 %: reached" in run.stdout
    assert "interpolation" in run.stdout
    found = json.loads(CliRunner().invoke(app, [str(honest.path), "--profile", "ideal", "--json"]).stdout)
    assert {one["factor"] for one in found["per_factor"]} == {"switches", "load"}
    assert all(
        cell["predicted"] < cell["measured"]
        for cell in found["cells"]
        if cell["metric"] == "probe.rtt.mean" and cell["point"]["load"] == "0 B"
    )
