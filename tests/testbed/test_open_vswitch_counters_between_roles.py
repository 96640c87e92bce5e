"""Counters whose reading takes a process are read where no role runs: nobody's measurement pays for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Outcome, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader.run_clock import raw_ns
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.timeout(300),
]
COUNT = 20
PAUSE_NS = 3_000_000_000  # far longer than any reading takes
ROLES = ("first", "second", "third")
VNIC = "guests.a.vnics.eth0"
RECEIVED = ("hosts.h1.ovs", "flow_cache_received_packets")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """From when to when the flow caches were asked, ns of the run's clock."""
    asked, found = ovs.OpenVswitches.caches, []

    def timed(self: ovs.OpenVswitches) -> Iterator[tuple[str, str, int]]:
        begin_ns = raw_ns()
        rows = list(asked(self))
        found.append((begin_ns, raw_ns()))
        return iter(rows)

    monkeypatch.setattr(ovs.OpenVswitches, "caches", timed)
    return found


def one_after_another() -> Plan:
    """The second role a while after the first, the third at once after the second; each has a window."""
    world = worlds.bridged(switches=1)
    for vswitch in world["vswitches"].values():
        vswitch["kind"] = "ovs-netdev"
    role = worlds.echo_plan(world, count=COUNT).roles["probe"].model_dump(mode="json", by_alias=True)
    after: list[dict[str, Any] | None] = [
        None,
        {"event": "first.finished", "plus_ns": PAUSE_NS},
        {"event": "second.finished"},
    ]
    return worlds.echo_plan(
        world,
        roles=dict.fromkeys(ROLES, role),
        timeline=[
            {"id": name, "do": "run", "role": name, **({"after": when} if when else {})}
            for name, when in zip(ROLES, after, strict=True)
        ],
        windows={name: {"from": f"{name}.started", "to": f"{name}.finished"} for name in ROLES}
        | {"measured": {"from": "first.started", "to": "third.finished"}},
        collect={"packets": list(ROLES), "counters": ["vnics", "links"]},
    )


def played(plan: Plan) -> tuple[Outcome, worlds.MemorySink]:
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    return outcome, sink


def test_flow_caches_are_asked_before_after_and_between_roles_and_never_while_one_runs(
    read: list[tuple[int, int]],
) -> None:
    outcome, sink = played(one_after_another())
    for role in ROLES:
        begin_ns, end_ns = (outcome.marks[f"{role}.{word}"].t_ns for word in ("started", "finished"))
        assert not [each for each in read if each[0] < end_ns and each[1] > begin_ns], role
    at = {
        str(mark)
        for _, schema, columns in sink.blocks
        if schema == "counter/1"
        for mark, counter in zip(columns["mark"], columns["counter"], strict=True)
        if str(counter).startswith("flow_cache")
    }
    assert at == {"begin", "first.finished", "third.finished", "end"}, (
        "what is not asked is missing, not zero"
    )
    begin, between, end = (sink.counters(mark)[RECEIVED] for mark in ("begin", "first.finished", "end"))
    assert between - begin >= 2 * COUNT
    assert end - between >= 4 * COUNT


def test_what_costs_nothing_is_read_at_every_edge_all_the_same(read: list[tuple[int, int]]) -> None:
    _, sink = played(one_after_another())
    for role in ROLES:
        for word in ("started", "finished"):
            found = sink.counters(f"{role}.{word}")
            assert VNIC in {entity for entity, _ in found}, f"{role}.{word}"
    assert 3 <= len(read) <= 4
