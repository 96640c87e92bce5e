"""`files` in real guests: every operation counts that the file system did as it should, and nothing of it stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import container_world as containers
import pytest
import testbed_world as worlds
from test_stores import counted, ended, played

from virtlab.catalogue.workloads.objects import ENDINGS, OPERATIONS
from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

DISK = "{disk: {size: 16 MiB}}"
FILL = "  fill: {workload: files, from: h1.g1, folder: same, operations: create, count: 60, threads: 4}"
FULL = "/var/tmp: No space left on device (ENOSPC); give it more room, or ask for fewer or smaller files"
THEN = """
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}"""


def planned(roles: str, guest: str = DISK, timeline: str = THEN, host: str = "") -> Plan:
    text = f"version: 1\nname: files\nhosts: {{h1: {{{host}guests: {{g1: {guest}}}}}}}\nroles:\n{roles}\n"
    experiment = load_text(f"{text}timeline:{timeline}\n")
    return plan_run(experiment, experiment.points()[0], 0)


def of_rows(kinds: dict[tuple[str, str], int], ending: str) -> int:
    return sum(number for (_, found), number in kinds.items() if found == ending)


def left_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_a_role_fills_a_disk_and_another_works_on_its_files() -> None:
    load = (
        "  load: {workload: files, from: h1.g1, folder: same, threads: 4, count: 400, size: {3 kB: 1, 40 kB: 1},"
        " operations: {create: 1, read: 4, overwrite: 2, delete: 1, stat: 1, open: 1, list: 1}}"
    )
    outcome, sink = played(planned(f"{FILL}\n{load}"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "fill") == {("create", "done"): 60}
    did = ended(sink, "load")
    assert of_rows(did, "done") == 400
    own = counted(sink, "load")
    there = 60 + did["create", "done"] - did["delete", "done"]
    assert (own["objects"], own["lost_objects"], own["stale_objects"], own["left_files"]) == (there, 0, 0, 0)
    assert own["failed_operations"] == own["wrong_operations"] == own["doubtful_objects"] == 0
    assert 0 < own["client_worked_ns"] <= own["client_usable_ns"]
    assert "memory_bytes" not in own, "the disk of a namespace is in memory alone"


def test_a_sequential_order_is_that_of_creation_and_each_thread_begins_with_a_share() -> None:
    fill = FILL.replace("threads: 4", "size: [1 kB, 2 kB, 3 kB, 4 kB, 5 kB, 6 kB]")
    load = (
        "  load: {workload: files, from: h1.g1, folder: same, order: sequential, operations: OPERATION,"
        " count: COUNT, threads: THREADS}"
    )

    def first_of(took: dict[str, Any]) -> tuple[int, int]:
        place = list(took["sent_ns"]).index(min(took["sent_ns"]))
        return took["thread"][place], took["object_bytes"][place]

    def rows(operation: str, count: int, threads: int) -> tuple[list[int], list[int], tuple[int, int]]:
        role = load.replace("OPERATION", operation).replace("COUNT", str(count))
        role = role.replace("THREADS", str(threads))
        outcome, sink = played(planned(f"{fill}\n{role}"))
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert counted(sink, "load")["done_operations"] == count
        made, took = (sink.columns(name, "operation/1") for name in ("fill", "load"))
        return list(made["object_bytes"]), list(took["object_bytes"]), first_of(took)

    made, read, _ = rows("read", 90, 1)
    assert read == [*made, *made[:30]], "after the last comes the first"
    made, deleted, (thread, size) = rows("delete", 60, 4)
    assert sorted(deleted) == sorted(made), "each thread continues where others have left something"
    assert size == made[15 * thread]


def test_an_audit_takes_each_file_once_and_then_ends() -> None:
    fill = FILL.replace("count: 60", "count: 59, size: [1 kB, 2 kB, 3 kB, 4 kB, 5 kB, 6 kB]")
    audit = "  load: {workload: files, from: h1.g1, folder: same, operations: read, order: once, threads: 4}"
    outcome, sink = played(planned(f"{fill}\n{audit}"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    made, took = (sorted(sink.columns(name, "operation/1")["object_bytes"]) for name in ("fill", "load"))
    assert took == made
    own = counted(sink, "load")
    assert (own["done_operations"], own["without_object"]) == (59, 0)


def test_an_audit_whose_duration_is_too_short_fails_its_run() -> None:
    fill = FILL.replace("count: 60", "count: 20000, size: 10 B")
    audit = (
        "  load: {workload: files, from: h1.g1, folder: same, operations: read, order: once, duration: 2 ms}"
    )
    outcome, _ = played(planned(f"{fill}\n{audit}", "{disk: {size: 256 MiB}}"))
    assert outcome.status == "failed", outcome.status
    assert "within its duration it did not come to" in str(outcome.reasons), outcome.reasons


def test_operations_at_a_rate_are_due_whatever_has_ended() -> None:
    load = (
        "  load: {workload: files, from: h1.g1, folder: same, threads: 2, rate: 500 request/s, duration: 400 ms,"
        " arrivals: poisson, sync: fsync, operations: {read: 1, overwrite: 1}}"
    )
    outcome, sink = played(planned(f"{FILL}\n{load}"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    rows: list[Any] = [
        columns for role, kind, columns in sink.blocks if (role, kind) == ("load", "operation/1")
    ]
    intended = [at for columns in rows for at in columns["intended_ns"]]
    sent = [at for columns in rows for at in columns["sent_ns"]]
    assert 100 < len(intended) < 400
    assert all(due <= begun for due, begun in zip(intended, sent, strict=True))
    for columns in rows:
        assert set(columns["thread"]) <= {-1, 0, 1}
        is_read = columns["operation"] == OPERATIONS.index("read")
        done = columns["outcome"] == ENDINGS.index("done")
        first = columns["first_byte_ns"]
        assert (first[~is_read] == -1).all()
        known = is_read & done
        assert (columns["sent_ns"][known] <= first[known]).all()
        assert (first[known] <= columns["finished_ns"][known]).all()


@pytest.mark.parametrize("budget", ["", ", error_budget: 100 %", ", error_budget: 1 %"])
def test_a_role_with_more_errors_than_its_budget_fails_its_run(budget: str) -> None:
    """Half of the files are taken away, and each is read twice or so."""
    load = f"  load: {{workload: files, from: h1.g1, folder: same, count: 120, operations: read{budget}}}"
    take = "ls -d /var/tmp/virtlab-files-*/* | head -n 30 | xargs rm"
    then = f"""
  - {{id: fill, do: run, role: fill}}
  - {{id: take, do: exec, guest: h1.g1, argv: [sh, -c, "{take}"], after: fill.finished}}
  - {{id: load, do: run, role: load, after: take.finished}}"""
    outcome, sink = played(planned(f"{FILL}\n{load}", timeline=then))
    did = ended(sink, "load")
    assert of_rows(did, "done") + of_rows(did, "missing") == 120
    why = f"{did['read', 'missing']} of 120 operations were not done, and the error budget is 1 % of them"
    failed = [reason for reason in outcome.reasons if why in reason]
    assert bool(failed) == ("error_budget: 1 %" in budget), outcome.reasons
    assert (outcome.status == "failed") == bool(failed), outcome.reasons


def test_a_full_disk_ends_the_role_with_one_line() -> None:
    many = "  fill: {workload: files, from: h1.g1, operations: create, count: 60, size: 1 MB}"
    outcome, _ = played(planned(many, timeline="\n  - {id: fill, do: run, role: fill}"))
    assert outcome.status == "failed"
    assert any(FULL in reason for reason in outcome.reasons), outcome.reasons


def test_a_directory_that_is_not_there_is_told_with_a_cure() -> None:
    none = FILL.replace("folder: same", "directory: /var/tmp/none")
    with pytest.raises(GuestError, match="there is no /var/tmp/none in this guest; mount it before"):
        played(planned(none, timeline="\n  - {id: fill, do: run, role: fill}"))


def test_files_in_memory_alone_do_not_leave_the_page_cache() -> None:
    with pytest.raises(GuestError, match="are in memory alone, and cannot leave it; remove 'cache: drop'"):
        played(
            planned(
                FILL.replace("threads: 4", "cache: drop"), timeline="\n  - {id: fill, do: run, role: fill}"
            )
        )


def test_a_directory_of_the_machine_is_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    fill = FILL.replace("folder: same", f"directory: {there.resolve()}")
    outcome, sink = played(planned(fill, guest="{}", timeline="\n  - {id: fill, do: run, role: fill}"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "fill") == {("create", "done"): 60}
    own = counted(sink, "fill")
    assert own["objects"] == 60
    assert "memory_bytes" not in own or own["files_bytes"] == 600_000
    assert left_in(there) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="containers of root")
@pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
def test_a_container_has_files_of_its_own() -> None:
    fill = f"{FILL}\n  load: {{workload: files, from: h1.g1, folder: same, operations: read, count: 100}}"
    outcome, sink = played(planned(fill, host="platform: container, "))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "load") == {("read", "done"): 100}
    assert counted(sink, "load")["objects"] == 60
