"""The recommended level is the one that closed forms and the wire say is best."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.theory.line_of_switches import file_of
from tests.theory.test_effects_and_uncertainty import unsure
from typer.testing import CliRunner

from virtlab.cli.prediction.recommend import app
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.experiment.overrides import find_input
from virtlab.prediction.questions.limits import parse_limits
from virtlab.prediction.questions.recommend import Choice, parse_goal
from virtlab.simulator.profile import IDEAL_PROFILE, Profile

FILE = file_of("choose", switches="[1, 2, 4]", stream="rate: 30 Mbit/s, duration: 300 ms")


def choice(
    vary: dict[str, list[str]],
    best: str,
    *limits: str,
    load: str = "0 B",
    profile: Profile = IDEAL_PROFILE,
    draws: int = 8,
) -> Choice:
    experiment = load_text(FILE)
    roles = experiment.role_workloads()
    varied = {find_input(experiment, name): levels for name, levels in vary.items()}
    others = {"load": load} | ({} if "switches" in vary else {"switches": "1"})
    return Choice(
        experiment,
        profile,
        varied,
        others,
        parse_goal(best, roles, "--best"),
        parse_limits(limits, roles, "-s"),
        draws=draws,
    )


@pytest.mark.slow
def test_the_least_delay_is_that_of_the_fewest_switches_and_the_difference_is_the_closed_form() -> None:
    found = choice({"switches": ["4", "1", "2"]}, "rtt.mean").answer()
    assert [(one.levels["switches"], one.standing) for one in found.candidates] == [
        ("1", "best"), ("2", "worse"), ("4", "worse"),
    ]  # fmt: skip
    assert found.candidates[1].difference is not None
    assert found.candidates[1].difference.point == 244_160


@pytest.mark.slow
def test_a_level_that_the_file_does_not_have_is_a_candidate_too() -> None:
    found = choice({"switches": ["3", "2"]}, "rtt.mean").answer()
    assert [one.levels["switches"] for one in found.candidates] == ["2", "3"]
    assert found.candidates[1].difference is not None
    assert found.candidates[1].difference.point == 244_160


@pytest.mark.slow
def test_levels_within_the_margin_are_equivalent_and_those_that_break_a_limit_are_out() -> None:
    rates = ["20 Mbit/s", "100 Mbit/s", "100.5 Mbit/s", "150 Mbit/s"]
    found = choice(
        {"link.rate": rates},
        "max rtt.mean",
        "stream.goodput.mean >= 28 Mbit/s",
        "stream.loss <= 0 %",
        load="30 kB",
    ).answer()
    standing = {one.levels["link.rate"]: one for one in found.candidates}
    assert standing["20 Mbit/s"].standing == "infeasible"
    assert "goodput" in str(standing["20 Mbit/s"].broken[0])
    assert {standing["100 Mbit/s"].standing, standing["100.5 Mbit/s"].standing} <= {
        "best",
        "equivalent",
        "undecided",
    }
    assert standing["150 Mbit/s"].standing == "worse"


@pytest.mark.slow
def test_a_cost_that_all_candidates_pay_alike_does_not_blur_which_is_best() -> None:
    send = unsure(1000, 9000)  # 4 us either way, once per echo, whatever the switches
    found = choice({"switches": ["1", "2"]}, "rtt.mean", profile=send).answer()
    assert [one.standing for one in found.candidates] == ["best", "worse"]
    assert (found.simulations, found.drawn) == (8, 16)
    best, second = found.candidates
    assert best.estimate is not None
    assert best.estimate.half_width is not None
    assert best.estimate.half_width > 1000  # of the candidate itself it does count
    assert second.difference is not None
    assert (second.difference.point, second.difference.half_width) == (244_160, 0)


@pytest.mark.slow
def test_a_limit_within_what_the_parameters_may_be_is_not_shown_to_be_kept() -> None:
    send = unsure(1000, 9000)
    plain = choice({"switches": ["1"]}, "rtt.mean", "rtt.mean < 1 s", profile=send).answer()
    assert plain.best is not None
    assert plain.best.estimate is not None
    near = f"rtt.mean < {plain.best.estimate.point + 1000} ns"
    assert choice({"switches": ["1"]}, "rtt.mean", near, profile=send, draws=0).answer().best is not None
    unsettled = choice({"switches": ["1"]}, "rtt.mean", near, profile=send).answer()
    assert [one.standing for one in unsettled.candidates] == ["not shown feasible"]


def test_a_goal_needs_a_direction() -> None:
    roles = {"probe": "rtt", "load": "burst_load"}
    assert parse_goal("rtt.mean", roles, "--best").better == "lower"
    assert parse_goal("max probe.rtt", roles, "--best").better == "higher"
    with pytest.raises(ExperimentError, match="neither more nor less"):
        parse_goal("load.offered_load.mean", roles, "--best")


@pytest.mark.slow
def test_the_command_answers_per_combination_of_the_other_factors(tmp_path: Path) -> None:
    file = tmp_path / "choose.yaml"
    file.write_text(FILE, encoding="utf-8")
    run = CliRunner().invoke(
        app, [str(file), "--best", "rtt.mean", "--vary", "switches", "--runs", "8", "--json"]
    )
    assert run.exit_code == 0, run.output
    answers = json.loads(run.stdout)["answers"]
    assert [answer["others"] for answer in answers] == [{"load": "0 B"}, {"load": "30 kB"}]
    assert all(answer["best"] == {"switches": "1"} for answer in answers)
    none = CliRunner().invoke(
        app, [str(file), "--best", "rtt.mean", "--vary", "switches=1,2", "--subject-to", "rtt.mean < 1 us"]
    )
    assert none.exit_code == 4
    assert "no candidate is shown to keep the limits" in none.stdout
