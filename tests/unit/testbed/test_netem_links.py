"""Links by netem: a queue's limit bounds what waits, and nothing but waiting is told as a wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.testbed.test_testbed_lowering import SWITCHED, with_links

from virtlab.catalogue.qdiscs.netem import line
from virtlab.errors import MachineError
from virtlab.plan import LinkQueues, Plan, Queue
from virtlab.testbed.build.lower import lower
from virtlab.testbed.play.queue_waits import Waiting
from virtlab.testbed.play.records import kernel_rows
from virtlab.testbed.queues.netem_links import NetemQueue
from virtlab.testbed.steps.operations import Discipline, QdiscAdd

GIGABIT = 10**9
FULL_OCTETS = 1514  # of a frame as the kernel counts it
FULL_NS = 1538 * 8  # on the wire at 1 Gbit/s


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


def link(*line_of: int) -> Discipline:
    return Discipline("netem", line(*line_of))


def at_first_link(plan: Plan) -> NetemQueue:
    queue = lower(plan).queues["h1-s1", "ab"]
    assert isinstance(queue, NetemQueue)
    return queue


def test_the_frame_on_the_wire_is_let_in_beside_those_that_wait() -> None:
    (only,) = at_uplink(by_netem())
    assert only.discipline == link(GIGABIT, 0, 101, 24)


def test_frames_in_a_long_cable_take_no_room_from_those_that_wait() -> None:
    delay, rate = at_uplink(by_netem(propagation_ns=10_000_000))
    assert (delay.parent, delay.handle) == ("root", "1:")
    assert delay.discipline.kind == "netem"
    assert delay.discipline.options["rate_bit_per_s"] == 0
    assert delay.discipline.options["delay_ns"] == 10_000_000
    # Of the shortest frames, 84 octets, 14,880 are in 10 ms of cable at 1 Gbit/s.
    assert delay.discipline.options["limit_packets"] > 2 * 14_880
    assert (rate.parent, rate.handle, rate.discipline) == ("1:1", "10:", link(GIGABIT, 0, 101, 24))


@pytest.mark.parametrize(
    ("rate_bit_per_s", "propagation_ns", "limit_packets", "stages"),
    [
        (10**8, 5_000, 100, 1),
        (10**8, 67_000, 100, 1),
        (10**8, 68_000, 100, 2),
        (10**8, 68_000, 1000, 1),
        (10**9, 10_000_000, 1_000_000, 1),
    ],
)
def test_short_cables_stay_in_one_stage(
    rate_bit_per_s: int, propagation_ns: int, limit_packets: int, stages: int
) -> None:
    assert len(at_uplink(by_netem(rate_bit_per_s, propagation_ns, limit_packets))) == stages


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
    assert counted(long, at_1=84, at_10=4) == passed | {"backlog_packets": 3}
    assert counted(long, at_1=80, at_10=0) == passed | {"backlog_packets": 0}
    short = at_first_link(by_netem(propagation_ns=500))
    assert counted(short, at_1=4) == passed, "what cannot be told is missing"


def test_a_kernel_that_loses_count_of_what_it_holds_ends_the_run() -> None:
    with pytest.raises(MachineError, match=r"links\.l: netem's backlog at up ran below zero.*; update it"):
        counted(at_first_link(by_netem(propagation_ns=10_000_000)), at_1=2**32 - 3, at_10=4)


def waited(
    queue: NetemQueue, seen: list[tuple[int, int]], full_frames: int, drops: int = 0
) -> dict[str, int]:
    """What a run tells of a link with these samples (instant, backlog) that carried so many full frames."""
    waiting = Waiting()
    block: dict[str, Any] = {
        "t_ns": np.array([t_ns for t_ns, _ in seen]),
        "entity": np.array([f"{queue.namespace}/{queue.link}"] * len(seen), dtype=object),
        "metric": np.array(["backlog_packets"] * len(seen), dtype=object),
        "value": np.array([float(backlog) for _, backlog in seen]),
    }
    waiting.take(block)
    counted = [
        (0, mark, f"links.l.{way}", name, value * (1 if way == "ab" else 9))
        for mark, frames in (("begin", 1000), ("measure.started", 1001), ("end", 1000 + full_frames))
        for name, value in (
            ("packets", frames),
            ("bytes", 77 + frames * FULL_OCTETS),
            ("drops", drops * frames // full_frames),
        )
        for way in ("ab", "ba")
    ]
    rows = waiting.rows({("l", "ab"): queue}, 0, seen[-1][0], counted)
    assert {entity for _, _, entity, _, _ in rows} <= {"links.l.ab"}
    return {name: value for _, mark, _, name, value in rows if mark == "end"}


def test_a_frame_on_an_idle_wire_has_not_waited() -> None:
    queue = at_first_link(by_netem())
    lone = [(at * FULL_NS, at % 2) for at in range(100)]
    assert waited(queue, lone, 50) == {"residence_ns": 0, "backlog_max_packets": 0}


def test_of_a_busy_wire_all_but_one_frame_wait() -> None:
    queue = at_first_link(by_netem())
    assert waited(queue, [(0, 5), (10, 1), (20, 0)], 5) == {"residence_ns": 40, "backlog_max_packets": 4}


@pytest.mark.parametrize("waiting", [0, 25])
def test_a_full_cable_is_no_queue(waiting: int) -> None:
    """A wire that is always busy: as many frames propagate as its time holds, and some may wait besides."""
    queue = at_first_link(by_netem(propagation_ns=1000 * FULL_NS))
    whole = [(at * FULL_NS, waiting + 1 + 1000) for at in range(0, 50_001, 100)]
    told = waited(queue, whole, 50_000)
    assert told == {"residence_ns": waiting * 50_000 * FULL_NS}, "its most is not known"


def test_what_was_dropped_in_front_of_the_wire_had_been_in_the_cable() -> None:
    queue = at_first_link(by_netem(propagation_ns=1000 * FULL_NS))
    # As many are dropped as are carried: twice as many propagate.
    whole = [(at * FULL_NS, 100 + 1 + 2000) for at in range(0, 50_001, 100)]
    assert waited(queue, whole, 50_000, drops=50_000) == {"residence_ns": 100 * 50_000 * FULL_NS}


def test_of_packets_of_many_segments_in_a_cable_no_wait_is_told() -> None:
    queue = at_first_link(by_netem(propagation_ns=10_000_000))
    assert queue.single_frames
    assert waited(queue, [(0, 5), (10, 1)], 1) == {"residence_ns": 0}
    assert waited(replace(queue, single_frames=False), [(0, 5), (10, 1)], 1) == {}
    assert waited(replace(queue, single_frames=False, delay_ns=0), [(0, 5), (10, 1)], 1) != {}


def test_without_counters_of_what_it_carried_no_wait_in_front_of_a_cable_is_told() -> None:
    waiting = Waiting({"host:h1/up": [(0, 5), (10, 1)]})
    assert waiting.rows({("l", "ab"): at_first_link(by_netem(propagation_ns=10_000_000))}, 0, 20) == []


def test_guests_that_leave_offloads_on_send_packets_of_many_segments() -> None:
    values = by_netem().model_dump(by_alias=True, mode="json")
    values["world"]["guests"]["a"]["vnics"]["eth0"]["offloads"] = "default"
    assert not at_first_link(Plan.model_validate(values)).single_frames
