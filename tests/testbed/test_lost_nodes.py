"""Nodes of the reference store that are killed, wiped and healed in mid-run: what was answered is there in the end."""

from __future__ import annotations

import os
import random
import re

import container_world as containers
import killing
import pytest
import testbed_world as worlds
from test_stores import HASH, MEMORY, MULTICAST, RING, counted, ended, held, planned, played, simulated

from virtlab.plan import Plan
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

WATCH = "beat: 40 ms, silence: 200 ms"
KILLS = killing.ROUNDS if os.environ.get(killing.EVERY_ROUND) else 1
DISK = "disk: {size: 64 MiB}"
IN_CONTAINERS = pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
FILL = (
    "  fill: {workload: objects, from: h1.client, to: depot, folder: same, operations: create, count: 300, threads: 8,"
    " size: 10 kB}"
)
LOAD = (
    "  load: {workload: objects, from: h1.client, to: depot, folder: same, threads: 4, duration: 1200 ms, size: 10 kB,"
    " operations: {create: 2, read: 4, overwrite: 3, delete: 1}}"
)


def losing(op: str, *, after: str = "300 ms", heal: str = "", node: str = "n1") -> str:
    """A node is lost while clients are at work, and all wait until it has recovered."""
    back = "lose"
    healed = ""
    if heal:
        back = "heal"
        call = f"do: call, service: depot, op: heal, args: {{guest: h1.{node}}}"
        healed = f"\n  - {{id: heal, {call}, after: lose.done + {heal}}}"
    return f"""
  - {{id: fill, do: run, role: fill}}
  - {{id: load, do: run, role: load, after: fill.finished}}
  - {{id: lose, do: call, service: depot, op: {op}, args: {{guest: h1.{node}}}, after: load.started + {after}}}{healed}
  - {{id: whole, do: wait, until: {{call: depot.recovered}}, timeout: 20 s, on_timeout: fail, after: {back}.done}}
  - {{id: settle, do: wait, for: 600 ms, after: {{all: [load.finished, whole.done]}}}}"""


def lost(store: str, op: str, *, disk: str = DISK, copies: int = 3, **loss: str) -> dict[str, int]:
    """Counters of a role beside which a node was lost; no answer was wrong, and all that was missing is there again."""
    plan = planned(
        4,
        f"copies: {copies}, timeout: 1 s, {store}",
        f"{FILL}\n{LOAD}",
        disk=disk,
        timeline=losing(op, **loss),
    )
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    own = counted(sink, "load")
    assert own["wrong_operations"] == 0
    assert own["missing_operations"] == 0
    gone, stale, _, _ = held(own)
    assert (gone, stale) == (0, 0)
    assert own["recovery_made"] == own["recovery_missing"]
    assert "messages" not in own, "the node took with it what it had counted"
    assert own["recovery_known_ns"] <= own["recovery_whole_ns"]
    assert ended(sink, "load")[("read", "done")] > 0
    return own


def test_a_wiped_node_gets_its_copies_back_from_the_others() -> None:
    """It held three quarters of 300 objects of 10 kB, and asks for lists one time-out after it is back."""
    own = lost(f"{MULTICAST}, ack: disk", "wipe_node")
    # The faster the machine, the more of them clients have overwritten or deleted meanwhile.
    assert own["recovery_missing"] > 20
    assert 0 < own["recovery_bytes"] <= own["recovery_missing"] * 10_000
    assert own["recovery_known_ns"] >= 1_000_000_000


def test_a_killed_node_comes_back_with_what_its_disk_has() -> None:
    """Only what was written while it was away is missing: less than what it held before."""
    kept = lost(f"{RING}, ack: disk", "fail_node", heal="300 ms")
    assert kept["recovery_missing"] < kept["object_copies"] / 4


@IN_CONTAINERS
def test_a_node_in_a_container_has_its_objects_as_files_of_its_disk_and_comes_back_with_them() -> None:
    """Nodes and the proxy are containers. Each of three nodes has each of 60 objects."""
    timeline = """
  - {id: fill, do: run, role: fill}
  - {id: lose, do: call, service: depot, op: fail_node, args: {guest: h1.n1}, after: fill.finished + 300 ms}
  - {id: held, do: exec, guest: h1.n1, argv: [find, /var/tmp/objects, -type, f, -size, "+9"], after: lose.done}
  - {id: heal, do: call, service: depot, op: heal, args: {guest: h1.n1}, after: held.finished}
  - {id: whole, do: wait, until: {call: depot.recovered}, timeout: 20 s, on_timeout: fail, after: heal.done}
  - {id: load, do: run, role: load, after: whole.done}
  - {id: settle, do: wait, for: 300 ms, after: load.finished}"""
    fill, load = FILL.replace("300", "60"), LOAD.replace("1200 ms", "300 ms")
    store = f"copies: 3, timeout: 500 ms, {RING}, ack: disk"
    node = f"platform: container, {DISK}"
    plan = planned(3, store, f"{fill}\n{load}", disk=node, proxies=1, proxy=node, timeline=timeline)
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert len(sink.artefacts["held.out"].split()) == 60
    assert set(ended(sink, "fill")) == {("create", "done")}
    own = counted(sink, "load")
    assert own["recovery_missing"] == 0
    assert {ending for _, ending in ended(sink, "load")} == {"done"}
    assert held(own) == (0, 0, 0, 0)
    assert own["object_copies"] == 3 * own["objects"]


def test_a_recovery_keeps_its_rate_and_both_arms_miss_as_many_copies() -> None:
    """Nobody writes meanwhile: a node that held 225 of 300 objects, at 1 MB/s."""
    store = f"copies: 3, timeout: 1 s, {RING}, ack: disk, recovery_rate: 1 MB/s"
    wait = """
  - {id: fill, do: run, role: fill}
  - {id: lose, do: call, service: depot, op: wipe_node, args: {guest: h1.n1}, after: fill.finished + 500 ms}
  - {id: whole, do: wait, until: {call: depot.recovered}, timeout: 20 s, on_timeout: fail, after: lose.done}"""
    plan = planned(4, store, FILL, disk=DISK, timeline=wait)
    found = []
    for outcome, sink in (played(plan), simulated(plan)):
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        own = counted(sink, "fill")
        took_ns = own["recovery_whole_ns"] - own["recovery_known_ns"]
        # The first goes at once, and the last takes the time that the others have waited for it.
        assert took_ns >= (own["recovery_bytes"] - 10_000) * 1000
        assert held(own) == (0, 0, 0, 0)
        found.append((own["recovery_missing"], own["recovery_made"], own["recovery_bytes"]))
    assert found[0] == found[1]


def alike(plan: Plan) -> dict[str, int]:
    """Counters of a plan in which nobody writes after a loss: both arms agree on what was missing, made and kept."""
    found = []
    for outcome, sink in (played(plan), simulated(plan)):
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        own = counted(sink, "fill")
        assert own["recovery_made"] == own["recovery_missing"]
        assert own["recovery_known_ns"] <= own["recovery_first_ns"] <= own["recovery_half_ns"]
        assert own["recovery_half_ns"] <= own["recovery_most_ns"] <= own["recovery_whole_ns"]
        assert held(own) == (0, 0, 0, 0)
        copies = ("recovery_missing", "recovery_bytes", "objects", "object_copies")
        found.append({name: own[name] for name in copies})
    assert found[0] == found[1]
    return found[0]


def call(name: str, op: str, node: str, after: str) -> str:
    return f"\n  - {{id: {name}, do: call, service: depot, op: {op}, args: {{guest: h1.{node}}}, after: {after}}}"


def whole(name: str, after: str) -> str:
    until = "until: {call: depot.recovered, every: 20 ms}, timeout: 20 s, on_timeout: fail"
    return f"\n  - {{id: {name}, do: wait, {until}, after: {after}}}"


FEW = FILL.replace("count: 300", "count: 60")


def test_survivors_make_the_copies_of_silent_nodes_and_both_arms_count_as_many() -> None:
    """Two of five nodes fail at once, and stay away: each copy that they held is made at a node that is left."""
    lose = "".join(call(node, "fail_node", node, "fill.finished + 400 ms") for node in ("n1", "n3"))
    wait = whole("whole", "{all: [n1.done, n3.done]}")
    plan = planned(
        5,
        f"copies: 3, timeout: 1 s, {RING}, ack: disk, beat: 100 ms, silence: 500 ms",
        FEW,
        disk=DISK,
        timeline=f"\n  - {{id: fill, do: run, role: fill}}{lose}{wait}",
    )
    found = alike(plan)
    assert found["object_copies"] == 180, "stand-ins are as many as what the two held"
    assert found["recovery_bytes"] == found["recovery_missing"] * 10_000


def test_what_is_written_while_a_node_is_silent_gets_its_copies_and_both_arms_count_as_many() -> None:
    """One of five nodes fails and stays away. Its copies are made at a rate at which they take longer than 40 objects
    more, which are created meanwhile. Once all have their copies, objects are overwritten.
    """
    more = FEW.replace("fill:", "more:").replace("count: 60", "count: 40")
    later = FEW.replace("fill:", "later:").replace("create", "overwrite")
    steps = call("lose", "fail_node", "n1", "fill.finished + 400 ms") + whole("whole", "more.finished")
    plan = planned(
        5,
        f"copies: 3, timeout: 1 s, {RING}, ack: disk, beat: 100 ms, silence: 500 ms, recovery_rate: 50 kB/s",
        f"{FEW}\n{more}\n{later}",
        disk=DISK,
        timeline=f"""
  - {{id: fill, do: run, role: fill}}
  - {{id: more, do: run, role: more, after: lose.done + 600 ms}}{steps}
  - {{id: later, do: run, role: later, after: whole.done}}
  - {{id: settle, do: wait, for: 4 s, after: later.finished}}""",
    )
    found = alike(plan)
    assert (found["objects"], found["object_copies"]) == (100, 300)
    assert found["recovery_bytes"] == found["recovery_missing"] * 10_000
    assert 45 < found["recovery_missing"] < 75, "three fifths of 100, where 36 were lost"


@pytest.mark.parametrize(("store", "nodes"), [(MULTICAST, 5), (HASH, 6)])
def test_what_was_overwritten_while_a_node_was_silent_has_its_copies_before_and_after_its_return(
    store: str, nodes: int
) -> None:
    """One operation at a time, and nearly all objects are overwritten, of which two thirds have a copy at the silent
    node: by multicast any holder that answers late, on a busy machine, gets no copy.
    """
    fill = FEW.replace("threads: 8", "threads: 1")
    later = fill.replace("fill:", "later:").replace("create, count: 60", "overwrite, count: 200")
    for back in ("", call("heal", "heal", "n1", "later.finished")):
        steps = call("lose", "fail_node", "n1", "fill.finished + 400 ms") + whole("whole", "lose.done") + back
        plan = planned(
            nodes,
            f"copies: 3, timeout: 1 s, {store}, ack: disk, beat: 100 ms, silence: 500 ms",
            f"{fill}\n{later}",
            disk=DISK,
            timeline=f"""
  - {{id: fill, do: run, role: fill}}{steps}
  - {{id: later, do: run, role: later, after: whole.done}}
  - {{id: settle, do: wait, for: 2500 ms, after: later.finished}}""",
        )
        for outcome, sink in (played(plan), simulated(plan)):
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert set(ended(sink, "later")) == {("overwrite", "done")}
            own = counted(sink, "later")
            gone, stale, missing, doubtful = held(own)
            assert (gone, stale, doubtful) == (0, 0, 0)
            assert missing < (25 if store == MULTICAST else 1), "40 by multicast, if nobody made them"
            assert own["recovery_made"] == own["recovery_missing"]
            assert own["object_copies"] > (180 if back else 155), "what came back is beside what was made"


def test_nodes_are_lost_one_after_another_and_both_arms_add_up_what_came_back() -> None:
    """One is wiped, then another twice; the first fails and is healed, and has all."""
    steps = call("one", "wipe_node", "n1", "fill.finished + 300 ms") + whole("first", "one.done")
    steps += call("two", "wipe_node", "n2", "first.done") + whole("second", "two.done")
    steps += call("again", "wipe_node", "n2", "second.done") + whole("third", "again.done")
    steps += call("off", "fail_node", "n1", "third.done") + call("on", "heal", "n1", "off.done")
    steps += whole("fourth", "on.done")
    plan = planned(
        4,
        f"copies: 3, timeout: 200 ms, {RING}, ack: disk",
        FEW,
        disk=DISK,
        timeline=f"\n  - {{id: fill, do: run, role: fill}}{steps}",
    )
    found = alike(plan)
    assert found["object_copies"] == 180
    assert found["recovery_missing"] > 90, "three times three quarters of 60"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_no_answered_write_is_lost_at_whatever_moment_a_node_is_killed(number: int) -> None:
    """With 3 copies, or in pairs; any node, killed or wiped, in files or in memory, at a moment drawn from the load.
    `make kill` plays 20.
    """
    draw = random.Random(number)
    store = draw.choice(
        [f"{lookup}, ack: disk" for lookup in (RING, MULTICAST, HASH)] + [f"{RING}, {MEMORY}"]
    )
    op = draw.choice(["wipe_node", "fail_node"])
    heal = "" if op == "wipe_node" else f"{draw.randrange(50, 800)} ms"
    copies = 2 if HASH in store else 3  # four nodes are two groups of two
    node = draw.choice(["n0", "n1", "n2", "n3"])
    lost(store, op, copies=copies, after=f"{draw.randrange(1, 1100)} ms", heal=heal, node=node)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_no_answered_write_is_lost_while_survivors_heal_among_themselves(number: int) -> None:
    """With 3 copies on five nodes, by table or question: any node is killed at a moment drawn from the load, and comes
    back at another, or never; then, at times, another is killed or wiped, once all is made again. `make kill` plays 20.
    """
    draw = random.Random(1000 + number)
    store = draw.choice([f"{lookup}, ack: disk" for lookup in (RING, MULTICAST)])
    first, second = draw.sample(["n0", "n1", "n2", "n3", "n4"], 2)
    steps = call("lose", "fail_node", first, f"load.started + {draw.randrange(1, 1100)} ms")
    last = "lose"
    if draw.random() < 0.5:
        steps, last = steps + call("heal", "heal", first, f"lose.done + {draw.randrange(1, 900)} ms"), "heal"
    steps += whole("whole", f"{last}.done")
    if last == "heal" and draw.random() < 0.7:
        op = draw.choice(["fail_node", "wipe_node"])
        after = f"whole.done + {draw.randrange(1500, 2500)} ms"  # by then the first has asked for all that it missed
        steps += call("next", op, second, after) + whole("later", "next.done")
        last = "later"
    settle = f"\n  - {{id: settle, do: wait, for: 600 ms, after: {{all: [load.finished, whole.done, {last}.done]}}}}"
    load = LOAD.replace("duration: 1200 ms", f"duration: {draw.choice([1200, 3500])} ms")
    run = "\n  - {id: fill, do: run, role: fill}\n  - {id: load, do: run, role: load, after: fill.finished}"
    plan = planned(
        5,
        f"copies: 3, timeout: 1 s, {store}, {WATCH}",
        f"{FILL}\n{load}",
        disk=DISK,
        timeline=run + steps + settle,
    )
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    own = counted(sink, "load")
    assert (own["wrong_operations"], own["missing_operations"]) == (0, 0)
    assert held(own)[:2] == (0, 0), "an answered write is lost"
    assert own["recovery_made"] == own["recovery_missing"]
    assert "recovery_whole_ns" in own
    assert ended(sink, "load")[("read", "done")] > 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_no_answered_write_is_lost_when_a_node_is_killed_during_a_recovery(number: int) -> None:
    """With 3 copies on four nodes: a node is wiped, or killed and back, and while its copies are made at a rate that
    takes a second or two, it is killed again, or another is, and comes back. `make kill` plays 20.
    """
    draw = random.Random(2000 + number)
    store = draw.choice([f"{lookup}, ack: disk" for lookup in (RING, MULTICAST)])
    first, other = draw.sample(["n0", "n1", "n2", "n3"], 2)
    second = draw.choice([first, other])
    steps, last = (
        call("lose", draw.choice(["wipe_node", "fail_node"]), first, "load.started + 300 ms"),
        "lose",
    )
    if "fail_node" in steps:
        steps += call("heal", "heal", first, f"lose.done + {draw.randrange(50, 500)} ms")
        last = "heal"
    steps += call("again", "fail_node", second, f"{last}.done + {draw.randrange(1, 2500)} ms")
    steps += call("back", "heal", second, f"again.done + {draw.randrange(50, 500)} ms") + whole(
        "whole", "back.done"
    )
    plan = planned(
        4,
        f"copies: 3, timeout: 1 s, {store}, recovery_rate: 1 MB/s",
        f"{FILL}\n{LOAD}",
        disk=DISK,
        timeline=f"""
  - {{id: fill, do: run, role: fill}}
  - {{id: load, do: run, role: load, after: fill.finished}}{steps}
  - {{id: settle, do: wait, for: 600 ms, after: {{all: [load.finished, whole.done]}}}}""",
    )
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    own = counted(sink, "load")
    assert (own["wrong_operations"], own["missing_operations"]) == (0, 0)
    assert held(own)[:2] == (0, 0), "an answered write is lost"
    assert own["recovery_made"] == own["recovery_missing"]
    assert ended(sink, "load")[("read", "done")] > 0


def test_a_node_that_others_reach_at_two_addresses_is_refused() -> None:
    plan = planned(4, f"copies: 2, {HASH}, {MEMORY}", f"{FILL}\n{LOAD}", timeline=losing("wipe_node"))
    guests = dict(plan.world.guests)
    for name, own in {
        "h1.n1": [*guests["h1.n1"].vnics["eth0"].ip, "10.99.0.1/24"],
        "h1.n2": ["10.99.0.2/24"],
    }.items():
        vnic = guests[name].vnics["eth0"].model_copy(update={"ip": tuple(own)})
        guests[name] = guests[name].model_copy(update={"vnics": {"eth0": vnic}})
    apart = plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
    reasons = [each.reason for each in Testbed().check(apart) if each.path == "services.depot.on"]
    first = str(plan.world.guests["h1.n1"].vnics["eth0"].ip[0]).partition("/")[0]
    assert reasons == [f"h1.n2 reaches h1.n1 at 10.99.0.1, and h1.n0 at {first}"]


def test_what_of_a_loss_is_not_played_is_refused_with_its_cure() -> None:
    def refused(timeline: str, more: str = "") -> dict[str, str]:
        plan = planned(4, f"copies: 2, {HASH}, {MEMORY}{more}", f"{FILL}\n{LOAD}", timeline=timeline)
        return {each.path: f"{each.reason}; {each.cure}" for each in Testbed().check(plan)}

    assert refused(losing("fail_node")) == refused(losing("fail_node", heal="100 ms")) == {}
    assert refused(losing("wipe_node"), ", beat: 1 s") == {}
    without = re.sub(r"op: wipe_node, args: {[^}]*}", "op: heal", losing("wipe_node"))
    assert "no node of 'depot' is lost" in refused(without)["timeline[2].op"]
    early = losing("fail_node", heal="100 ms").replace("lose.done + 100 ms", "load.started + 100 ms")
    found = refused(early)
    assert "no node of 'depot' is lost before it, and 'heal' does nothing" in found["timeline[3].op"]
    assert "lost before it, so that it waits for nothing" not in str(found), "the two may come in any order"
    found = refused(losing("wipe_node"), ", node_time: 1 ms, node_rate: 1 GB/s")
    assert all("no other" in found[f"services.depot.{key}"] for key in ("node_time", "node_rate"))
