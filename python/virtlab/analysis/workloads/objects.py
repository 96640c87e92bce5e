"""`objects`: times and rates of operations that were done and verified, all and by operation, and what came of the
rest.

Operations count in the window in which they were due. One that failed has no time: it is counted by what went wrong.
What the store said to find nodes, and what it holds in the end, are of the role's whole time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.values import Collector
from virtlab.analysis.workloads import health
from virtlab.catalogue.workloads.objects import CARRYING, ENDINGS, OPERATIONS, parts
from virtlab.catalogue.workloads.objects import FAILURES as CLASSES
from virtlab.lazy import NDArray, np

FAILURES = ("timed_out", "missing", "wrong", "skipped", "failed")  # of the endings of `operation/1`
NONE_DUE = "no operation was due in the window, or none had an object"
NONE_DONE = "no operation of the window was done"
THERE = "objects"  # the counter of those that are there in the end
CLIENT_NOT_TOLD = "clients of the simulator take no processor time"
NOT_TOLD = "a store that is not virtlab's own does not tell it"
NOT_SAID = "only a store that is asked over HTTP says why an operation failed"
NOT_LISTED = "a node of the store was away when the run ended, and did not say what it holds"
NO_OBJECT = "no object that can be looked for is there in the end"
NOT_REACHED = "it was not reached before the run ended"
RECOVERY = {
    "recovery_detection": "recovery_known_ns", "recovery_first": "recovery_first_ns",
    "recovery_half": "recovery_half_ns", "recovery_most": "recovery_most_ns", "recovery_whole": "recovery_whole_ns",
}  # fmt: skip
PER_OPERATION = {
    "lookup_messages": "lookup_messages", "lookup_bytes": "lookup_bytes", "store_messages": "messages",
    "store_bytes": "message_bytes",
}  # fmt: skip


def values(context: RoleContext) -> None:
    """All operations, each kind of several by itself as ROLE.OPERATION, and counters of the role."""
    by_operation(context, FAILURES)
    _by_class(context)
    _counted(context)


def by_operation(context: RoleContext, failures: Sequence[str]) -> None:
    """Of all operations, and of each kind of several by itself as ROLE.OPERATION; `failures` are endings that count."""
    out, role = context.out, context.name
    rows = context.samples("operation/1", "intended_ns")
    of_rows(out, rows, failures)
    try:
        for name in parts(context.role.parameters):
            out.role = f"{role}.{name}"
            mine = rows["operation"] == OPERATIONS.index(name)
            of_rows(out, {key: column[mine] for key, column in rows.items()}, failures)
    finally:
        out.role = role


def of_rows(out: Collector, rows: Mapping[str, NDArray[Any]], failures: Sequence[str]) -> None:
    """What the rows of operations alone say."""
    due, ended, count = rows["intended_ns"], rows["outcome"], int(rows["outcome"].size)
    done = ended == ENDINGS.index("done")
    finished = rows["finished_ns"][done]
    if finished.size:
        out.distribution("operation_time", finished - due[done])
    else:
        out.absent("operation_time", NONE_DONE if count else NONE_DUE)
    took_ns = float(finished.max() - due.min()) if finished.size else 0.0
    rate = finished.size / took_ns * 1e9 if took_ns > 0 else None
    out.add("operation_rate", "mean", rate, int(finished.size), NONE_DONE if count else NONE_DUE)
    carried = np.isin(rows["operation"][done], [OPERATIONS.index(name) for name in CARRYING])
    moved = float(rows["object_bytes"][done][carried].sum())
    carrying = moved / took_ns * 1e9 if took_ns > 0 else None
    out.add("content_rate", "mean", carrying, int(carried.sum()), NONE_DONE if count else NONE_DUE)
    for ending in failures:
        number = int((ended == ENDINGS.index(ending)).sum())
        _share(out, f"{ending}_operations", number, count)
    if "timed_out" in failures:
        _share(out, "operation_retries", int(rows["retries"].sum()), count)


def _share(out: Collector, metric: str, number: int, count: int) -> None:
    out.add(metric, "ratio", number / count if count else None, count, NONE_DUE)
    out.add(metric, "count", number if count else None, count, NONE_DUE)


def _by_class(context: RoleContext) -> None:
    """Why operations failed."""
    out, counters = context.out, context.counters
    for metric in CLASSES:
        if metric in counters:
            _share(out, metric, counters[metric], counters["operations"])
        else:
            out.absent(metric, NOT_SAID)


def _counted(context: RoleContext) -> None:
    out, counters = context.out, context.counters
    if "operations" not in counters or THERE not in counters:
        for metric in (*PER_OPERATION, "without_object", "object_copies", "doubtful_objects", "client_cpu"):
            out.absent(metric, health.NOT_COUNTED)
        for metric in ("missing_copies", "lost_objects", "stale_objects"):
            out.absent(metric, health.NOT_COUNTED)
        return
    operations, objects = counters["operations"], counters[THERE]
    client(out, counters)
    out.add("without_object", "total", counters["without_object"], operations)
    ratios = [(metric, counters[metric], objects) for metric in ("lost_objects", "stale_objects")]
    if "messages" in counters:
        for metric, name in PER_OPERATION.items():
            number = counters[name]
            out.add(metric, "mean", number / operations if operations else None, operations, NONE_DUE)
            out.add(metric, "total", number, operations)
    else:
        for metric in PER_OPERATION:
            out.absent(metric, NOT_TOLD)
    if "object_copies" in counters:
        copies, missing = counters["object_copies"], counters["missing_copies"]
        out.add("object_copies", "mean", copies / objects if objects else None, objects, NO_OBJECT)
        out.add("object_copies", "total", copies, objects)
        ratios.append(("missing_copies", missing, copies + missing))
    else:
        for metric in ("object_copies", "missing_copies"):
            out.absent(metric, NOT_LISTED)
    for metric, number, of in ratios:
        out.add(metric, "ratio", number / of if of else None, of, NO_OBJECT)
        out.add(metric, "count", number, of)
    out.add("doubtful_objects", "count", counters["doubtful_objects"], objects)
    recovered(out, counters)


def client(out: Collector, counters: Mapping[str, int]) -> None:
    """What the operations took of the processors of their guest."""
    usable_ns = counters.get("client_usable_ns", 0)
    if usable_ns > 0:
        out.add("client_cpu", "ratio", counters["client_worked_ns"] / usable_ns, counters["operations"])
    else:
        out.absent("client_cpu", CLIENT_NOT_TOLD)


def recovered(out: Collector, counters: Mapping[str, int]) -> None:
    """Of the store, whichever role asks it; nothing where no node was lost."""
    if (missing := counters.get("recovery_missing")) is None:
        return
    made, whole_ns = counters["recovery_made"], counters.get("recovery_whole_ns")
    known_ns = counters.get("recovery_known_ns")
    over = whole_ns is not None
    share = 1.0 if over else made / missing if missing else 0.0
    out.add("recovered_ratio", "ratio", share, missing)
    out.add("recovery_missing", "count", missing, missing)
    for metric, name in RECOVERY.items():
        out.add(metric, "total", counters.get(name), made, NOT_REACHED)
    took_ns = whole_ns - known_ns if whole_ns is not None and known_ns is not None else 0
    rate = counters["recovery_bytes"] / took_ns * 1e9 if took_ns > 0 else None
    out.add("recovery_rate", "mean", rate, made, NOT_REACHED)
