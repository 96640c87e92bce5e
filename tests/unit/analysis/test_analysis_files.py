"""`files` to values: what is done has a time, what failed is counted by how, and what is there in the end is
compared.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from virtlab.analysis.values import Collector
from virtlab.analysis.workloads import files, objects
from virtlab.catalogue.workloads.objects import ENDINGS, FAILURES, OPERATIONS

COUNTERS = {
    "operations": 6, "without_object": 2, "objects": 4, "lost_objects": 1, "stale_objects": 2, "doubtful_objects": 3,
}  # fmt: skip


class Operations:
    """What the file of a workload is given, with rows (operation, outcome, due, done) that a test made up."""

    def __init__(
        self, rows: list[tuple[str, str, int, int]], counters: dict[str, int], **shares: float
    ) -> None:
        self._rows: dict[str, Any] = {
            "operation": np.array([OPERATIONS.index(row[0]) for row in rows]),
            "outcome": np.array([ENDINGS.index(row[1]) for row in rows]),
            "intended_ns": np.array([row[2] for row in rows]),
            "finished_ns": np.array([row[3] for row in rows]),
            "object_bytes": np.full(len(rows), 100),
            "retries": np.zeros(len(rows), dtype=np.int64),
            "sent_ns": np.array([row[2] + 10 for row in rows]),
            "thread": np.array([number % 2 for number in range(len(rows))]),
            "first_byte_ns": np.array([row[2] + 30 if row[0] == "read" else -1 for row in rows]),
        }
        self.counters = counters
        self.name = "r"
        self.role = SimpleNamespace(parameters={"operations": shares})
        self.out = Collector("p", 0, {}, 0, "none", "r")
        self.rate: int | None = None
        self.asked: dict[str, Any] = {}
        self.record: Any = None

    def parameter(self, name: str) -> Any:
        return {"rate_per_s": self.rate, **self.asked}[name]

    def samples(self, _: str, __: str) -> dict[str, Any]:
        return self._rows


ROWS = [
    ("read", "done", 0, 100), ("read", "done", 100, 400), ("read", "wrong", 400, 500), ("create", "done", 500, 1000),
    ("create", "failed", 600, 700), ("delete", "missing", 700, 800),
]  # fmt: skip


def values(operations: Operations) -> dict[tuple[str, str, str], float | None]:
    files.values(operations)  # type: ignore[arg-type]
    return {(value.role, value.metric, value.statistic): value.value for value in operations.out.values}


def test_only_what_is_done_has_a_time_and_the_rest_is_counted_by_how_it_ended() -> None:
    found = values(Operations(ROWS, COUNTERS, read=1, create=1, delete=1))
    assert found["r", "operation_time", "mean"] == 300
    assert found["r.read", "operation_time", "max"] == 300
    assert found["r.create", "failed_operations", "ratio"] == 0.5
    assert found["r", "operation_rate", "mean"] == 3e6
    assert found["r", "content_rate", "mean"] == 3e8
    counted = {ending: found["r", f"{ending}_operations", "count"] for ending in files.FAILURES}
    assert counted == {"missing": 1, "wrong": 1, "skipped": 0, "failed": 1}
    assert not any(metric in {"timed_out_operations", "operation_retries"} for _, metric, _ in found)


def test_of_operations_at_a_rate_it_is_told_how_many_of_those_due_were_done() -> None:
    """Six were due, one each 140 ns; three were done within 1,000 ns."""
    operations = Operations(ROWS, COUNTERS, read=1)
    assert values(operations)["r", "achieved_share", "ratio"] is None, "each follows the one before"
    operations.rate = 7_000_000
    found = values(operations)
    assert found["r", "request_rate", "mean"] == pytest.approx(5 / 700 * 1e9)
    assert found["r", "achieved_share", "ratio"] == pytest.approx(3e6 / (5 / 700 * 1e9))


def test_where_nothing_that_was_due_was_done_the_rate_is_zero_and_where_nothing_was_due_it_is_missing() -> (
    None
):
    operations = Operations([("read", "failed", 0, 100), ("read", "missing", 50, 200)], COUNTERS, read=1)
    operations.rate = 2
    found = values(operations)
    assert (found["r", "operation_rate", "mean"], found["r", "content_rate", "mean"]) == (0, 0)
    assert found["r", "achieved_share", "ratio"] == 0
    assert found["r", "operation_time", "mean"] is None
    assert values(Operations([], COUNTERS, read=1))["r", "operation_rate", "mean"] is None


def test_what_is_there_in_the_end_is_told_by_who_has_the_objects_then() -> None:
    counters = {name: value for name, value in COUNTERS.items() if not name.endswith("objects")}
    found = values(Operations(ROWS, {**counters, "objects_elsewhere": 1}, read=1))
    assert found["r", "operation_rate", "mean"] == 3e6
    for metric in ("lost_objects", "stale_objects", "doubtful_objects"):
        assert found["r", metric, "count"] is None
    assert found["r", "without_object", "total"] is not None


def test_when_threads_began_and_ended_and_when_first_octets_came() -> None:
    operations = Operations(ROWS, COUNTERS, read=1)
    found = values(operations)
    # Thread 0 has the operations due at 0, 400 and 600, thread 1 those at 100, 500 and 700.
    assert found["r", "start_spread", "total"] == 100
    assert (found["r", "first_done", "total"], found["r", "last_done", "total"]) == (700, 1000)
    assert found["r", "first_byte_time", "mean"] == 30
    assert found["r", "warm_up", "ratio"] is None, "too few to say"
    operations._rows["thread"] = np.full(len(ROWS), -1)
    assert values(operations)["r", "first_done", "total"] is None


def test_a_dataset_of_before_has_no_threads_and_no_first_octets() -> None:
    operations = Operations(ROWS, COUNTERS, read=1)
    for name in ("thread", "first_byte_ns"):
        operations._rows[name] = np.ma.array(np.zeros(len(ROWS), dtype=np.int64), mask=True)
    found = values(operations)
    assert found["r", "start_spread", "total"] is None
    assert found["r", "first_byte_time", "mean"] is None
    assert found["r", "operation_rate", "mean"] == 3e6


def test_times_that_drift_at_the_start_are_told() -> None:
    slow = [("read", "done", at, at + 5000 + at % 7) for at in range(0, 10_000, 100)]
    rest = [("read", "done", at, at + 100 + at % 7) for at in range(10_000, 60_000, 100)]
    drift = values(Operations(slow + rest, COUNTERS, read=1))["r", "warm_up", "ratio"]
    assert drift is not None
    assert 100 / 600 <= drift < 120 / 600


def test_what_is_there_in_the_end_is_a_share_of_what_ought_to_be() -> None:
    found = values(Operations(ROWS, COUNTERS, read=1))
    assert (found["r", "lost_objects", "ratio"], found["r", "stale_objects", "count"]) == (0.25, 2)
    assert (found["r", "doubtful_objects", "count"], found["r", "without_object", "total"]) == (3, 2)
    assert values(Operations(ROWS, {}, read=1))["r", "lost_objects", "count"] is None


def test_failures_of_a_file_system_are_of_two_classes() -> None:
    classes = {"server_error_operations": 1, "broken_operations": 2}
    found = values(Operations(ROWS, COUNTERS | classes, read=1))
    assert {metric: found["r", metric, "count"] for metric in classes} == classes
    older = values(Operations(ROWS, COUNTERS, read=1))
    assert older["r", "broken_operations", "count"] is None


def test_objects_that_were_not_read_in_the_end_are_no_objects_that_are_there() -> None:
    none_lost = COUNTERS | {"objects": 10, "unread_objects": 4, "lost_objects": 0, "stale_objects": 3}
    found = values(Operations(ROWS, none_lost, read=1))
    assert found["r", "unread_objects", "count"] == 4
    assert (found["r", "lost_objects", "count"], found["r", "lost_objects", "ratio"]) == (None, None)
    assert (found["r", "stale_objects", "count"], found["r", "stale_objects", "ratio"]) == (3, 0.5)
    older = values(Operations(ROWS, COUNTERS, read=1))
    assert older["r", "unread_objects", "count"] == 0


def test_files_on_a_store_have_copies_and_a_recovery() -> None:
    told = {"object_copies": 6, "missing_copies": 2, "recovery_missing": 4, "recovery_made": 3, "recovery_bytes": 30,
            "recovery_known_ns": 5, "recovery_first_ns": 7}  # fmt: skip
    found = values(Operations(ROWS, COUNTERS | told, read=1))
    assert (found["r", "missing_copies", "ratio"], found["r", "missing_copies", "count"]) == (0.25, 2)
    assert (found["r", "recovered_ratio", "ratio"], found["r", "recovery_first", "total"]) == (0.75, 7)
    assert found["r", "recovery_whole", "total"] is None
    assert not any(metric == "missing_copies" for _, metric, _ in values(Operations(ROWS, COUNTERS, read=1)))


def of_objects(counters: dict[str, int]) -> dict[tuple[str, str], float | None]:
    operations = Operations(ROWS, counters, read=1)
    objects.values(operations)  # type: ignore[arg-type]
    return {(value.metric, value.statistic): value.value for value in operations.out.values}


def test_messages_are_missing_where_a_node_was_lost_that_had_counted_some() -> None:
    lost = dict.fromkeys(("recovery_missing", "recovery_made", "recovery_bytes"), 0)
    operations = Operations(ROWS, COUNTERS | lost, read=1)
    objects.values(operations)  # type: ignore[arg-type]
    reasons = {each.reason for each in operations.out.values if each.metric == "store_messages"}
    assert reasons == {objects.LOST}


@pytest.mark.parametrize(
    ("guests", "ratio"),
    [
        ([(1, 1000), (1, 3000)], 2 * 100 / 4000),
        ([(1, None), (1, None)], 2 * 100 / 500),
        ([(1, 1000), (1, None)], 2 * 100 / 1500),
        ([(1, None), (None, None)], None),
    ],
)
def test_objects_with_their_copies_are_compared_with_the_memory_of_their_nodes(
    guests: list[tuple[int | None, int | None]], ratio: float | None
) -> None:
    """A node has memory of its own, or what the machine has free; one without a disk reads from no page cache."""
    operations = Operations(ROWS, COUNTERS | {"objects_bytes": 100, "memory_bytes": 500}, read=1)
    nodes = {
        f"n{place}": SimpleNamespace(disk=disk, memory_bytes=memory)
        for place, (disk, memory) in enumerate(guests)
    }
    service = SimpleNamespace(kind="store", parameters={"copies": 2}, on=tuple(nodes))
    world = SimpleNamespace(services={"depot": service}, guests=nodes)
    operations.record = SimpleNamespace(plan=SimpleNamespace(world=world))
    operations.asked["service"] = "depot"
    objects.values(operations)  # type: ignore[arg-type]
    (found,) = [each.value for each in operations.out.values if each.metric == "working_set"]
    assert found == (None if ratio is None else pytest.approx(ratio))


def test_failures_are_counted_by_class_where_a_store_says_why() -> None:
    told = dict.fromkeys(FAILURES, 0) | {
        "no_bucket_operations": 3,
        "client_usable_ns": 9,
        "client_worked_ns": 3,
    }
    found = of_objects(COUNTERS | told)
    assert (found["no_bucket_operations", "count"], found["no_bucket_operations", "ratio"]) == (3, 0.5)
    assert (found["denied_operations", "count"], found["broken_operations", "ratio"]) == (0, 0)
    assert all(of_objects(COUNTERS)[metric, "count"] is None for metric in FAILURES), "missing is not zero"
