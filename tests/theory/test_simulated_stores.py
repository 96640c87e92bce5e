"""Distributed stores in the simulator, against sums of what one operation takes, and against what must be conserved.

On an idle network of one switch an operation of one client is a chain: each message crosses two links of rate R, then a
disk takes what it holds. A message of up to a segment is one frame; what comes back is another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import Values, counters, parsed, simulated, values_of

from virtlab.catalogue.workloads.objects import ENDINGS, OPERATIONS
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.simulator.limits import refusals

MS = 1_000_000
LINK_BIT_PER_S = 1_000_000_000
DISK_BYTE_PER_S, LATENCY_NS = 100_000_000, MS
DISK = {"size_bytes": 1 << 30, "rate_byte_per_s": DISK_BYTE_PER_S, "latency_ns": LATENCY_NS}
HEAD_BYTES, OBJECT_BYTES, RECORD_BYTES, SECTOR_BYTES = (
    64,
    48,
    512,
    512,
)  # of messages, and on disks: virtlab-store
NAME_BYTES = 32  # of a name that a node tells
FRAME_BYTES = 8 + 14 + 4  # preamble, header, FCS
TCP_BYTES, UDP_BYTES = FRAME_BYTES + 20 + 32, FRAME_BYTES + 20 + 8
LOOKUPS: dict[str, Values] = {
    "multicast": {},
    "ring": {"lookup": "ring", "partitions": 1024},
    "elastic_hash": {"lookup": "elastic_hash"},
}


def world(nodes: int, store: Values | None = None, proxies: int = 0, **role: Any) -> Values:
    """One client of a store on guests behind one virtual switch; the role creates objects one by one."""
    values = values_of(switches=1)
    guests = values["world"]["guests"]
    far = guests.pop("b")
    names = [*(f"n{number}" for number in range(nodes)), *(f"p{number}" for number in range(proxies))]
    for number, name in enumerate(names, 10):
        vnic = far["vnics"]["eth0"] | {"mac": f"02:00:00:00:01:{number:02x}", "ip": [f"10.0.0.{number}/24"]}
        disk = {} if name.startswith("p") else {"disk": DISK}
        guests[name] = far | {"platform": "qemu", "vnics": {"eth0": vnic}, **disk}
    own = {
        "copies": 1, "lookup": "multicast", "written_by": "client", "ack": "disk", "question_ns": 50 * MS,
        "timeout_ns": 10_000 * MS, **({"proxies": names[nodes:]} if proxies else {}),
    }  # fmt: skip
    values["world"]["services"] = {
        "depot": {"kind": "store", "on": names[:nodes], "ready": {"port": 7100}, **own, **(store or {})}
    }
    asked = {
        "operations": {"create": 1.0},
        "object_bytes": 1000,
        "threads": 1,
        "count": 40,
        "duration_ns": 10**11,
    }
    end = {"workload": "objects", "from": "a", "to": "n0", "service": "depot", "port": 7100}
    values["roles"]["probe"] = end | asked | role
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = LINK_BIT_PER_S
    values["collect"]["counters"] = ["links", "vnics", "disks"]
    return values


def then(values: Values, **role: Any) -> Values:
    """With a second role on the same objects, when the first has finished."""
    first = values["roles"]["probe"]
    values["roles"]["probe"] = first | {"folder": "same"}
    values["roles"]["next"] = first | {"folder": "same"} | role
    values["timeline"] = [
        {"id": "measure", "do": "run", "role": "probe"},
        {"id": "next", "do": "run", "role": "next", "after": {"event": "measure.finished"}},
        {"id": "drain", "do": "wait", "for_ns": 2_000 * MS, "after": {"event": "next.finished"}},
    ]
    values["collect"]["packets"] = ["probe", "next"]
    return values


def played(values: Values, role: str = "probe", seed: int = 1) -> tuple[dict[str, Any], dict[str, int], Any]:
    """Rows of a role, its counters, and all others at the end."""
    outcome, kept = simulated(values, seed)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks.get((role, "operation/1"), [])
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    ends = (f"{role}/client", f"{role}/server")
    own = {key: value for (entity, key), value in counters(kept, "stop").items() if entity in ends}
    return rows, own, counters(kept, "end")


def on_wire_ns(frame_bytes: int) -> int:
    """Over both links, each of which has it whole before the switch sends it on."""
    return 2 * frame_bytes * 8 * 10**9 // LINK_BIT_PER_S


def on_disk_ns(size_bytes: int) -> int:
    sectors = -(-(size_bytes + RECORD_BYTES) // SECTOR_BYTES)
    return sectors * SECTOR_BYTES * 10**9 // DISK_BYTE_PER_S + LATENCY_NS


def took(rows: dict[str, Any]) -> Any:
    return rows["finished_ns"] - rows["intended_ns"]


def test_a_write_of_one_copy_is_its_way_its_disk_and_the_confirmation() -> None:
    """Without a lookup. The first operation begins the connection, and what confirms that goes before the second."""
    rows, _, _ = played(world(1, LOOKUPS["elastic_hash"]))
    way_ns = on_wire_ns(TCP_BYTES + HEAD_BYTES + OBJECT_BYTES + 1000) + on_wire_ns(TCP_BYTES + HEAD_BYTES)
    assert set(took(rows)[2:]) == {way_ns + on_disk_ns(1000)}
    assert took(rows)[0] > way_ns + on_disk_ns(1000)


def test_a_message_waits_for_the_processor_of_its_node_and_then_takes_its_time_there() -> None:
    """Each write is one message to the only node. From several threads they wait for each other: one takes its time,
    and what it and the answer have in them.
    """
    byte_per_s = 10_000_000
    effort = {"node_ns": 100_000, "node_byte_per_s": byte_per_s, **LOOKUPS["elastic_hash"]}
    before, _, _ = played(world(1, LOOKUPS["elastic_hash"]))
    heard_ns, said_ns = (
        size * 10**9 // byte_per_s for size in (HEAD_BYTES + OBJECT_BYTES + 1000, HEAD_BYTES)
    )
    rows, _, _ = played(world(1, effort))
    assert set(took(rows)[2:]) == {took(before)[-1] + 100_000 + heard_ns}
    memory = effort | {"ack": "memory", "cache_bytes": 1 << 30}
    rows, own, _ = played(world(1, memory, threads=8, count=400))
    ends = np.sort(rows["finished_ns"])[8:]
    assert (ends[-1] - ends[0]) / (len(ends) - 1) == pytest.approx(100_000 + heard_ns + said_ns, rel=0.001)
    assert own["missing_copies"] == 0


@pytest.mark.slow
def test_with_multicast_each_node_hears_each_question_and_with_a_ring_only_its_own() -> None:
    """The rate of questions about objects, of four nodes that take 1 ms for each message: 1,000 per second by
    multicast, and by a ring with one copy up to four times as many.
    """
    rates = {}
    for lookup, store in LOOKUPS.items():
        values = then(
            world(4, {"node_ns": MS, **store}, threads=32, count=64), operations={"stat": 1.0}, count=2000
        )
        rows, _, _ = played(values, "next")
        assert (rows["outcome"] == ENDINGS.index("done")).all()
        ends = np.sort(rows["finished_ns"])[100:-100]
        rates[lookup] = (len(ends) - 1) * 10**9 / (ends[-1] - ends[0])
    assert rates["multicast"] == pytest.approx(1000, rel=0.01)
    assert all(2000 < rates[lookup] <= 4000 for lookup in ("ring", "elastic_hash"))


def test_proxies_have_processors_of_their_own() -> None:
    """A write by a proxy is two messages that it hears: of the client, and the confirmation."""
    store = {"written_by": "proxy", **LOOKUPS["elastic_hash"]}
    before, _, _ = played(world(1, store, proxies=1))
    rows, _, _ = played(world(1, store | {"proxy_ns": 100_000}, proxies=1))
    assert set(took(rows)[2:] - took(before)[2:]) == {200_000}


def test_a_multicast_lookup_adds_a_question_and_an_answer_in_datagrams() -> None:
    rows, own, _ = played(world(1))
    ask_ns = on_wire_ns(UDP_BYTES + HEAD_BYTES) * 2
    way_ns = on_wire_ns(TCP_BYTES + HEAD_BYTES + OBJECT_BYTES + 1000) + on_wire_ns(TCP_BYTES + HEAD_BYTES)
    assert set(took(rows)[2:]) == {ask_ns + way_ns + on_disk_ns(1000)}
    assert (own["lookup_messages"], own["lookup_bytes"]) == (2 * 40, 2 * 40 * HEAD_BYTES)


def test_stat_and_read_take_their_messages_and_a_read_its_disk_too() -> None:
    asks_ns = on_wire_ns(TCP_BYTES + HEAD_BYTES) + on_wire_ns(TCP_BYTES + HEAD_BYTES + OBJECT_BYTES)
    rows, _, _ = played(then(world(1, LOOKUPS["elastic_hash"]), operations={"stat": 1.0}), "next")
    assert set(took(rows)[2:]) == {asks_ns}
    rows, _, _ = played(then(world(1, LOOKUPS["elastic_hash"]), operations={"read": 1.0}), "next")
    content_ns = on_wire_ns(TCP_BYTES + HEAD_BYTES) + on_wire_ns(TCP_BYTES + HEAD_BYTES + OBJECT_BYTES + 1000)
    assert set(took(rows)[2:]) == {asks_ns + content_ns + on_disk_ns(1000)}


def test_an_answer_from_the_cache_waits_for_no_disk() -> None:
    memory = {"ack": "memory", "cache_bytes": 1 << 30} | LOOKUPS["elastic_hash"]
    rows, _, ends = played(world(1, memory))
    way_ns = on_wire_ns(TCP_BYTES + HEAD_BYTES + OBJECT_BYTES + 1000) + on_wire_ns(TCP_BYTES + HEAD_BYTES)
    assert set(took(rows)[2:]) == {way_ns}
    assert ends["guests.n0.disk", "disk_written_bytes"] == 40 * 3 * SECTOR_BYTES, (
        "the disk has it all the same"
    )


@pytest.mark.slow
@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize(
    ("written_by", "proxies"), [("client", 0), ("proxy", 2), ("primary", 0), ("primary", 2)]
)
def test_what_was_acknowledged_is_held_in_as_many_copies_and_nothing_else(
    lookup: str, written_by: str, proxies: int
) -> None:
    store = {"copies": 3, "written_by": written_by, **LOOKUPS[lookup]}
    values = then(world(6, store, proxies, threads=8, count=120), operations={"read": 2.0, "overwrite": 1.0})
    rows, own, ends = played(values, "next")
    written = 120 + int((rows["operation"] == OPERATIONS.index("overwrite")).sum())
    assert set(rows["outcome"]) == {ENDINGS.index("done")}
    assert (own["objects"], own["object_copies"]) == (120, 360)
    assert not any(
        own[key] for key in ("lost_objects", "stale_objects", "missing_copies", "doubtful_objects")
    )
    disks = sum(value for (_, key), value in ends.items() if key == "disk_written_bytes")
    assert disks == 3 * written * 3 * SECTOR_BYTES, "1,000 B and the record are three sectors, of each copy"


def test_a_proxy_before_a_primary_adds_its_two_messages_and_no_lookup() -> None:
    """To the proxy, to the primary, one copy and its confirmation, to the proxy, to the client: four more at most."""
    messages = {}
    for proxies in (0, 2):
        store = {"copies": 2, "written_by": "primary", **LOOKUPS["elastic_hash"]}
        _, own, _ = played(world(4, store, proxies))
        messages[proxies] = (own["messages"] / 40, own["lookup_messages"])
    assert messages == {0: (4.0, 0), 2: (6.0, 0)}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_list_asks_each_node_and_has_the_names_that_are_there(lookup: str) -> None:
    lists = then(world(4, LOOKUPS[lookup], count=1), operations={"list": 1.0}, count=9)
    rows, own, _ = played(lists, "next")
    assert set(rows["outcome"]) == {ENDINGS.index("done")}
    assert (own["messages"], own["message_bytes"]) == (9 * 8, 9 * (8 * HEAD_BYTES + NAME_BYTES))
    assert own["lookup_messages"] == 0


def test_deletions_end_by_themselves_and_leave_nothing() -> None:
    rows, own, _ = played(
        then(world(4, {"copies": 2}), operations={"delete": 1.0}, count=1000, threads=3), "next"
    )
    assert rows["operation"].size == 40, "a thread ends where there is no object for it"
    assert (own["objects"], own["object_copies"], own["wrong_operations"]) == (0, 0, 0)


@pytest.mark.slow
def test_a_question_to_all_nodes_is_on_every_port_and_one_to_holders_is_not() -> None:
    def received(lookup: str) -> tuple[list[int], int]:
        values = then(
            world(6, {"copies": 2, **LOOKUPS[lookup]}, count=1), operations={"stat": 1.0}, count=500
        )
        _, own, ends = played(values, "next")
        each = [
            value for (entity, key), value in ends.items() if key == "received_packets" and ".n" in entity
        ]
        return sorted(each), own["lookup_messages"]

    multicast, messages = received("multicast")
    assert multicast[0] > 500, "nodes without the object hear each question, too"
    assert messages == 500 * (1 + 2)
    hashed, messages = received("elastic_hash")
    assert hashed[:4] == [0] * 4
    assert messages == 500 * (2 + 2)


def test_lost_packets_cost_time_and_no_object() -> None:
    values = then(
        world(4, {"copies": 3, "question_ns": 5 * MS}, count=60), operations={"read": 1.0, "overwrite": 1.0}
    )
    for link in values["world"]["links"].values():
        link["queue"] = {
            way: {"kind": "netem", "limit_packets": 1000, "parameters": {"loss_ratio": 0.03}}
            for way in ("ab", "ba")
        }
    rows, own, _ = played(values, "next")
    done = rows["outcome"] == ENDINGS.index("done")
    assert done.sum() >= 0.9 * done.size
    assert took(rows)[done].max() > 5 * MS, "a question without enough answers was asked again"
    assert not any(
        own[key] for key in ("wrong_operations", "missing_operations", "lost_objects", "stale_objects")
    )


def test_a_connection_that_nobody_answered_begins_again() -> None:
    """The client's SYNs go to nobody for 200 s. The last goes after 127 s, is given up after 191 s, and others
    follow.
    """
    values = world(1, LOOKUPS["elastic_hash"], rate_per_s=1, count=230, duration_ns=10**12)
    values["timeline"] = [
        {"id": "away", "do": "reset", "guest": "a", "for_ns": 200 * 10**9},
        {"id": "measure", "do": "run", "role": "probe", "after": {"event": "away.started"}},
    ]
    values["limits"] = {"run_ns": 10**12}
    rows, _, _ = played(values)
    due_s = (rows["intended_ns"] - rows["intended_ns"].min()) // 10**9
    assert set(rows["outcome"][due_s < 190]) == {ENDINGS.index("timed_out")}
    assert set(rows["outcome"][due_s > 207]) == {ENDINGS.index("done")}


def test_operations_at_a_rate_are_due_by_their_schedule_whatever_has_ended() -> None:
    rows, _, _ = played(world(1, rate_per_s=2000, threads=1, count=300))
    assert set(np.diff(rows["intended_ns"])) == {500_000}
    waits = took(rows)
    assert waits[-1] > waits[0] or waits[-1] >= on_disk_ns(1000)
    assert (rows["sent_ns"] == rows["intended_ns"]).all()


def test_an_operation_at_a_rate_without_a_free_object_has_failed_and_is_counted() -> None:
    """40 objects; each of 60 deletions takes longer than they are apart, so 20 find nothing."""
    values = then(world(2), operations={"delete": 1.0}, rate_per_s=5000, threads=1, count=60)
    rows, own, _ = played(values, "next")
    skipped = rows["outcome"] == ENDINGS.index("skipped")
    assert (rows["outcome"].size, int(skipped.sum()), own["skipped_operations"]) == (60, 20, 20)
    assert set(rows["operation"][skipped]) == {OPERATIONS.index("delete")}
    assert (rows["finished_ns"][skipped] == rows["intended_ns"][skipped]).all()
    assert set(np.diff(np.sort(rows["intended_ns"]))) == {200_000}
    assert own["objects"] == 0


@pytest.mark.parametrize("nodes", [3, 4])
def test_a_store_of_few_nodes_has_all_copies_by_multicast(nodes: int) -> None:
    """A quorum of three copies is two of three nodes, so more than that have to answer before holders are chosen."""
    values = then(
        world(nodes, {"copies": 3}, threads=4, count=60), operations={"read": 1.0, "overwrite": 1.0}
    )
    rows, own, _ = played(values, "next")
    assert set(rows["outcome"]) == {ENDINGS.index("done")}
    assert (own["objects"], own["object_copies"], own["missing_copies"]) == (60, 180, 0)
    assert took(rows).max() < 50 * MS, "no question was asked twice"


@pytest.mark.slow
def test_sizes_are_drawn_by_their_shares_and_change_no_operation() -> None:
    def sizes(**role: Any) -> tuple[Any, Any]:
        values = world(
            4,
            {"copies": 2},
            threads=4,
            count=600,
            operations={"create": 1.0, "overwrite": 1.0, "stat": 1.0},
            **role,
        )
        if "object_sizes" in role:
            del values["roles"]["probe"]["object_bytes"]
        rows = played(values)[0]
        wrote = rows["operation"] != OPERATIONS.index("stat")
        assert set(rows["outcome"]) == {ENDINGS.index("done")}
        return np.bincount(rows["operation"]), rows["object_bytes"][wrote]

    one, fixed = sizes()
    several, drawn = sizes(object_sizes=[[0, 3.0], [1000, 1.0]])
    assert set(fixed) == {1000}
    assert set(drawn) == {0, 1000}
    assert (drawn == 0).mean() == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / drawn.size) ** 0.5)
    assert abs(one - several).max() < 60, "the same draws, in the order in which threads go on"


@pytest.mark.slow
def test_equal_seeds_give_equal_operations_and_other_seeds_others() -> None:
    def mixed(seed: int) -> dict[str, Any]:
        mix = {"create": 1.0, "read": 1.0, "delete": 0.5, "stat": 1.0}
        return played(world(5, {"copies": 3}, operations=mix, threads=7, count=300), seed=seed)[0]

    first, again, other = mixed(1), mixed(1), mixed(2)
    assert all((first[name] == again[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)


def refused(values: Values) -> list[str]:
    return [f"{each.path}: {each.reason}; {each.cure}" for each in refusals(parsed(values))]


def test_what_cannot_be_played_is_refused_with_the_cure() -> None:
    values = world(3)
    del values["world"]["guests"]["n1"]["disk"]
    (line,) = refused(values)
    assert line.startswith("services.depot.ack: n1 has no disk, which 'ack: disk' needs; give it a 'disk'")
    values = world(3)
    values["world"]["guests"]["n1"]["vnics"]["eth0"]["isolated"] = True
    (line,) = refused(values)
    assert line.startswith("services.depot.lookup: n1 is isolated on h2.br")
    values["world"]["services"]["depot"] |= LOOKUPS["ring"]
    assert refused(values) == []
    values = world(3)
    values["roles"]["probe"]["from"] = "n2"
    assert any(
        line.startswith("roles.probe.from: n2 is both a client and part of the store 'depot'")
        for line in refused(values)
    )


def test_what_a_store_would_be_played_wrongly_with_is_refused() -> None:
    values = world(4)
    values["roles"]["probe"]["object_bytes"] = DISK["size_bytes"] - RECORD_BYTES
    assert refused(values) == []
    values["roles"]["probe"]["object_bytes"] += 1
    (line,) = refused(values)
    assert line.startswith(
        "roles.probe.size: an object of 1073741313 B and its record of 512 B do not fit on the disk of"
    )
    values = world(4)
    values["timeline"] = [
        {"id": "measure", "do": "run", "role": "probe"},
        {"id": "off", "do": "reset", "guest": "n1", "after": {"event": "measure.finished"}},
    ]
    (line,) = refused(values)
    assert line.startswith(
        "timeline[1].guest: n1 is part of a store, and what its node would lose is unknown"
    )


def test_a_wait_for_a_recovery_before_which_nothing_is_lost_is_refused() -> None:
    assert refused(lost("wipe_node", {})) == []
    values = lost("wipe_node", {})
    values["timeline"][3]["after"] = {"event": "measure.finished"}
    assert refused(values) == [], "the two may come in any order"
    values["timeline"][3]["after"] = {"event": "load.started", "plus_ns": 50 * MS}
    line = "timeline[3].until: no node of 'depot' is lost before it, so that it waits for nothing"
    assert [one.partition(";")[0] for one in refused(values)] == [line]
    values = lost("wipe_node", {})
    values["timeline"][2]["after"] = {"event": "whole.done"}
    values["timeline"][3]["after"] = {"event": "load.started"}
    assert [one.partition(";")[0] for one in refused(values)] == [line]
    values = lost("wipe_node", {})
    values["timeline"][2]["op"] = "heal"
    assert [one.partition(";")[0] for one in refused(values)] == [line]


@pytest.mark.slow
def test_a_long_timeline_before_a_loss_is_followed_to_its_end() -> None:
    values = lost("wipe_node", {})
    before = values["timeline"][2]["after"]
    for number in range(2000):
        step = {"id": f"s{number}", "do": "wait", "for_ns": MS, "after": before}
        values["timeline"].append(step)
        before = {"event": f"s{number}.done"}
    values["timeline"][2]["after"] = before
    assert not any("waits for nothing" in line for line in refused(values))


def test_all_roles_reach_a_peer_at_one_address() -> None:
    values = world(4)
    for number, guest in enumerate(values["world"]["guests"].values(), 1):
        guest["vnics"]["eth0"]["ip"].append(f"fd00::{number:x}/64")
    probe = values["roles"]["probe"]
    values["roles"] = {"probe": probe | {"family": "ipv4"}, "other": probe | {"family": "ipv4"}}
    assert refused(values) == []
    values["roles"]["other"]["family"] = "ipv6"
    found = refused(values)
    assert len(found) == 4
    assert found[0].startswith("roles.other.to: it reaches n0 at another address than probe does")


@pytest.mark.slow
def test_more_peers_than_can_be_connected_are_refused() -> None:
    values = world(4)
    probe = values["roles"].pop("probe")
    values["roles"] = {f"r{number}": probe for number in range(253)}
    (line,) = (one for one in refused(values) if one.startswith("services.depot"))
    assert line.startswith("services.depot.on: 257 nodes, proxies and clients are too many: at most 256")


def test_what_a_plan_leaves_out_of_a_store_is_as_in_a_file() -> None:
    values = world(4)
    on = [f"n{number}" for number in range(4)]
    values["world"]["services"]["depot"] = {"kind": "store", "on": on, "ready": {"port": 7100}}
    _, own, _ = played(values)
    assert (own["objects"], own["object_copies"]) == (40, 120)


def lost(operation: str, store: Values, plus_ns: int = 0, **load: Any) -> Values:
    """200 objects, then clients that read and overwrite, while the timeline does something to n1 and the store
    recovers.
    """
    values = then(
        world(4, {"copies": 2, "timeout_ns": 400 * MS, **store}, threads=8, count=200),
        **{"operations": {"read": 100.0, "overwrite": 1.0}, "count": 10**6, "duration_ns": 3_000 * MS} | load,
    )  # fmt: skip
    call = {"do": "call", "service": "depot", "args": {"guest": "n1"}}
    values["timeline"] = [
        {"id": "measure", "do": "run", "role": "probe"},
        {"id": "load", "do": "run", "role": "next", "after": {"event": "measure.finished"}},
        {"id": "lose", "op": operation, "after": {"event": "load.started", "plus_ns": 100 * MS}, **call},
        *([{"id": "mend", "op": "heal", "after": {"event": "lose.done", "plus_ns": plus_ns}, **call}] if plus_ns else []),
        {"id": "whole", "do": "wait", "until": {"call": "depot.recovered", "every_ns": MS}, "timeout_ns": 2_500 * MS,
         "on_timeout": "censor", "after": {"event": "mend.done" if plus_ns else "lose.done"}},
        {"id": "drain", "do": "wait", "for_ns": 500 * MS, "after": {"event": "load.finished"}},
    ]  # fmt: skip
    return values


@pytest.mark.slow
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_wiped_node_gets_its_copies_back_and_no_answered_write_is_lost(lookup: str) -> None:
    rows, own, _ = played(lost("wipe_node", LOOKUPS[lookup]), "next")
    assert own["recovery_missing"] > 50
    assert own["recovery_made"] > 0.5 * own["recovery_missing"], "all but those that were refused"
    times = [own[f"recovery_{name}_ns"] for name in ("known", "first", "half", "most", "whole")]
    assert times == sorted(times)
    assert 400 * MS <= times[0] < times[-1] < 2_500 * MS, "its lists begin one time-out after its return"
    assert not any(
        own[key] for key in ("lost_objects", "stale_objects", "wrong_operations", "missing_copies")
    )
    done = rows["outcome"] == ENDINGS.index("done")
    assert done.mean() > 0.9


@pytest.mark.slow
def test_a_node_that_failed_comes_back_with_what_its_disk_has_and_lacks_what_was_written_meanwhile() -> None:
    quorum = {"copies": 3, "write_quorum": 2, "read_quorum": 2, **LOOKUPS["ring"]}
    values = lost("fail_node", quorum, plus_ns=700 * MS)
    rows, own, _ = played(values, "next")
    assert 0 < own["recovery_missing"] < 400
    assert own["recovery_known_ns"] >= (700 + 400) * MS
    assert not any(
        own[key] for key in ("lost_objects", "stale_objects", "wrong_operations", "missing_copies")
    )
    away = (rows["intended_ns"] - rows["intended_ns"][0] > 100 * MS) & (
        rows["intended_ns"] - rows["intended_ns"][0] < 700 * MS
    )
    done = rows["outcome"] == ENDINGS.index("done")
    assert done[away].any(), "two of three copies are enough"


@pytest.mark.slow
def test_a_node_without_a_disk_comes_back_with_nothing() -> None:
    """As on the testbed, where its process kept all in memory: it lacks as much as a node that was wiped."""
    quorum = {"copies": 3, "write_quorum": 2, "read_quorum": 2, "ack": "memory", "cache_bytes": 1 << 30}
    missing = []
    for disk in (True, False):
        values = lost("fail_node", quorum | LOOKUPS["ring"], plus_ns=100 * MS, operations={"read": 1.0})
        if not disk:
            for guest in values["world"]["guests"].values():
                guest.pop("disk", None)
        _, own, _ = played(values, "next")
        assert (own["lost_objects"], own["stale_objects"], own["missing_copies"]) == (0, 0, 0)
        missing.append(own["recovery_missing"])
    assert missing[1] > 100, "about three quarters of 200 objects"
    assert missing[0] < missing[1] / 2


@pytest.mark.slow
def test_a_recovery_that_does_not_end_is_censored() -> None:
    values = lost("fail_node", LOOKUPS["elastic_hash"])
    outcome, kept = simulated(values, 1)
    assert (outcome.status, outcome.censored) == ("ok", ("whole",))
    own = {key: value for (entity, key), value in counters(kept, "stop").items() if entity == "next/server"}
    assert "recovery_whole_ns" not in own
    assert own["missing_copies"] > 0


@pytest.mark.slow
def test_survivors_that_watch_each_other_make_the_copies_of_a_silent_node() -> None:
    watch = {"beat_ns": 20 * MS, "silence_ns": 100 * MS, "copies": 3, "write_quorum": 2, "read_quorum": 2}
    values = lost("fail_node", {**LOOKUPS["ring"], **watch}, operations={"read": 1.0})
    _, own, _ = played(values, "next")
    assert 80 * MS <= own["recovery_known_ns"] <= 130 * MS
    assert own["recovery_made"] == own["recovery_missing"] > 50
    assert (own["missing_copies"], own["lost_objects"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("lookup", ["multicast", "ring"])
def test_what_is_written_while_a_node_is_silent_gets_its_copies_where_survivors_watch_each_other(
    lookup: str,
) -> None:
    quorum = {"copies": 3, "write_quorum": 2, "read_quorum": 2, **LOOKUPS[lookup]}
    watch = {"beat_ns": 20 * MS, "silence_ns": 100 * MS}
    operations = {"read": 20.0, "overwrite": 4.0, "create": 1.0}
    found = []
    for store in (quorum, quorum | watch):
        values = lost("fail_node", store, operations=operations)
        outcome, kept = simulated(values, 1)
        assert outcome.status == "ok", outcome.reasons
        own = {
            key: value for (entity, key), value in counters(kept, "stop").items() if entity == "next/server"
        }
        assert (own["lost_objects"], own["stale_objects"]) == (0, 0)
        found.append(own)
    alone, watched = found
    assert alone["missing_copies"] > 50, "nobody makes them"
    assert watched["missing_copies"] == 0
    assert watched["object_copies"] == 3 * watched["objects"]
    assert watched["recovery_made"] == watched["recovery_missing"] > 50
    assert "recovery_whole_ns" in watched


@pytest.mark.slow
def test_each_stream_and_each_partition_of_a_recovery_costs_its_time() -> None:
    def whole(**store: Any) -> int:
        values = lost(
            "wipe_node",
            {**LOOKUPS["ring"], **store},
            operations={"stat": 1.0},
            threads=1,
            rate_per_s=500,
            arrivals="constant",
        )
        own = played(values, "next")[1]
        return own["recovery_whole_ns"] - own["recovery_known_ns"]

    fast, slow = whole(), whole(recovery_streams=1)
    assert slow > 2 * fast
    partitions = 1024 * 2 // 4
    assert whole(scan_ns=2 * MS) == pytest.approx(partitions * 2 * MS, rel=0.05)
    assert whole(scan_ns=2 * MS, scans=4) == pytest.approx(partitions * 2 * MS / 4, rel=0.2)


FILE = """
version: 1
name: proxied
hosts:
  h1: {guests: {client: {}, p1: {}, p2: {}, p3: {}}}
  h2: {guests: {n1: {}, n2: {}, n3: {}, n4: {}}}
host: {platform: qemu, disk: {size: 1 GB, rate: 100 MB/s}}
topology: star
link: {rate: 1 Gbit/s}
services:
  depot: {kind: store, on: [h2.n1, h2.n2, h2.n3, h2.n4], copies: 2, written_by: proxy, proxies: PROXIES}
roles:
  fill: {workload: objects, from: h1.client, to: depot, operations: create, count: 30}
"""


@pytest.mark.slow
def test_a_file_names_sizes_and_a_mix() -> None:
    text = FILE.replace("PROXIES", "[h1.p1]")

    def parameters(role: str) -> dict[str, Any]:
        experiment = load_text(text.replace("operations: create, count: 30", role))
        return plan_run(experiment, experiment.points()[0], 0).roles["fill"].parameters

    found = parameters("operations: like SPECsfs2008, size: {0 B: 1, 10 kB: 3}")
    assert found["operations"] == {"create": 1, "read": 18, "overwrite": 10, "delete": 1, "stat": 63}
    assert found["object_sizes"] == [[0, 1.0], [10_000, 3.0]]
    assert "object_bytes" not in found
    assert parameters("operations: create, size: [1 kB, 2 kB]")["object_sizes"] == [[1000, 1.0], [2000, 1.0]]
    with pytest.raises(
        ExperimentError, match="is not a list of different sizes; write 2 to 1000 different ones"
    ):
        parameters("operations: create, size: [1 kB, 1 kB]")
    with pytest.raises(ExperimentError, match="an object is at most 1 GiB"):
        parameters("operations: create, size: [1 kB, 2 GiB]")


@pytest.mark.slow
def test_operations_of_a_store_are_of_one_node() -> None:
    text = (
        FILE.replace("PROXIES", "[h1.p1]")
        + """
timeline:
  - {id: fill, do: run, role: fill}
  - {id: lose, do: call, service: depot, op: OP, after: fill.finished}
"""
    )
    with pytest.raises(ExperimentError, match="'wipe_node' needs a guest"):
        load_text(text.replace("OP", "wipe_node"))
    with pytest.raises(ExperimentError, match="is not one of the service's guests"):
        load_text(text.replace("OP,", "fail_node, args: {guest: h1.p1},"))
    load_text(text.replace("OP,", "fail_node, args: {guest: h2.n1},"))
    load_text(text.replace("OP", "heal"))


def test_threads_of_operations_at_a_rate_are_a_mistake() -> None:
    text = FILE.replace("PROXIES", "[h1.p1]").replace("count: 30", "rate: 10 request/s, threads: 2")
    with pytest.raises(
        ExperimentError, match="operations at a rate wait for no thread; remove one of the two"
    ):
        load_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("proxies", [["h1.p1"], ["h1.p1", "h1.p2"], ["h1.p1", "h1.p2", "h1.p3"]])
def test_a_file_names_as_many_proxies_as_it_likes_and_a_client_stays_at_one(proxies: list[str]) -> None:
    experiment = load_text(FILE.replace("PROXIES", f"[{', '.join(proxies)}]"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert list(plan.world.services["depot"].parameters["proxies"]) == proxies
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["collect"] = {"counters": ["vnics"], "packets": ["fill"]}
    rows, own, ends = played(values, "fill")
    assert set(rows["outcome"]) == {ENDINGS.index("done")}
    assert (own["objects"], own["object_copies"]) == (30, 60)
    busy = [
        name for name in ("h1.p1", "h1.p2", "h1.p3") if ends[f"guests.{name}.vnics.eth0", "sent_packets"] > 60
    ]
    assert len(busy) == 1
    assert busy[0] in proxies


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ("load.read.operation_time.mean <= 1 s", None),
        ("load.delete.operation_time.mean <= 1 s", "'load' does no 'delete'"),
        ("fill.operation_time.mean <= 1 s", None),
        ("fill.create.operation_time.mean <= 1 s", "no part of 'fill' has values of its own"),
    ],
)
def test_a_claim_is_about_operations_that_its_role_does(claim: str, found: str | None) -> None:
    """`load` reads at one level of a factor, and overwrites at all."""
    text = (
        FILE.replace("PROXIES", "[h1.p1]")
        + """
  load: {workload: objects, from: h1.client, to: depot, folder: fill, operations: "${mix}", count: 30}
factors:
  mix: {reads: {overwrite: 1, read: 1}, creates: {overwrite: 1, create: 1}}
claims:
  - {id: one, text: "CLAIM"}
""".replace("CLAIM", claim)
    )
    if found is None:
        load_text(text)
        return
    with pytest.raises(ExperimentError, match=found):
        load_text(text)
