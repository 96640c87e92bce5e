"""Effects of one more switch and guest are closed forms; not knowing the profile widens a prediction as it should."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.theory.line_of_switches import file_of
from tests.theory.test_predictions import COSTLY, RTT, echoes
from typer.testing import CliRunner

from virtlab.analysis.effects.added import effects_of
from virtlab.cli.prediction.predict import app
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.prediction.questions.effects import predicted_effects
from virtlab.prediction.questions.explain import explain
from virtlab.prediction.simulation.simulate import simulate
from virtlab.prediction.simulation.uncertainty import combined, drawn, drawn_values, has_intervals
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles, load_profile

FILE = file_of("lines", switches="[1, 2, 4]", stream="", repeat=3)
SEND = "platform.namespace.send_ns"


def unsure(low: float, high: float) -> Profile:
    """A send call of 5 us, known from `low` to `high`."""
    return Profile("unsure", 2, {**COSTLY.parameters, SEND: Parameter(5000, low, high)}, COSTLY.tables)


@pytest.mark.slow
def test_neighbouring_settings_give_the_effect_of_a_switch_and_their_average() -> None:
    experiment = load_text(FILE)
    table = simulate(experiment, IDEAL_PROFILE, repetitions=3)
    plans = {point.index: plan_run(experiment, point, 0) for point in experiment.points()}
    found = [one for one in effects_of(table, plans) if one.path == RTT]
    assert {one.added for one in found} == {"switch"}
    idle = [one for one in found if one.levels.get("load") == "0 B"]
    assert [(one.before, one.after) for one in idle] == [("1", "2"), ("2", "4")]
    assert [one.estimate.point for one in idle] == [244_160, 244_160]  # per switch, also over two
    average = [one for one in found if one.average]
    assert [(one.before, one.after) for one in average] == [("1", "2"), ("2", "4")]
    for one in average:
        mine = [each.estimate.point for each in found if not each.average and each.before == one.before]
        assert one.estimate.point == pytest.approx(sum(mine) / len(mine))
        assert one.estimate.low is not None
        assert one.estimate.low < one.estimate.point


@pytest.mark.slow
def test_one_more_switch_and_guest_are_predicted_at_any_design_point() -> None:
    experiment = load_text(FILE)
    found = predicted_effects(experiment, IDEAL_PROFILE, {"switches": "2", "load": "0 B"}, repetitions=3)
    effect = {(one.added, str(one.path)): one for one in found}
    assert effect["switch", "probe.rtt.mean"].estimate is not None
    assert effect["switch", "probe.rtt.mean"].estimate.point == 244_160
    assert effect["guest", "probe.rtt.mean"].how == "with load once more"
    assert effect["guest", "probe.rtt.mean"].estimate is not None
    assert effect["guest", "probe.rtt.mean"].estimate.point == 0  # the load is 0 B
    loaded = predicted_effects(experiment, IDEAL_PROFILE, {"switches": "2", "load": "30 kB"}, repetitions=6)
    (more,) = [one for one in loaded if one.added == "guest" and one.path == RTT]
    assert more.estimate is not None
    assert more.estimate.low is not None
    assert more.estimate.low > 0


@pytest.mark.slow
def test_a_world_that_cannot_have_one_more_says_why() -> None:
    text = FILE.replace('topology: {shape: line, switches: "${switches}"}', "topology: none").replace(
        "switches: [1, 2, 4], ", ""
    )
    found = predicted_effects(load_text(text), IDEAL_PROFILE, {"load": "0 B"}, repetitions=2)
    (switch,) = [one for one in found if one.added == "switch"]
    assert switch.estimate is None
    assert "has no number of switches" in switch.why


@pytest.mark.slow
def test_the_prediction_is_as_unsure_as_the_parameter_that_it_pays_once() -> None:
    profile = unsure(4000, 6000)  # one send call per echo: a standard deviation of 510 ns
    experiment = echoes(1)
    nominal = simulate(experiment, profile, repetitions=4).values(RTT)
    found = drawn_values(experiment, experiment.points()[0], profile, draws=200, repetitions=4)
    shifts = [each[RTT] - nominal[at % 4] for at, each in enumerate(found)]
    assert np.std(shifts) == pytest.approx(1000 / 1.96, rel=0.2)
    whole = combined(nominal, shifts, level=0.95, metric="rtt", unit="ns")
    assert whole.runs_half == 0  # nothing else varies
    assert whole.parameters_half == pytest.approx(1000, rel=0.2)
    assert whole.estimate.half_width == pytest.approx(whole.parameters_half)


def test_runs_and_parameters_are_combined_as_independent_uncertainties() -> None:
    whole = combined([10.0, 12.0, 14.0], [3.0, -3.0, 3.0, -3.0], level=0.95, metric="rtt", unit="ns")
    assert whole.runs_half is not None
    assert whole.parameters_half is not None
    assert whole.estimate.half_width == pytest.approx(math.hypot(whole.runs_half, whole.parameters_half))
    assert whole.estimate.point == 12.0


def test_costs_known_as_a_sum_are_drawn_against_each_other_and_the_file_keeps_that(tmp_path: Path) -> None:
    apart = (-900.0, -300.0, 0.0, 400.0, 1000.0)
    wake = Quantiles((0.0, 0.5, 1.0), (15_000.0, 20_000.0, 90_000.0), 19_000, 21_000)
    profile = Profile(
        "sum", 2, {**COSTLY.parameters, SEND: Parameter(5000, 4000, 6000)}, {"wakeup.sleep": wake},
        draws={SEND: apart, "wakeup.sleep": tuple(-each for each in apart)},
    )  # fmt: skip
    file = tmp_path / "sum.toml"
    file.write_text(profile.text(), encoding="utf-8")
    read = load_profile(str(file))
    assert read.draws == profile.draws
    assert read.identity == profile.identity
    found = [drawn(read, 1, draw) for draw in range(20)]
    assert len({one.value(SEND) for one in found}) > 3
    assert {one.value(SEND) + one.tables["wakeup.sleep"].ns[1] for one in found} == {25_000.0}
    assert found[3] == drawn(read, 1, 3)


@pytest.mark.slow
def test_a_known_profile_adds_nothing_and_draws_depend_on_seed_and_name_alone() -> None:
    assert not has_intervals(COSTLY)
    profile = unsure(1000, 9000)
    assert has_intervals(profile)
    assert drawn(COSTLY, 1, 0).identity == COSTLY.identity
    one = drawn(profile, 1, 3)
    fewer = Profile("fewer", 2, {SEND: profile.parameters[SEND]})
    assert one.value(SEND) == drawn(fewer, 1, 3).value(SEND) != drawn(profile, 1, 4).value(SEND)
    assert all(drawn(unsure(0, 50_000), 1, draw).value(SEND) >= 0 for draw in range(50))


@pytest.mark.slow
def test_terms_of_an_explanation_hold_the_uncertainty_of_their_own_costs_only() -> None:
    terms, total = explain(echoes(1), unsure(4000, 6000), RTT, 0, repetitions=2, draws=40)
    width = {term.name: term.estimate.half_width for term in terms}
    assert width["serialisation"] == width["virtual switches"] == width["guests: vNICs"] == 0
    assert width["guests: processes and wake-ups"] == pytest.approx(1000, rel=0.5)
    assert total.half_width == pytest.approx(width["guests: processes and wake-ups"])
    assert total.point == pytest.approx(sum(term.estimate.point for term in terms))


@pytest.mark.slow
def test_the_command_tells_runs_and_parameters_apart_and_prints_effects(tmp_path: Path) -> None:
    file, profile = tmp_path / "lines.yaml", tmp_path / "unsure.toml"
    file.write_text(FILE, encoding="utf-8")
    profile.write_text(unsure(4000, 6000).text(), encoding="utf-8")
    asked = [str(file), "--points", "0", "--profile", str(profile), "--metric", "rtt.mean"]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    assert "runs ± 0 ns, parameters ± " in run.stdout
    (found,) = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["predictions"]
    assert found["parameters_half_width"] > 100
    effects = json.loads(CliRunner().invoke(app, [*asked, "--effects", "--json"]).stdout)["predictions"]
    assert [one["one_more"] for one in effects] == ["switch", "guest"]
    assert effects[0]["effect"]["value"] == pytest.approx(244_160)
