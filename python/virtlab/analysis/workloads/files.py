"""`files`: times and rates of operations that were done and verified, all and by operation, and what came of the rest.

They are worked out as those of `objects`. What is there in the end is of the role's whole time; so are copies where a
store is mounted there.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads import health
from virtlab.analysis.workloads.objects import (
    AUDITED,
    ELSEWHERE,
    NO_OBJECT,
    NOT_HERE,
    OLDER,
    THERE,
    audited,
    by_class,
    by_operation,
    client,
    recovered,
)
from virtlab.catalogue.workloads.files import CLASSES, FAILURES

IN_MEMORY = "the directory is in memory alone, so nothing but that can answer a read"


def values(context: RoleContext) -> None:
    """All operations, each kind of several by itself as ROLE.OPERATION, and counters of the role."""
    by_operation(context, FAILURES)
    by_class(context, CLASSES, OLDER)
    out, counters = context.out, context.counters
    in_the_end = (*AUDITED, "doubtful_objects", "working_set")
    if "operations" not in counters or not counters.keys() & {THERE, ELSEWHERE}:
        for metric in ("without_object", *in_the_end, "client_cpu"):
            out.absent(metric, health.NOT_COUNTED)
        return
    client(out, counters)
    out.add("without_object", "total", counters["without_object"], counters["operations"])
    recovered(out, counters)
    if ELSEWHERE in counters:
        for metric in in_the_end:
            out.absent(metric, NOT_HERE)
        return
    objects = counters[THERE]
    if memory_bytes := counters.get("memory_bytes", 0):
        out.add("working_set", "ratio", counters["files_bytes"] / memory_bytes, objects)
    else:
        out.absent("working_set", IN_MEMORY)
    audited(out, counters)
    out.add("doubtful_objects", "count", counters["doubtful_objects"], objects)
    if "object_copies" in counters:  # the files are in a store, which all of its roles share
        missing = counters["missing_copies"]
        of = counters["object_copies"] + missing
        out.add("missing_copies", "ratio", missing / of if of else None, of, NO_OBJECT)
        out.add("missing_copies", "count", missing, of)
