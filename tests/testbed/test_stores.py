"""The reference store in real worlds: answers, what nodes hold in the end, and the same counts in the simulator."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.catalogue.workloads.objects import ENDINGS, OPERATIONS
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

MEMORY = "ack: memory, cache: 64 MiB"
RING = "lookup: ring, partitions: 64"
HASH = "lookup: elastic_hash"
MULTICAST = "lookup: multicast"


def planned(
    nodes: int,
    store: str,
    roles: str,
    *,
    proxies: int = 0,
    proxy: str = "",
    disk: str = "",
    timeline: str = "",
    switch: str = "",
    beside: str = "",
) -> Plan:
    names = [f"n{number}" for number in range(nodes)]
    guests = ", ".join(f"{name}: {{{disk}}}" for name in names)
    also = "".join(f", p{number}: {{{proxy}}}" for number in range(proxies)) + (
        f", {beside}" if beside else ""
    )
    named = ", ".join(f"h1.{name}" for name in names)
    by = (
        f"{'' if 'written_by' in store else ', written_by: proxy'}"
        f", proxies: [{', '.join(f'h1.p{number}' for number in range(proxies))}]"
        if proxies
        else ""
    )
    text = f"""
version: 1
name: stores
hosts:
  h1: {{vswitches: {{br0: {{{switch}}}}}, guests: {{client: {{}}, {guests}{also}}}}}
services:
  depot: {{kind: store, on: [{named}], {store}{by}}}
roles:
{roles}
timeline:
{timeline or "  - {id: fill, do: run, role: fill}"}
"""
    experiment = load_text(text)
    return plan_run(experiment, next(iter(experiment.points())), 0)


FILL = (
    "  fill: {workload: objects, from: h1.client, to: depot, folder: same, operations: create, count: 60, threads: 4,"
    " size: 10 kB}"
)
LOAD = (
    "  load: {workload: objects, from: h1.client, to: depot, folder: same, threads: 4, count: 300, size: 3 kB,"
    " operations: {create: 1, read: 4, overwrite: 2, delete: 1, stat: 2}}"
)
# A write is answered by two of three nodes: the third copy may be under way when the last operation ends.
THEN = """
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}
  - {id: settle, do: wait, for: 300 ms, after: load.finished}"""


def played(plan: Plan) -> tuple[Outcome, worlds.MemorySink]:
    backend = Testbed()
    assert backend.check(plan) == []
    with backend.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink


def simulated(plan: Plan) -> tuple[Outcome, worlds.MemorySink]:
    backend = Simulator()
    assert backend.check(plan) == []
    with backend.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink


def counted(sink: worlds.MemorySink, role: str) -> dict[str, int]:
    """Counters of a role at its end."""
    return {
        name: value
        for (entity, name), value in sink.counters("stop").items()
        if entity.startswith(f"{role}/")
    }


def ended(sink: worlds.MemorySink, role: str) -> dict[tuple[str, str], int]:
    """How many operations of each kind ended how."""
    found: dict[tuple[str, str], int] = {}
    for stream, kind, columns in sink.blocks:
        if (stream, kind) == (role, "operation/1"):
            for operation, outcome in zip(columns["operation"], columns["outcome"], strict=True):
                key = OPERATIONS[operation], ENDINGS[outcome]
                found[key] = found.get(key, 0) + 1
    return found


def held(own: dict[str, int]) -> tuple[int, ...]:
    """What of a folder is lost, stale, under-replicated, in doubt."""
    return tuple(
        own[name] for name in ("lost_objects", "stale_objects", "missing_copies", "doubtful_objects")
    )


def test_one_node_keeps_what_is_created() -> None:
    outcome, sink = played(planned(1, f"copies: 1, {RING}, {MEMORY}", FILL))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    own = counted(sink, "fill")
    assert ended(sink, "fill") == {("create", "done"): 60}
    assert (own["objects"], own["object_copies"], held(own)) == (60, 60, (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("store", "disk"),
    [
        (f"{RING}, {MEMORY}", ""),
        (f"{RING}, ack: disk", "disk: {size: 64 MiB}"),
        (f"{RING}, {MEMORY}, written_by: primary", "disk: {size: 64 MiB}"),
        (f"{MULTICAST}, {MEMORY}", ""),
    ],
)
def test_every_answer_is_right_and_three_copies_are_there(store: str, disk: str) -> None:
    """Reads, overwrites and deletions of several threads, by each lookup, in memory and in files."""
    plan = planned(4, f"copies: 3, {store}", f"{FILL}\n{LOAD}", disk=disk, timeline=THEN)
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert {ending for _, ending in ended(sink, "load")} == {"done"}
    assert sum(ended(sink, "load").values()) == 300
    own = counted(sink, "load")
    lost, stale, missing, doubtful = held(own)
    assert (lost, stale, doubtful) == (0, 0, 0)
    # A holder that answers a question when the others have confirmed already gets no copy: two of three have one.
    assert missing <= (own["objects"] if MULTICAST in store else 0)
    assert own["object_copies"] == 3 * own["objects"] - missing


@pytest.mark.parametrize(
    ("store", "proxies"),
    [(RING, 0), (f"{HASH}, written_by: primary", 0), (RING, 1), (f"{RING}, written_by: primary", 2)],
)
def test_both_arms_count_the_same(store: str, proxies: int) -> None:
    """Without a lost message, what is said for one client, and what is held in the end, follows from the file alone."""
    load = LOAD.replace("threads: 4", "threads: 1")
    fill = FILL.replace("threads: 4", "threads: 1")
    plan = planned(4, f"copies: 2, {store}, {MEMORY}", f"{fill}\n{load}", proxies=proxies, timeline=THEN)
    real, model = played(plan), simulated(plan)
    assert real[0].status in {"ok", "tainted"}, real[0].reasons
    names = ("operations", "done_operations", "messages", "message_bytes", "lookup_messages", "lookup_bytes")
    for role in ("fill", "load"):
        assert ended(real[1], role) == ended(model[1], role), role
        ours, theirs = counted(real[1], role), counted(model[1], role)
        assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}, role
    assert counted(real[1], "load")["object_copies"] == counted(model[1], "load")["object_copies"]


TRACE = (
    "  trace: {workload: objects, from: h1.client, to: depot, folder: same, threads: 1, count: 300,"
    " size: [1 kB, 3 kB, 20 kB],"
    " operations: {create: 4, read: 4, overwrite: 2, delete: 1, stat: 1, open: 1, list: 1}}"
)


# A question is answered once all nodes have been heard, so what follows does not depend on who is first.
HEARD_OF_ALL = f"{MULTICAST}, write_quorum: 1, read_quorum: 2"


def traced(store: str, proxies: int = 0, count: str = "count: 300") -> Plan:
    timeline = "  - {id: trace, do: run, role: trace}"
    trace = TRACE.replace("count: 300", count)
    return planned(4, f"copies: 2, {store}, {MEMORY}", trace, proxies=proxies, timeline=timeline)


COLUMNS = ("operation", "outcome", "object_bytes", "retries", "thread")


def rows(sink: worlds.MemorySink) -> list[list[Any]]:
    """Of the operations of a trace, what both arms decide."""
    columns = sink.columns("trace", "operation/1")
    return [list(columns[name]) for name in COLUMNS]


def test_one_trace_places_the_same_copies_by_multicast_where_all_nodes_are_heard() -> None:
    """At a rate that leaves all nodes idle. A machine that stands still for longer is given two more trials."""
    plan = traced(HEARD_OF_ALL, count="count: 100, rate: 25 request/s")
    _, model = simulated(plan)
    names = ("done_operations", "objects", "object_copies", "missing_copies", "placement", "messages")

    def decided(sink: worlds.MemorySink) -> tuple[list[list[Any]], list[int]]:
        own = counted(sink, "trace")
        return rows(sink), [own[name] for name in names]

    found: list[tuple[list[list[Any]], list[int]]] = []
    while len(found) < 3 and decided(model) not in found:
        outcome, real = played(plan)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        found.append(decided(real))
    assert found[-1] == decided(model)
    elsewhere = counted(played(traced(MULTICAST))[1], "trace")
    assert elsewhere["placement"] != counted(model, "trace")["placement"], (
        "another trace is another placement"
    )


@pytest.mark.parametrize(
    ("store", "proxies", "order"),
    [
        (RING, 0, "random"),
        (RING, 0, "sequential"),
        (f"{HASH}, written_by: primary", 2, "random"),
        (MULTICAST, 0, "random"),
    ],
)
def test_one_trace_lets_both_arms_decide_the_same(store: str, proxies: int, order: str) -> None:
    """One thread fixes the order: each operation, size and outcome is the same, and in the end each copy of each write
    lies on the same node, where that follows from the name. By multicast it follows from what nodes had to do, and from
    who was heard first.
    """
    plan = traced(store, proxies, f"count: 300, order: {order}")
    (outcome, real), (_, model) = played(plan), simulated(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    ours = real.columns("trace", "operation/1")
    assert {ENDINGS[code] for code in ours["outcome"]} == {"done"}
    assert {OPERATIONS[code] for code in ours["operation"]} == set(OPERATIONS)
    for place, column in enumerate(COLUMNS):
        assert rows(real)[place] == rows(model)[place], column
    names = ["operations", "done_operations", "without_object", "objects", "object_copies", "missing_copies"]
    names += ["lost_objects", "stale_objects", "doubtful_objects"]
    if MULTICAST not in store:
        names += ["placement", "messages"]
    found = [counted(sink, "trace") for sink in (real, model)]
    assert {name: found[0][name] for name in names} == {name: found[1][name] for name in names}
    assert found[0]["object_copies"] == 2 * found[0]["objects"] > 0
    elsewhere = counted(simulated(traced("lookup: ring, partitions: 60"))[1], "trace")
    assert elsewhere["object_copies"] == found[0]["object_copies"]
    assert elsewhere["placement"] != found[0]["placement"], "another ring is another placement"


@pytest.mark.parametrize("play", [played, simulated], ids=["testbed", "simulator"])
@pytest.mark.parametrize("kind", ["linux_bridge", "ovs-netdev"])
def test_each_question_by_multicast_is_on_the_port_of_a_guest_that_is_no_node(play: Any, kind: str) -> None:
    """Groups are flooded, and a vNIC that hears them for nothing counts them."""
    if kind != "linux_bridge" and ovs.missing() is not None:
        pytest.skip(str(ovs.missing()))
    found = {}
    for lookup in (MULTICAST, RING):
        plan = planned(4, f"copies: 2, {lookup}, {MEMORY}", FILL, beside="idle: {}", switch=f"kind: {kind}")
        outcome, sink = play(plan)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        begin, end = sink.counters("begin"), sink.counters("end")
        came = "guests.h1.idle.vnics.eth0", "received_packets"
        found[lookup] = end[came] - begin[came]
    assert found[MULTICAST] >= 60, "one question to create each object"
    assert found[RING] < 60, "no question goes to all nodes"


@pytest.mark.parametrize("store", [RING, MULTICAST])
def test_an_audit_reads_each_object_once_on_both_arms(store: str) -> None:
    audit = (
        "  load: {workload: objects, from: h1.client, to: depot, folder: same, operations: read, order: once,"
        " threads: 7}"
    )
    plan = planned(3, f"copies: 3, {store}, {MEMORY}", f"{FILL}\n{audit}", timeline=THEN)
    (outcome, real), (_, model) = played(plan), simulated(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    for sink in (real, model):
        own = counted(sink, "load")
        assert (own["operations"], own["done_operations"], own["without_object"]) == (60, 60, 0)


def test_an_audit_that_is_cut_short_fails_a_simulated_run() -> None:
    audit = (
        "  load: {workload: objects, from: h1.client, to: depot, folder: same, operations: read, order: once,"
        " duration: 20 us}"
    )
    outcome, _ = simulated(planned(3, f"copies: 3, {RING}, {MEMORY}", f"{FILL}\n{audit}", timeline=THEN))
    assert "within its duration it did not come to" in str(outcome.reasons), outcome


def test_a_node_whose_disk_is_full_ends_with_the_reason() -> None:
    fill = FILL.replace("count: 60", "count: 2000")
    outcome, _ = played(planned(1, f"copies: 1, {RING}, ack: disk", fill, disk="disk: {size: 1 MiB}"))
    assert outcome.status == "failed"
    assert any("services.depot" in why and "No space left on device" in why for why in outcome.reasons)


def refused(*args: Any, **more: Any) -> dict[str, str]:
    """By path, why a Plan is refused here, with the cure."""
    return {each.path: f"{each.reason}; {each.cure}" for each in Testbed().check(planned(*args, **more))}


def test_what_no_agent_plays_is_refused_with_its_cure() -> None:
    ring = f"copies: 1, {RING}"
    found = refused(3, f"copies: 2, {MULTICAST}, {MEMORY}", FILL, switch="isolate: true")
    assert "'isolate: false'" in found["services.depot.lookup"]
    found = refused(1, f"{ring}, ack: disk", FILL)
    assert found["services.depot.ack"].startswith("h1.n0 has no disk")
    other = LOAD.replace("from: h1.client", "from: h1.p0")
    found = refused(1, f"{ring}, {MEMORY}", f"{FILL}\n{other}", beside="p0: {}", timeline=THEN)
    assert found == {}, "one after the other"
    at_once = THEN.replace("fill.finished", "fill.started")
    found = refused(1, f"{ring}, {MEMORY}", f"{FILL}\n{other}", beside="p0: {}", timeline=at_once)
    assert "let both be of one guest" in found["roles.load.folder"]
    found = refused(14, f"copies: 14, lookup: ring, partitions: 64, {MEMORY}", FILL)
    assert "at most" in found["services.depot.copies"]
