"""Roles of several guests work in one folder of a store, one after the other: each knows what those before it wrote."""

from __future__ import annotations

from collections import Counter

import pytest
import testbed_world as worlds
from test_stores import HASH, MEMORY, MULTICAST, RING, counted, ended, planned, simulated

from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

ASKS = "workload: objects, to: depot, folder: same, threads: 4"
ROLES = f"""
  fill: {{{ASKS}, from: h1.client, operations: create, count: 60, size: 10 kB}}
  look: {{{ASKS}, from: h1.reader, operations: read, order: once}}
  load: {{{ASKS}, from: h1.reader, count: 300, size: 3 kB,
         operations: {{create: 1, read: 4, overwrite: 2, delete: 1, stat: 2}}}}
  audit: {{{ASKS}, from: h1.client, operations: read, order: once}}
"""
TIMELINE = """
  - {id: fill, do: run, role: fill}
  - {id: look, do: run, role: look, after: fill.finished}
  - {id: load, do: run, role: load, after: look.finished}
  - {id: audit, do: run, role: audit, after: load.finished}
  - {id: settle, do: wait, for: 300 ms, after: audit.finished}"""


def shared(lookup: str, roles: str = ROLES, timeline: str = TIMELINE) -> Plan:
    return planned(3, f"copies: 3, {lookup}, {MEMORY}", roles, timeline=timeline, beside="reader: {}")


def by_outcome(sink: worlds.MemorySink, role: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, outcome), number in ended(sink, role).items():
        found[outcome] += number
    return found


@pytest.mark.parametrize("lookup", [RING, MULTICAST, HASH], ids=["ring", "multicast", "hash"])
def test_a_guest_verifies_what_another_wrote_and_the_first_what_that_changed(lookup: str) -> None:
    """In the second trial the store has the objects of the first one still, and so have those who look for them."""
    plan, backend = shared(lookup), Testbed()
    assert backend.check(plan) == []
    there = 0
    with backend.open(plan, worlds.Patient()) as session:
        for number in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome
            assert ended(sink, "fill") == {("create", "done"): 60}
            assert ended(sink, "look") == {("read", "done"): there + 60}
            assert by_outcome(sink, "load") == {"done": 300}
            last = counted(sink, "fill")
            if lookup != MULTICAST:  # three copies, each sent and confirmed; a store counts on between trials
                assert 360 <= last["messages"] < 400
            changed = ended(sink, "load")
            there += 60 + changed["create", "done"] - changed["delete", "done"]
            assert ended(sink, "audit") == {("read", "done"): there}
            assert (last["objects"], last["lost_objects"], last["stale_objects"]) == (there, 0, 0)
            for role in ("look", "load"):  # the first guest tells it
                own = counted(sink, role)
                assert own["objects_elsewhere"] == 1
                assert "objects" not in own


def test_the_simulator_plays_the_same_file_with_as_many_operations() -> None:
    _, sink = simulated(shared(RING))
    assert ended(sink, "fill") == {("create", "done"): 60}
    assert ended(sink, "look") == {("read", "done"): 60}
    changed = ended(sink, "load")
    there = 60 + changed["create", "done"] - changed["delete", "done"]
    assert ended(sink, "audit") == {("read", "done"): there}
    assert counted(sink, "audit")["objects"] == there


def test_more_objects_than_a_page_has_are_known_elsewhere() -> None:
    roles = ROLES.replace("count: 60, size: 10 kB", "count: 9000, size: 100 B, threads: 16").replace(
        "threads: 4, from: h1.client, operations: create", "from: h1.client, operations: create"
    )
    timeline = "\n".join(TIMELINE.splitlines()[:3])
    plan = shared(HASH, "\n".join(roles.splitlines()[:3]), timeline)
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome
    assert ended(sink, "look") == {("read", "done"): 9000}


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ("fill.finished", False),
        ("fill.started", True),
        ("{any: [fill.finished, fill.started]}", True),
        ("{all: [fill.finished, fill.started]}", False),
    ],
)
def test_guests_do_not_work_in_a_folder_at_once(after: str, refused: bool) -> None:
    timeline = f"""
  - {{id: fill, do: run, role: fill}}
  - {{id: look, do: run, role: look, after: {after}}}"""
    plan = shared(RING, "\n".join(ROLES.splitlines()[:3]), timeline)
    found = Testbed().check(plan)
    assert [str(each.path) for each in found] == (["roles.look.folder"] if refused else [])
    for each in found:
        assert each.reason == "look and fill may work in one folder at once, from different guests"
        assert "begin one with 'after' the end of the other" in each.cure
