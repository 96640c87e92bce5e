"""The golden Plans parse, keep their identity, and refuse what they do not know."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from virtlab.plan import Plan

PLANS = sorted((Path(__file__).parents[2] / "golden" / "plans").glob("*.json"))
IDENTITIES = json.loads((Path(__file__).parents[2] / "golden" / "plan_identities.json").read_text())


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_golden_plan_keeps_its_identity(path: Path) -> None:
    plan = Plan.parse(path.read_text())
    assert Plan.parse(plan.canonical()) == plan
    assert plan.identity() == IDENTITIES[path.stem]


def test_explanations_do_not_change_the_identity() -> None:
    plan = Plan.parse(PLANS[0].read_text())
    assert plan.model_copy(update={"because": {"guests.v": "guests"}}).identity() == plan.identity()


def test_an_unknown_key_is_refused() -> None:
    values = json.loads(PLANS[0].read_text())
    values["world"]["guests"]["v"]["colour"] = "red"
    with pytest.raises(ValidationError, match="colour"):
        Plan.parse(json.dumps(values))


def test_a_wait_without_an_end_is_refused() -> None:
    values = json.loads(PLANS[1].read_text())
    del values["timeline"][3]["timeout_ns"]
    with pytest.raises(ValidationError, match="timeout_ns"):
        Plan.parse(json.dumps(values))
