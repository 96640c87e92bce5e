"""A client's blackout is the longest gap between two replies around a move; late and lost requests are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.test_analysis_values import (
    RTT,
    START,
    plan_with,
    reason_of,
    record_of,
    replies,
    sent,
    values_of,
)

from virtlab.analysis.moves import Gaps, around, blackout
from virtlab.plan import Event, Plan

MS = 1_000_000
CLIENTS = {
    "blackout.max", "blackout_late.count", "blackout_lost.count", "downtime.max", "copy_blackout.max",
    "pause_blackout.max", "reconvergence.max",
}  # fmt: skip


def moving(role: dict[str, Any]) -> Plan:
    """The role's far end moves, and that is the action whose marks the record has."""
    values = plan_with(role).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["timeline"] = [{"id": "go", "do": "migrate", "guest": "b", "to": "h2", "timeout_ns": 10**9}]
    return Plan.parse(json.dumps({**values, "schema": "virtlab.plan/1"}))


def record(
    folder: Path,
    answered: dict[int, int],
    count: int,
    *,
    begin: int,
    end: int,
    plan: Plan | None = None,
    resumed: int | None = None,
) -> Any:
    """Requests every 10 ms; those that were answered with how long it took, ms. The move lasts from begin to end,
    ms.
    """
    blocks = {
        ("r", "sent/1"): sent(list(range(count))),
        ("r", "rtt/1"): replies(list(answered), [wait * MS for wait in answered.values()]),
    }
    own = (START + begin * MS, START + end * MS)
    events = [] if resumed is None else [Event(START + resumed * MS, "go.resumed", {"guest": "b"})]
    return record_of(folder, plan or moving(RTT), blocks, own=own, events=events)


@pytest.mark.slow
def test_the_gap_around_the_move_counts_from_reply_to_reply(tmp_path: Path) -> None:
    # Request 4 waited for the end of the pause, 5 and 6 were lost, a longer gap long after the move is none of it.
    answered = {0: 1, 1: 1, 2: 1, 3: 1, 4: 50, 7: 25, 8: 15, 9: 5, 10: 1, 11: 1, 40: 1}
    found = values_of(record(tmp_path, answered, 41, begin=15, end=80))
    assert found["blackout.max"] == (40 + 50 - 31) * MS
    assert found["blackout_late.count"] == 3  # 4, 7, 8
    assert found["blackout_lost.count"] == 2
    assert found["downtime.max"] == 50 * MS


@pytest.mark.slow
def test_a_blackout_is_that_of_the_copy_or_that_of_the_pause(tmp_path: Path) -> None:
    # Preparing the copy held the guest up from 21 to 65 ms; it was paused from 83 to 101, and answered from 104 on.
    answered = {0: 1, 1: 1, 2: 1, 3: 35, 4: 26, 5: 17, 6: 8, 7: 1, 8: 1, 9: 14, 10: 5, 11: 1, 12: 1}
    kept = record(tmp_path, answered, 13, begin=25, end=101, resumed=101)
    found = values_of(kept)
    assert found["copy_blackout.max"] == found["blackout.max"] == (65 - 21) * MS
    assert found["pause_blackout.max"] == (104 - 81) * MS
    assert found["reconvergence.max"] == (104 - 101) * MS


@pytest.mark.slow
def test_a_guest_that_stayed_has_a_blackout_of_the_copy_alone(tmp_path: Path) -> None:
    kept = record(tmp_path, {0: 1, 1: 1, 2: 15, 3: 8, 4: 1, 5: 1, 6: 1}, 7, begin=15, end=45)
    found = values_of(kept)
    assert found["copy_blackout.max"] == found["blackout.max"] == (35 - 11) * MS
    assert {found["pause_blackout.max"], found["reconvergence.max"]} == {None}
    assert "never ran at its destination" in reason_of(kept, "r.reconvergence.max")


def test_of_two_gaps_that_meet_as_the_guest_resumes_the_later_one_is_that_of_the_pause() -> None:
    replies = np.array([0, 10, 40, 50, 80])
    assert around(replies, 5, 40, 40) == Gaps((10, 40), (40, 50), (10, 40), 40)
    assert around(np.array([0, 50]), 5, 40, 40) == Gaps((0, 50), (0, 50), None, 40)


def test_requests_of_a_guest_that_stays_have_no_blackout(tmp_path: Path) -> None:
    kept = record(tmp_path, {0: 1, 1: 1, 2: 1}, 3, begin=5, end=15, plan=plan_with(RTT))
    assert not CLIENTS & set(values_of(kept))


@pytest.mark.slow
def test_without_a_reply_after_the_move_there_is_no_number(tmp_path: Path) -> None:
    kept = record(tmp_path, {0: 1, 1: 1}, 9, begin=15, end=50)
    found = values_of(kept)
    assert {found[name] for name in CLIENTS} == {None}
    assert "no reply came after the move" in reason_of(kept, "r.blackout.max")


@pytest.mark.slow
def test_without_a_reply_before_the_move_that_is_the_reason(tmp_path: Path) -> None:
    kept = record(tmp_path, {3: 1, 4: 1, 5: 1}, 9, begin=15, end=40)
    assert {values_of(kept)[name] for name in CLIENTS} == {None}
    assert "no reply came before the move" in reason_of(kept, "r.blackout.max")


def test_requests_that_failed_are_lost(tmp_path: Path) -> None:
    due = START + 10 * MS * np.arange(6, dtype=np.int64)
    wait = np.array([1, 1, 30, 20, 1, 1]) * MS
    rows = {
        "intended_ns": due, "sent_ns": due, "finished_ns": due + wait, "entry": np.zeros(6, np.int32),
        "served_by": np.zeros(6, np.int32), "error": np.array([0, 0, 3, 0, 0, 0], np.int32),
    }  # fmt: skip
    role = {
        "workload": "request_response", "duration_ns": 10**9, "timeout_ns": 10**9, "connections": 1, "threads": 1,
        "request_bytes": 64, "response_bytes": 64, "demand_ns": MS,
    }  # fmt: skip
    window = (START + 15 * MS, START + 45 * MS)
    kept = record_of(tmp_path, moving(role), {("r", "response/1"): rows}, own=window)
    found = values_of(kept)
    assert found["blackout.max"] == 30 * MS  # from 11 to 41
    assert (found["blackout_lost.count"], found["blackout_late.count"]) == (1, 2)


@pytest.mark.parametrize(
    ("begin", "end", "gap"),
    [(0, 5, (0, 10)), (11, 12, (10, 40)), (41, 41, (41, 50)), (50, 90, (50, 90)), (95, 99, None)],
)
def test_a_gap_counts_that_overlaps_the_move(begin: int, end: int, gap: tuple[int, int] | None) -> None:
    assert blackout(np.array([90, 0, 10, 40, 41, 50]), begin, end) == gap


@pytest.mark.slow
def test_a_workload_with_rows_of_answers_alone_tells_no_lost_requests(tmp_path: Path) -> None:
    due = START + 10 * MS * np.arange(6, dtype=np.int64)
    rows = {"flow": np.zeros(6, np.int32), "started_ns": due, "finished_ns": due + MS}
    role = {"workload": "tcp_rr", "duration_ns": 10**9, "request_bytes": 64, "response_bytes": 64}
    window = (START + 15 * MS, START + 45 * MS)
    kept = record_of(tmp_path, moving(role), {("r", "transaction/1"): rows}, own=window)
    assert values_of(kept)["blackout.max"] == 10 * MS
    assert values_of(kept)["blackout_lost.count"] is None
    assert "no rows of requests without an answer" in reason_of(kept, "r.blackout_lost.count")
