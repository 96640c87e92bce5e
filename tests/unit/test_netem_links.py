"""Links by netem: a queue's limit bounds what waits, and nothing but waiting is told as a wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.test_testbed_lowering import SWITCHED, with_links
from tests.unit.test_testbed_refusals import HERE

from virtlab.plan import LinkQueues, Plan, Queue
from virtlab.testbed.fabric import propagation_refusals
from virtlab.testbed.lower import lower
from virtlab.testbed.netem_links import NetemQueue
from virtlab.testbed.operations import Netem, Prio, QdiscAdd
from virtlab.testbed.records import kernel_rows
from virtlab.testbed.refusals import refusals
from virtlab.testbed.waiting import Waiting

GIGABIT = 10**9
FULL_OCTETS = 1514  # of a frame as the kernel counts it
FULL_NS = 1538 * 8  # on the wire at 1 Gbit/s
WITH_NETEM = replace(HERE, qdiscs={**HERE.qdiscs, "netem": None, "prio": None})


def by_netem(rate_bit_per_s: int = GIGABIT, propagation_ns: int = 0, limit_packets: int = 100) -> Plan:
    queue = Queue(kind="fifo", limit_packets=limit_packets)
    return with_links(
        SWITCHED,
        realise="netem",
        rate_bit_per_s=rate_bit_per_s,
        propagation_ns=propagation_ns,
        queue=LinkQueues(ab=queue, ba=queue),
    )


def at_uplink(plan: Plan) -> list[QdiscAdd]:
    done = (step.op for step in lower(plan).steps)
    return [op for op in done if isinstance(op, QdiscAdd) and (op.namespace, op.link) == ("host:h1", "up")]


def at_first_link(plan: Plan) -> NetemQueue:
    queue = lower(plan).queues["h1-s1", "ab"]
    assert isinstance(queue, NetemQueue)
    return queue


def test_the_frame_on_the_wire_is_let_in_beside_those_that_wait() -> None:
    (only,) = at_uplink(by_netem())
    assert only.discipline == Netem(GIGABIT, 0, 101)


def test_frames_in_a_long_cable_take_no_room_from_those_that_wait() -> None:
    top, rate, delay = at_uplink(by_netem(propagation_ns=10_000_000))
    assert (top.parent, top.handle, type(top.discipline)) == ("root", "1:", Prio)
    assert (rate.parent, rate.handle, rate.discipline) == ("1:1", "10:", Netem(GIGABIT, 0, 101))
    assert (delay.parent, delay.handle) == ("10:1", "20:")
    assert isinstance(delay.discipline, Netem)
    assert (delay.discipline.rate_bit_per_s, delay.discipline.delay_ns) == (0, 10_000_000)
    # Of the shortest frames, 84 octets, 14,880 are in 10 ms of cable at 1 Gbit/s.
    assert delay.discipline.limit_packets > 2 * 14_880


@pytest.mark.parametrize(
    ("rate_bit_per_s", "propagation_ns", "limit_packets", "stages"),
    [
        (10**8, 5_000, 100, 1),
        (10**8, 67_000, 100, 1),
        (10**8, 68_000, 100, 3),
        (10**8, 68_000, 1000, 1),
        (10**9, 10_000_000, 1_000_000, 1),
    ],
)
def test_short_cables_stay_in_one_stage(
    rate_bit_per_s: int, propagation_ns: int, limit_packets: int, stages: int
) -> None:
    assert len(at_uplink(by_netem(rate_bit_per_s, propagation_ns, limit_packets))) == stages


def test_a_kernel_that_cannot_tell_propagation_from_waiting_is_refused_with_the_ways_out() -> None:
    long = by_netem(propagation_ns=10_000_000)
    assert list(propagation_refusals(long, WITH_NETEM)) == []
    without = replace(WITH_NETEM, qdiscs={**WITH_NETEM.qdiscs, "prio": "unknown kind"})
    assert list(propagation_refusals(by_netem(), without)) == []
    refused = list(propagation_refusals(long, without))
    assert [each.path for each in refused] == [f"links.{name}.propagation_ns" for name in long.world.links]
    assert {each.path for each in refusals(long, without)} == {each.path for each in refused}
    for each in refused:
        assert "has not (unknown kind)" in each.reason
        assert "sch_prio" in each.cure
        assert "--in lab-vm" in each.cure


def counted(queue: NetemQueue, **backlogs: int) -> dict[str, int]:
    """Counters of a link of which disciplines have these backlogs."""
    entries = [
        {
            "handle": f"{handle.removeprefix('at_')}:",
            "packets": 7,
            "bytes": 700,
            "drops": 1,
            "backlog_bytes": 9,
        }
        | {"backlog_packets": packets}
        for handle, packets in backlogs.items()
    ]
    seen = {queue.namespace: {"links": {queue.link: {"qdiscs": entries}}}}
    rows = kernel_rows({("l", "ab"): queue}, seen, 5, "end")
    assert {entity for _, _, entity, _, _ in rows} == {"links.l.ab"}
    return {name: value for _, _, _, name, value in rows}


def test_what_waits_at_a_mark_is_neither_on_the_wire_nor_in_the_cable() -> None:
    passed = {"packets": 7, "bytes": 700, "drops": 1}
    plain = at_first_link(by_netem())
    assert counted(plain, at_1=4) == passed | {"backlog_packets": 3}
    assert counted(plain, at_1=0) == passed | {"backlog_packets": 0}
    long = at_first_link(by_netem(propagation_ns=10_000_000))
    # Whether a netem counts what is in the one inside depends on the kernel; the top does always.
    for at_10 in (4, 84):
        assert counted(long, at_1=84, at_10=at_10, at_20=80) == passed | {"backlog_packets": 3}
    short = at_first_link(by_netem(propagation_ns=500))
    assert counted(short, at_1=4) == passed, "what cannot be told is missing"


def waited(queue: NetemQueue, seen: list[tuple[int, int, int]]) -> dict[str, int]:
    """What a run tells of a link with these samples: instant, backlog, full frames sent so far."""
    waiting = Waiting()
    for t_ns, backlog, sent in seen:
        values: Mapping[str, int] = {
            "backlog_packets": backlog,
            "qdisc_sent_packets": 1000 + sent,
            "qdisc_sent_bytes": 50_000 + sent * FULL_OCTETS,
            "qdisc_drops": 0,
        }
        block: dict[str, Any] = {
            "t_ns": np.array([t_ns] * len(values)),
            "entity": np.array([f"{queue.namespace}/{queue.link}"] * len(values), dtype=object),
            "metric": np.array(list(values), dtype=object),
            "value": np.array([float(value) for value in values.values()]),
        }
        waiting.take(block)
    rows = waiting.rows({("l", "ab"): queue}, 0, seen[-1][0])
    return {name: value for _, mark, _, name, value in rows if mark == "end"}


def test_a_frame_on_an_idle_wire_has_not_waited() -> None:
    queue = at_first_link(by_netem())
    lone = [(at * FULL_NS, at % 2, (at + 1) // 2) for at in range(100)]
    assert waited(queue, lone) == {"residence_ns": 0, "backlog_max_packets": 0}


def test_of_a_busy_wire_all_but_one_frame_wait() -> None:
    queue = at_first_link(by_netem())
    assert waited(queue, [(0, 5, 0), (10, 1, 0), (20, 0, 0)]) == {
        "residence_ns": 40,
        "backlog_max_packets": 4,
    }


@pytest.mark.parametrize("waiting", [0, 25])
def test_a_full_cable_is_no_queue(waiting: int) -> None:
    """A wire that is always busy: as many frames propagate as its time holds, and some may wait besides."""
    queue = at_first_link(by_netem(propagation_ns=1000 * FULL_NS))
    whole = [(at * FULL_NS, waiting + 1 + 1000, at) for at in range(0, 50_001, 100)]
    told = waited(queue, whole)
    assert told == {"residence_ns": waiting * 50_000 * FULL_NS}, "its most is not known"


def test_of_packets_of_many_segments_in_a_cable_no_wait_is_told() -> None:
    queue = at_first_link(by_netem(propagation_ns=10_000_000))
    assert queue.single_frames
    assert waited(replace(queue, single_frames=False), [(0, 5, 0), (10, 1, 0)]) == {}
    assert waited(replace(queue, single_frames=False, delay_ns=0), [(0, 5, 0), (10, 1, 0)]) != {}


def test_guests_that_leave_offloads_on_send_packets_of_many_segments() -> None:
    values = by_netem().model_dump(by_alias=True, mode="json")
    values["world"]["guests"]["a"]["vnics"]["eth0"]["offloads"] = "default"
    assert not at_first_link(Plan.model_validate(values)).single_frames
