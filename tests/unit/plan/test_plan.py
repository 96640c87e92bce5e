"""The golden Plans parse, keep their identity, and refuse what they do not know."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from virtlab.plan import Plan, Ready, Service, Wait

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


def test_a_service_keeps_its_kinds_own_parameters() -> None:
    store = Plan.parse(PLANS[1].read_text()).world.services["store"]
    assert (store.kind, store.on, store.parameters) == ("object_store", ("n1", "n2", "n3"), {"copies": 2})
    with pytest.raises(ValidationError, match="on"):
        Service(kind="object_store", on=())


@pytest.mark.parametrize(
    "check", [{"port": 80}, {"port": 80, "http": "/"}, {"line": "^ready"}, {"argv": ("true",)}]
)
def test_a_service_is_ready_by_one_check(check: dict[str, Any]) -> None:
    assert Ready(**check).timeout_ns == 30 * 10**9
    other: dict[str, Any] = {"line": "up"} if "line" not in check else {"port": 80}
    for wrong in ({**check, **other}, {}, {"http": "/"}):
        with pytest.raises(ValidationError, match="ready by one of"):
            Ready(**wrong)


def test_a_wait_polls_a_series_against_a_value_or_the_answer_of_a_call() -> None:
    assert Wait(call="store.is_wiped").value is None
    assert Wait(call="store.nodes", op=">=", value=2).series is None
    for wrong in (
        {},
        {"series": "a.b"},
        {"series": "a.b", "call": "a.b", "op": "<", "value": 1.0},
        {"call": "store"},
    ):
        with pytest.raises(ValidationError):
            Wait(**wrong)
