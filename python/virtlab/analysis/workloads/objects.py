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
from virtlab.catalogue import SERVICES
from virtlab.catalogue.workloads.objects import CARRYING, COURSE, ENDINGS, OPERATIONS, parts
from virtlab.catalogue.workloads.objects import FAILURES as CLASSES
from virtlab.lazy import NDArray, np
from virtlab.stats.warmup import mser5

FAILURES = ("timed_out", "missing", "wrong", "skipped", "failed")  # of the endings of `operation/1`
NONE_DUE = "no operation was due in the window, or none had an object"
NONE_DONE = "no operation of the window was done"
IN_TURNS = "each operation begins when the one before has ended"
NO_THREADS = "operations at a rate take no thread"
NO_FIRST_BYTE = "no read of the window was done of which it is known when its first octets came"
OLDER = "the virtlab that ran it did not tell it"
THERE = "objects"  # the counter of those that are there in the end
ELSEWHERE = "objects_elsewhere"  # the counter of a role whose objects another guest had in the end
NOT_HERE = "a role in another guest had the objects in the end, and tells what is there"
CLIENT_NOT_TOLD = "clients of the simulator take no processor time"
NOT_TOLD = "a store that is not virtlab's own does not tell it"
LOST = "a node that was lost has taken with it what it had counted"
NOT_SAID = "only a store that is asked over HTTP says why an operation failed"
NOT_LISTED = "a node of the store was away when the run ended, and did not say what it holds"
NO_OBJECT = "no object that can be looked for is there in the end"
NO_PAGE_CACHE = (
    "its nodes keep objects in memory alone, or are simulated, and simulated nodes have no page cache"
)
UNREAD = "objects were left to read once more in the end when the time for it was over"
NOT_REACHED = "it was not reached before the run ended"
AUDITED = ("lost_objects", "stale_objects", "unread_objects")
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
    by_class(context, CLASSES, NOT_SAID)
    _counted(context)


def by_operation(context: RoleContext, failures: Sequence[str]) -> None:
    """The values of all operations, and of parts of them by themselves as ROLE.OPERATION, ROLE.SIZE and
    ROLE.OPERATION_SIZE; `failures` are endings that count.
    """
    out, role = context.out, context.name
    rows = context.samples("operation/1", "intended_ns")
    at_rate = context.parameter("rate_per_s") is not None
    of_rows(out, rows, failures, at_rate=at_rate)
    course(out, rows)
    try:
        for name, held in parts(context.role.parameters).items():
            out.role = f"{role}.{name}"
            mine = np.logical_and.reduce([rows[column] == value for column, value in held.items()])
            of_rows(out, {key: column[mine] for key, column in rows.items()}, failures, at_rate=at_rate)
    finally:
        out.role = role


def of_rows(
    out: Collector, rows: Mapping[str, NDArray[Any]], failures: Sequence[str], *, at_rate: bool
) -> None:
    """What the rows of operations alone say; `at_rate`: whether they were due at a rate."""
    due, ended, count = rows["intended_ns"], rows["outcome"], int(rows["outcome"].size)
    done = ended == ENDINGS.index("done")
    finished = rows["finished_ns"][done]
    if finished.size:
        out.distribution("operation_time", finished - due[done])
    else:
        out.absent("operation_time", NONE_DONE if count else NONE_DUE)
    took_ns = float(finished.max() - due.min()) if finished.size else 0.0

    def per_second(number: float) -> float | None:
        """0 of what was due and not done: that is no missing number."""
        return number / took_ns * 1e9 if took_ns > 0 else 0.0 if count and not finished.size else None

    rate = per_second(finished.size)
    out.add("operation_rate", "mean", rate, int(finished.size), NONE_DUE)
    _achieved(out, due, rate, at_rate)
    _first_bytes(out, rows, done)
    carried = np.isin(rows["operation"][done], [OPERATIONS.index(name) for name in CARRYING])
    moved = float(rows["object_bytes"][done][carried].sum())
    out.add("content_rate", "mean", per_second(moved), int(carried.sum()), NONE_DUE)
    for ending in failures:
        number = int((ended == ENDINGS.index(ending)).sum())
        _share(out, f"{ending}_operations", number, count)
    if "timed_out" in failures:
        _share(out, "operation_retries", int(rows["retries"].sum()), count)


def _achieved(out: Collector, due: NDArray[Any], rate: float | None, at_rate: bool) -> None:
    """Operations due per second, and how many of them were done."""
    if not at_rate:
        for metric in ("request_rate", "achieved_share"):
            out.absent(metric, IN_TURNS)
        return
    span_ns = float(due.max() - due.min()) if due.size else 0.0
    wanted = (due.size - 1) / span_ns * 1e9 if span_ns > 0 else None
    few = "fewer than two operations were due at different instants"
    out.add("request_rate", "mean", wanted, int(due.size), few)
    share = None if rate is None or wanted is None else rate / wanted
    out.add("achieved_share", "ratio", share, int(due.size), few)


def _first_bytes(out: Collector, rows: Mapping[str, NDArray[Any]], done: NDArray[Any]) -> None:
    came = rows["first_byte_ns"]
    if np.ma.is_masked(came):
        out.absent("first_byte_time", OLDER)
        return
    known = done & (came >= 0)
    if known.any():
        out.distribution("first_byte_time", came[known] - rows["intended_ns"][known])
    else:
        out.absent("first_byte_time", NO_FIRST_BYTE)


def course(out: Collector, rows: Mapping[str, NDArray[Any]]) -> None:
    """Whether times of operations drift at the start, and when threads began and ended."""
    done = rows["outcome"] == ENDINGS.index("done")
    if not done.any():
        for metric in COURSE:
            out.absent(metric, NONE_DONE if done.size else NONE_DUE)
        return
    due = rows["intended_ns"]
    times = (rows["finished_ns"] - due)[done][np.argsort(due[done], kind="stable")]
    cut = mser5(times)
    share = None if cut is None else cut / times.size
    out.add("warm_up", "ratio", share, int(times.size), "too few operations")
    threads = rows["thread"]
    if np.ma.is_masked(threads) or (threads < 0).all():
        for metric in ("first_done", "last_done", "start_spread"):
            out.absent(metric, OLDER if np.ma.is_masked(threads) else NO_THREADS)
        return
    own = threads >= 0  # one that was due at a rate and not begun has no thread
    order = np.argsort(threads[own], kind="stable")
    _, first = np.unique(threads[own][order], return_index=True)
    begun = np.minimum.reduceat(rows["sent_ns"][own][order], first)
    ended = np.maximum.reduceat(rows["finished_ns"][own][order], first)
    out.add("start_spread", "total", float(begun.max() - begun.min()), int(first.size))
    for metric, at_ns in (("first_done", ended.min()), ("last_done", ended.max())):
        out.add(metric, "total", float(at_ns - due.min()), int(first.size))


def _share(out: Collector, metric: str, number: int, count: int) -> None:
    out.add(metric, "ratio", number / count if count else None, count, NONE_DUE)
    out.add(metric, "count", number if count else None, count, NONE_DUE)


def by_class(context: RoleContext, classes: Sequence[str], otherwise: str) -> None:
    """Why operations failed; `otherwise`: why no number of a class is known."""
    out, counters = context.out, context.counters
    for metric in classes:
        if metric in counters:
            _share(out, metric, counters[metric], counters["operations"])
        else:
            out.absent(metric, otherwise)


def _counted(context: RoleContext) -> None:
    out, counters = context.out, context.counters
    in_the_end = ("object_copies", "missing_copies", *AUDITED, "doubtful_objects", "working_set")
    if "operations" not in counters or not counters.keys() & {THERE, ELSEWHERE}:
        for metric in (*PER_OPERATION, "without_object", *in_the_end, "client_cpu"):
            out.absent(metric, health.NOT_COUNTED)
        return
    operations = counters["operations"]
    client(out, counters)
    out.add("without_object", "total", counters["without_object"], operations)
    if "messages" in counters:
        for metric, name in PER_OPERATION.items():
            number = counters[name]
            out.add(metric, "mean", number / operations if operations else None, operations, NONE_DUE)
            out.add(metric, "total", number, operations)
    else:
        for metric in PER_OPERATION:
            out.absent(metric, LOST if "recovery_missing" in counters else NOT_TOLD)
    if ELSEWHERE in counters:
        for metric in in_the_end:
            out.absent(metric, NOT_HERE)
    else:
        _in_the_end(context)
    recovered(out, counters)


def _in_the_end(context: RoleContext) -> None:
    out, counters = context.out, context.counters
    objects = counters[THERE]
    audited(out, counters)
    if "object_copies" in counters:
        copies, missing = counters["object_copies"], counters["missing_copies"]
        out.add("object_copies", "mean", copies / objects if objects else None, objects, NO_OBJECT)
        out.add("object_copies", "total", copies, objects)
        of = copies + missing
        out.add("missing_copies", "ratio", missing / of if of else None, of, NO_OBJECT)
        out.add("missing_copies", "count", missing, of)
    else:
        for metric in ("object_copies", "missing_copies"):
            out.absent(metric, NOT_LISTED)
    out.add("doubtful_objects", "count", counters["doubtful_objects"], objects)
    _working_set(context)


def audited(out: Collector, counters: Mapping[str, int]) -> None:
    """Objects that are lost or stale in the end. Where some were not read, no loss among the others says nothing."""
    unread = counters.get("unread_objects", 0)
    read = counters[THERE] - unread
    out.add("unread_objects", "count", unread, counters[THERE])
    for metric in ("lost_objects", "stale_objects"):
        number = counters[metric]
        if unread and not number:
            out.absent(metric, UNREAD)
            continue
        out.add(metric, "ratio", number / read if read else None, read, NO_OBJECT)
        out.add(metric, "count", number, read)


def _working_set(context: RoleContext) -> None:
    """Copies of all objects, by the memory of the nodes; of those that share the machine's, by what that has free."""
    counters = context.counters
    if "objects_bytes" not in counters:
        context.out.absent("working_set", NO_PAGE_CACHE)
        return
    world = context.record.plan.world
    service = world.services[str(context.parameter("service"))]
    nodes = [world.guests[name] for name in service.on]
    if not all(node.disk is not None for node in nodes):
        context.out.absent("working_set", NO_PAGE_CACHE)
        return
    copies = int(SERVICES[service.kind].complete(service.parameters).get("copies", 1))
    own = [node.memory_bytes for node in nodes if node.memory_bytes is not None]
    memory_bytes = sum(own) + (counters["memory_bytes"] if len(own) < len(nodes) else 0)
    ratio = copies * counters["objects_bytes"] / memory_bytes
    context.out.add("working_set", "ratio", ratio, counters[THERE])


def client(out: Collector, counters: Mapping[str, int]) -> None:
    """What the operations took of the processors of their guest."""
    usable_ns = counters.get("client_usable_ns", 0)
    if usable_ns > 0:
        out.add("client_cpu", "ratio", counters["client_worked_ns"] / usable_ns, counters["operations"])
    else:
        out.absent("client_cpu", CLIENT_NOT_TOLD)


def recovered(out: Collector, counters: Mapping[str, int]) -> None:
    """The recovery of the store, whichever role asks it; nothing where no node was lost."""
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
    for metric, number in (("recovery_rate", counters["recovery_bytes"]), ("recovery_copy_rate", made)):
        out.add(metric, "mean", number / took_ns * 1e9 if took_ns > 0 else None, made, NOT_REACHED)
