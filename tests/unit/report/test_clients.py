"""A report says where a client's processors, or its page cache, may be what was measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from virtlab.analysis.table import RunTable
from virtlab.analysis.values import RunValue
from virtlab.report.gather.clients import client_notes
from virtlab.results import RunRecord


def table(metric: str, *values: float | None) -> RunTable:
    rows = [
        RunValue(f"run-{number}", 0, {}, number, "", "load", metric, "ratio", value, "ratio")
        for number, value in enumerate(values)
    ]
    return RunTable(tuple(rows))


def records(**parameters: Any) -> list[RunRecord]:
    role = SimpleNamespace(parameters={"operations": {"read": 1.0}, **parameters})
    plan = SimpleNamespace(roles={"load": role})
    return [cast(RunRecord, SimpleNamespace(name=f"run-{number}", plan=plan)) for number in range(3)]


def test_a_client_that_took_more_than_four_fifths_is_told_and_another_is_not() -> None:
    (note,) = client_notes(table("client_cpu", 0.79, 0.91, None), records())
    assert note == (
        "The client of load took more than 80% of the processor time that its threads could have, in 1 of 2 runs (at most "
        "91%). It may limit the rates of load, instead of what it asks."
    )
    assert client_notes(table("client_cpu", 0.8, 0.1), records()) == []


def test_objects_that_were_not_read_in_the_end_are_told_with_the_cure() -> None:
    (note,) = client_notes(table("unread_objects", 0, 1200, 40), records())
    assert note == (
        "Of load up to 1,200 objects were not read once more in the end, in 2 of 3 runs, as the time for that was over. "
        "Whether any of them is lost is not known; a role of 'operations: read' with 'order: once' reads all of them."
    )
    assert client_notes(table("unread_objects", 0, 0), records()) == []


def test_files_that_fit_into_memory_are_told_where_they_are_read_through_the_page_cache() -> None:
    (note,) = client_notes(table("working_set", 0.002, 0.004, 1.5), records())
    assert note.startswith("The files of load are less than 1% of the memory that their guest has free.")
    assert client_notes(table("working_set", 1.0, 3.0), records()) == []


def test_objects_whose_copies_fit_into_the_memory_of_their_nodes_are_told() -> None:
    (note,) = client_notes(table("working_set", 0.3, 0.4, 1.5), records(service="depot"))
    assert note.startswith(
        "The objects of load with their copies are at most 40% of the memory of their nodes."
    )
    assert client_notes(table("working_set", 1.5), records(service="depot")) == []


@pytest.mark.parametrize("parameters", [{"direct": True}, {"cache": "drop"}, {"operations": {"create": 1.0}}])
def test_files_that_are_not_read_from_the_page_cache_are_not_told(parameters: dict[str, Any]) -> None:
    assert client_notes(table("working_set", 0.002), records(**parameters)) == []
