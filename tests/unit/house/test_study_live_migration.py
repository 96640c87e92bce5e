"""The study of a guest that moves: its quick form is short, every claim about an emulated machine says so, its
repetitions are interleaved, and its orders differ in nothing but when each guest begins.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.experiment import DesignPoint, Experiment
from virtlab.plan import Action, Plan
from virtlab.planner import plan_run
from virtlab.testbed.build.moves import refused, userfaults_missing

STUDY = Path(__file__).parents[3] / "experiments" / "live-migration"
MEASURED = ("quick.yaml", "served.yaml", "full.yaml", "post-copy.yaml", "modes.yaml", "order-quick.yaml")
QUICK_MEMORY_BYTES = 256 << 20
QUICK_S = 8 * 60
BUILT_S = 4.0  # a world with two emulated machines; 2.8 s on two processors that do nothing else
ASKED_S = 1.0  # before the move, and after it


def moves_of(experiment: Experiment, point: DesignPoint) -> tuple[Plan, list[Action]]:
    plan = plan_run(experiment, point, 0)
    return plan, [action for action in plan.timeline if action.do == "migrate"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_every_claim_of_a_measured_form_says_that_processors_are_emulated(name: str) -> None:
    assert [claim.id for claim in shipped(STUDY / name).claims if "emulated" not in claim.title] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_the_testbed_plays_every_move_of_a_measured_form(name: str) -> None:
    experiment = shipped(STUDY / name)
    for point in experiment.points():
        plan, _ = moves_of(experiment, point)
        post_copy = point.levels.get("mode") == "post_copy"
        found = [refusal.reason for refusal in refused(plan)]
        assert found == ([why] if post_copy and (why := userfaults_missing()) else []), point


@pytest.mark.slow
def test_the_quick_form_takes_eight_minutes_at_most_and_its_guest_is_small() -> None:
    experiment = shipped(STUDY / "quick.yaml")
    longest_s = 0.0
    for point in experiment.points():
        plan, (move,) = moves_of(experiment, point)
        guest = plan.world.guests[str(move.guest)]
        assert (guest.memory_bytes or 0) <= QUICK_MEMORY_BYTES
        # All of its memory once, at its bandwidth: more than is sent, as zeros are not.
        copied_s = (guest.memory_bytes or 0) / (move.bandwidth_byte_per_s or 1)
        longest_s += experiment.repeat.maximum * (BUILT_S + 2 * ASKED_S + copied_s + 1)
        asked = [plan.roles[name] for name in ("near_before", "near_after", "far_before", "far_after")]
        assert {role.parameters["count"] * role.parameters["interval_ns"] for role in asked} == {
            ASKED_S * 1e9
        }
    assert longest_s <= QUICK_S
    assert set(experiment.factors) == {"mode", "writes", "bandwidth", "copy"}


@pytest.mark.slow
def test_the_full_form_has_ten_repetitions_and_more_of_each_factor() -> None:
    quick, full = shipped(STUDY / "quick.yaml"), shipped(STUDY / "full.yaml")
    assert full.repeat.minimum >= 10
    assert set(full.factors) == set(quick.factors) - {"copy"}
    assert all(len(levels) > len(quick.factors[name]) for name, levels in full.factors.items())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "guests"), [("order.yaml", 4), ("order-quick.yaml", 2)])
def test_the_orders_differ_in_when_a_guest_begins_and_in_nothing_else(name: str, guests: int) -> None:
    experiment = shipped(STUDY / name)
    plans = [moves_of(experiment, point) for point in experiment.points()]
    (in_turn, turns), (together, both) = plans
    assert in_turn.world == together.world
    assert in_turn.roles == together.roles
    assert len(turns) == len(both) == guests
    for one, other in zip(turns, both, strict=True):
        assert one.model_copy(update={"after": None}) == other.model_copy(update={"after": None})
    begins = [[str(action.after) for action in each] for each in (turns, both)]
    assert all("finished" in after for after in begins[0][1:])
    assert all("started" in after for after in begins[1][1:])
