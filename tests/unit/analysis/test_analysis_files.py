"""`files` to values: what is done has a time, what failed is counted by how, and what is there in the end is
compared.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

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
        }
        self.counters = counters
        self.name = "r"
        self.role = SimpleNamespace(parameters={"operations": shares})
        self.out = Collector("p", 0, {}, 0, "none", "r")

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


def test_what_is_there_in_the_end_is_a_share_of_what_ought_to_be() -> None:
    found = values(Operations(ROWS, COUNTERS, read=1))
    assert (found["r", "lost_objects", "ratio"], found["r", "stale_objects", "count"]) == (0.25, 2)
    assert (found["r", "doubtful_objects", "count"], found["r", "without_object", "total"]) == (3, 2)
    assert values(Operations(ROWS, {}, read=1))["r", "lost_objects", "count"] is None


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
