"""Classes of a queue on real packets: code points written by the probe, read by the soft switch, counted per class."""

from __future__ import annotations

import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

QUEUE = {
    "kind": "prio", "by": "virtlab", "default": "rest", "match": [{"class": "voice", "dscp": [46]}],
    "classes": {"voice": {"parameters": {"prio": 1}}, "rest": {"parameters": {"prio": 2}}},
}  # fmt: skip


def counted(protocol: str, dscp: int) -> dict[tuple[str, str], int]:
    """Counters at the end of a run with one echo role."""
    plan = worlds.echo_plan(worlds.bridged(queue={"ab": QUEUE, "ba": QUEUE}))
    values = plan.model_dump(by_alias=True, exclude_defaults=True)
    values["roles"]["probe"] |= {"protocol": protocol, "dscp": dscp}
    made = type(plan).model_validate(values)
    assert Testbed().check(made) == []
    sink = worlds.MemorySink()
    with Testbed().open(made, worlds.Patient()) as session:
        assert session.run(Trial("t0", 1), sink).status in {"ok", "tainted"}
    columns = next(columns for _, schema, columns in sink.blocks if schema == "counter/1")
    rows = zip(columns["mark"], columns["entity"], columns["counter"], columns["value"], strict=True)
    return {(entity, counter): int(value) for mark, entity, counter, value in rows if mark == "end"}


@pytest.mark.parametrize("protocol", ["icmp", "udp"])
def test_what_carries_the_code_point_goes_through_its_class_both_ways(protocol: str) -> None:
    found = counted(protocol, 46)
    for direction in ("ab", "ba"):
        line = f"links.l1.{direction}"
        assert found[f"{line}.voice", "packets"] >= 20
        both = found[f"{line}.voice", "packets"] + found[f"{line}.rest", "packets"]
        assert both == found[line, "packets"]
        assert found[line, "residence_max_ns"] >= 0
        assert found[f"{line}.voice", "drops"] == found[f"{line}.rest", "drops"] == 0


def test_what_carries_none_goes_to_the_default() -> None:
    found = counted("icmp", 0)
    assert found["links.l1.ab.voice", "packets"] == 0
    assert found["links.l1.ab.rest", "packets"] >= 20
