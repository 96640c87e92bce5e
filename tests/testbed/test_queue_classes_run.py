"""Classes of a queue on real packets: code points written by the probe, read by the soft switch or by filters of the
kernel, counted per class."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.machine import findings

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

QUEUE = {
    "kind": "prio", "by": "virtlab", "default": "rest", "match": [{"class": "voice", "dscp": [46]}],
    "classes": {"voice": {"parameters": {"prio": 1}}, "rest": {"parameters": {"prio": 2}}},
}  # fmt: skip


KERNEL = {
    "kind": "htb", "by": "kernel", "default": "rest",
    "match": [
        {"class": "voice", "dscp": [46], "protocol": 17, "destination_port": [1, 65534]},
        {"class": "voice", "dscp": [46], "source": "10.0.0.0/16", "protocol": 1},
    ],
    "classes": {
        "all": {"parameters": {"rate_bit_per_s": 90_000_000}},
        "voice": {
            "parent": "all", "limit_packets": 50,
            "parameters": {"rate_bit_per_s": 20_000_000, "ceil_bit_per_s": 90_000_000, "prio": 1},
        },
        "rest": {
            "parent": "all", "limit_packets": 60,
            "parameters": {"rate_bit_per_s": 70_000_000, "ceil_bit_per_s": 90_000_000, "prio": 2},
        },
    },
}  # fmt: skip
MISSING = [
    kind for kind in ("htb", "pfifo", "cls_u32") if findings().qdiscs.get(kind, "not tried") is not None
]
with_htb = pytest.mark.skipif(bool(MISSING), reason=f"this kernel has no {', '.join(MISSING)}")


def counted(protocol: str, dscp: int, queue: dict[str, Any] = QUEUE) -> dict[tuple[str, str], int]:
    """Counters at the end of a run with one echo role."""
    plan = worlds.echo_plan(worlds.bridged(queue={"ab": queue, "ba": queue}))
    role = plan.roles["probe"].model_dump(by_alias=True, exclude_defaults=True)
    return played(role | {"protocol": protocol, "dscp": dscp}, queue)


def played(
    role: dict[str, Any], queue: dict[str, Any], rate_bit_per_s: int = 100_000_000
) -> dict[tuple[str, str], int]:
    """Counters at the end of a run with one role; the rate is that of the last link."""
    plan = worlds.echo_plan(worlds.bridged(queue={"ab": queue, "ba": queue}))
    values = plan.model_dump(by_alias=True, exclude_defaults=True)
    values["roles"]["probe"] = {"from": "a", "to": "b", **role}
    values["world"]["links"]["l1"]["rate_bit_per_s"] = rate_bit_per_s
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
        longest = found[f"{line}.voice", "residence_max_ns"]
        assert 0 <= longest <= found[line, "residence_max_ns"]
        assert (
            found[f"{line}.voice", "residence_p50_ns"]
            <= found[f"{line}.voice", "residence_p99_ns"]
            <= longest
        )
        assert found[f"{line}.voice", "drops"] == found[f"{line}.rest", "drops"] == 0


def test_what_carries_none_goes_to_the_default() -> None:
    found = counted("icmp", 0)
    assert found["links.l1.ab.voice", "packets"] == 0
    assert found["links.l1.ab.rest", "packets"] >= 20


@with_htb
@pytest.mark.parametrize("protocol", ["icmp", "udp"])
def test_the_kernels_classes_take_what_their_filters_match(protocol: str) -> None:
    found = counted(protocol, 46, KERNEL)
    for direction in ("ab", "ba"):
        line = f"links.l1.{direction}"
        assert found[f"{line}.voice", "packets"] >= 20
        assert found[f"{line}.all", "packets"] >= found[f"{line}.voice", "packets"]
        assert found[f"{line}.voice", "drops"] == 0
        assert found[line, "packets"] >= found[f"{line}.all", "packets"]
    assert counted(protocol, 0, KERNEL)["links.l1.ab.voice", "packets"] == 0


@with_htb
def test_what_the_kernel_queues_by_is_read_back() -> None:
    plan = worlds.echo_plan(worlds.bridged(queue={"ab": KERNEL, "ba": KERNEL}))
    with Testbed().open(plan, worlds.Patient()) as session:
        made = session.realised.objects["links.l1"]
    assert made.by == "shaping"
    for facts in made.read_back.values():
        by_handle = {each["handle"]: each for each in facts["qdiscs"]}
        voice = next(each for each in by_handle.values() if each.get("prio") == 1)
        assert (voice["rate_bit_per_s"], voice["ceil_bit_per_s"]) == (20_000_000, 90_000_000)
        assert {each["limit_packets"] for each in by_handle.values() if each["kind"] == "pfifo"} == {50, 60}
        assert {each["target"] for each in facts["filters"]} == {voice["handle"]}


@with_htb
def test_the_length_of_an_interfaces_own_queue_is_read_back_where_a_queue_goes_by_it() -> None:
    world = worlds.native()
    here = {"kind": "pfifo_fast", "by": "kernel", "limit_packets": 77}
    for link, own in zip(world["links"].values(), ("ab", "ba"), strict=True):
        there = {"ab": "ba", "ba": "ab"}[own]
        link["queue"] = {own: here, there: {"kind": "fifo", "by": "kernel", "limit_packets": 50}}
    plan = worlds.echo_plan(world)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        facts = session.realised.objects["links.l0"].read_back["h1.up"]
    assert facts["queue_length_packets"] == 77
    assert "pfifo_fast" in {each["kind"] for each in facts["qdiscs"]}


@pytest.mark.parametrize("workload", ["tcp_rr", "tcp_stream"])
def test_connections_carry_the_code_point_both_ways(workload: str) -> None:
    found = played({"workload": workload, "duration_ns": 1_000_000_000, "dscp": 46}, QUEUE)
    for direction in ("ab", "ba"):
        line = f"links.l1.{direction}"
        assert found[f"{line}.voice", "packets"] > 20
        assert found[f"{line}.rest", "packets"] == 0


@pytest.mark.parametrize("priority", [0, 5])
def test_frames_are_matched_by_the_priority_of_their_tag(priority: int) -> None:
    queue = QUEUE | {"match": [{"class": "voice", "pcp": [5]}]}
    frames = {"workload": "raw_stream", "frame_bytes": 200, "rate_pps": 1000, "duration_ns": 200_000_000}
    taken, other = ("voice", "rest") if priority == 5 else ("rest", "voice")
    for _ in range(4):  # a sender that stands still at its end sends fewer
        found = played(frames | {"priority": priority}, queue)
        counts = {name: found[f"links.l1.ab.{name}", "packets"] for name in ("voice", "rest")}
        if counts[taken] >= 190 and found["guests.b.vnics.eth0", "received_packets"] >= 200:
            break
    assert counts[taken] >= 190
    assert counts[other] == 0
    assert found["guests.b.vnics.eth0", "received_packets"] >= 200, "echoes of the check, and every frame"


def test_a_queue_marks_a_connection_that_asks_for_it_and_drops_none_of_its_packets() -> None:
    queue = {
        "kind": "codel", "by": "virtlab", "limit_packets": 1000,
        "parameters": {"ecn": True, "target_ns": 1_000_000, "interval_ns": 20_000_000},
    }  # fmt: skip
    role = {"workload": "tcp_stream", "duration_ns": 1_500_000_000}
    marking = played(role | {"ecn": True}, queue, 20_000_000)
    assert marking["links.l1.ab", "marked_packets"] > 3
    assert marking["links.l1.ab", "drops"] == 0
    dropping = played(role, queue, 20_000_000)
    assert dropping["links.l1.ab", "marked_packets"] == 0
    assert dropping["links.l1.ab", "drops"] > 3
