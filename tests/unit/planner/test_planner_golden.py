"""Plans of the study and of files that use everything are as they were; the arms can lower them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "experiments"
STUDY = sorted((GOLDEN / "switched-network").glob("*.json"))
RIGHT = sorted((GOLDEN / "right").glob("*.json"))


def planned(golden: Path) -> Plan:
    """The Plan that a golden file's name asks for: EXPERIMENT.pPOINT[.rREPETITION].json."""
    stem, point, *repetition = golden.name.removesuffix(".json").split(".")
    folder = (
        ROOT / "experiments" / "switched-network"
        if golden.parent.name == "switched-network"
        else golden.parent
    )
    experiment = shipped(folder / f"{stem}.yaml")
    return plan_run(
        experiment, experiment.points()[int(point[1:])], int(repetition[0][1:]) if repetition else 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("golden", [*STUDY, *RIGHT], ids=lambda path: path.stem)
def test_a_design_point_has_its_golden_plan(golden: Path) -> None:
    assert json.loads(planned(golden).canonical()) == json.loads(golden.read_text())


@pytest.mark.parametrize("golden", [*STUDY, *RIGHT], ids=lambda path: path.stem)
def test_every_step_of_a_plan_has_a_reason_in_the_file(golden: Path) -> None:
    from virtlab.cli.experiment.plan import because_of

    plan = planned(golden)
    steps = lower(plan).steps
    assert steps
    assert [str(step) for step in steps if not because_of(plan, step.because)] == []


@pytest.mark.parametrize("golden", [*STUDY, *RIGHT], ids=lambda path: path.stem)
def test_every_object_of_a_plan_says_which_place_of_the_file_asked_for_it(golden: Path) -> None:
    plan = planned(golden)
    world = plan.world
    objects = [
        f"{kind}.{name}"
        for kind in ("hosts", "guests", "vswitches", "switches", "links", "routes")
        for name in getattr(world, kind)
    ]
    objects += [f"roles.{name}" for name in plan.roles] + [
        f"timeline.{action.id}" for action in plan.timeline
    ]
    objects += [f"services.{name}" for name in world.services]
    objects += [f"guests.{name}.vnics.{vnic}" for name, guest in world.guests.items() for vnic in guest.vnics]
    assert set(plan.because) == set(objects)


@pytest.mark.slow
def test_every_form_of_the_study_plans_at_every_point() -> None:
    for file in sorted((ROOT / "experiments" / "switched-network").glob("*.yaml")):
        if file.name in {"figures.yaml", "statements.yaml"}:
            continue
        experiment = shipped(file)
        for point in experiment.points()[::7]:
            assert plan_run(experiment, point, 0).point == point.levels
