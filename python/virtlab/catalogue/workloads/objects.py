"""`objects`: operations on objects of a distributed store, each answer verified against what was written last.

Threads are a closed loop: each begins its next operation when the one before has ended. At a rate operations are due by
a schedule, whatever has ended, and their time counts from when they were due. Roles with one `folder` work on the same
objects, so that one role fills a store and others read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.catalogue.declaration import AtService, Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    ARRIVALS,
    COUNT,
    NAME_TEXT,
    POSITIVE_DURATION,
    REQUEST_RATE,
    SHARE,
    Kind,
    PlacedError,
    choice,
    shown,
)
from virtlab.catalogue.measures import SEARCH
from virtlab.catalogue.object_sizes import OBJECT_SIZES, share_of
from virtlab.units import Size

NAME = "objects"
CARRYING = ("create", "read", "overwrite")  # operations that move an object's content
OPERATIONS = (
    "create",
    "read",
    "overwrite",
    "delete",
    "stat",
    "open",
    "list",
)  # by their codes in `operation/1`
ENDINGS = ("done", "timed_out", "missing", "wrong", "skipped", "failed")  # by their codes there
FAILURES = (  # classes of failed operations, where a store over HTTP says them
    "denied_operations",
    "no_bucket_operations",
    "throttled_operations",
    "server_error_operations",
    "broken_operations",
)
THREADS_MAX = 4096
OBJECT_MAX_BYTES = 1 << 30
SIZES_APART_MAX = 8  # that have values of their own
# Shares in % by public knowledge of SPECsfs2008's default mix over NFSv3 (published/distributed_storage_facts.csv).
# LOOKUP 24, GETATTR 26, ACCESS 11, READLINK 1 and FSSTAT 1 are `stat` here. SETATTR 4 has no operation of a store of
# whole objects; READDIRPLUS 2 and READDIR 1 read one of many directories, and `list` gives a page of the names of all
# objects. So all three are left out.
LIKE_SPECSFS2008 = "like SPECsfs2008"
MIXES = {LIKE_SPECSFS2008: {"create": 1, "read": 18, "overwrite": 10, "delete": 1, "stat": 63}}
WRITING = "a write of a new object is 'create', and one of an object that is there 'overwrite'"
OPERATION_GUESS_NS = 500_000  # of an estimate, on one thread


def _operations(value: Any, known: Sequence[str]) -> dict[str, float]:
    if isinstance(value, str):
        value = MIXES.get(value, {value: 1})
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' does not name operations; write e.g. {{read: 80, create: 20}}")
    found = {}
    for name, share in value.items():
        if name not in known:
            cure = WRITING if name == "write" else f"write {', '.join(known)}"
            raise PlacedError((name,), f"'{shown(name)}' is not an operation; {cure}")
        found[name] = share_of(name, share)
    return found


def mix_of(known: Sequence[str]) -> Kind:
    """Operations of a role: one, several with their shares, or a mix by its name."""
    return Kind(
        "split over operations",
        lambda value: _operations(value, known),
        {
            "anyOf": [
                {"enum": [*known, *MIXES]},
                {"type": "object", "propertyNames": {"enum": list(known)}, "minProperties": 1},
            ]
        },
        "{read: 80, create: 20}",
    )


def largest_bytes(values: Values) -> int:
    """The size of the largest object that a role writes."""
    return max(
        (int(size) for size, _ in values.get("object_sizes", ())), default=int(values.get("object_bytes", 0))
    )


def _size_name(size_bytes: int) -> str:
    """A size as a part of a path, which has no blanks.

    >>> _size_name(10_000), _size_name(1 << 20), _size_name(1500)
    ('10kB', '1MiB', '1500B')
    """
    whole = (unit for unit in reversed(Size.units) if size_bytes and size_bytes % Size.units[unit] == 0)
    unit = max(whole, key=Size.units.__getitem__, default="B")
    return f"{size_bytes // Size.units[unit]}{unit}"


def parts(values: Values) -> Mapping[str, Mapping[str, int]]:
    """What of a role has values of its own: operations of several, sizes of a few, and operations by size; by their
    names, what columns of `operation/1` hold.
    """
    asked, sizes = values["operations"], [int(size) for size, _ in values.get("object_sizes", ())]
    of_operations = {name: {"operation": OPERATIONS.index(name)} for name in OPERATIONS if name in asked}
    of_sizes = {_size_name(size): {"object_bytes": size} for size in sizes if len(sizes) <= SIZES_APART_MAX}
    if len(asked) == 1:
        return of_sizes
    of_both = {
        f"{name}_{size}": {**mine, **its}
        for name, mine in of_operations.items()
        for size, its in of_sizes.items()
    }
    return of_operations | of_sizes | of_both


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    traffic_ns = min(traffic_ns, int(values["duration_ns"]))
    closed = int(values["threads"]) * traffic_ns // OPERATION_GUESS_NS
    rate = values.get("rate_per_s")
    due = closed if rate is None else int(rate) * traffic_ns // 10**9 + 1
    return {"operation/1": min(due, int(values.get("count") or due))}


def check_turns(values: Values) -> list[tuple[str, str]]:
    """What of a rate and of an order cannot be together, as mistakes by parameter."""
    found, at_rate = [], values.get("rate_per_s") is not None
    if values.get("arrivals") is not None and not at_rate:
        what = "without a rate each operation follows the one before"
        found.append(("arrivals", f"{what}; write a rate, or remove it"))
    if values.get("order") == "once" and at_rate:
        what = "operations at a rate do not end with the last object"
        found.append(("order", f"{what}; write 'order: sequential' and a 'count', or remove the rate"))
    return found


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    if int(values["threads"]) > THREADS_MAX:
        found.append(("threads", f"one client has fewer threads; write at most {THREADS_MAX}"))
    if largest_bytes(values) > OBJECT_MAX_BYTES:
        found.append(("size", "an object is at most 1 GiB; write less, e.g. '1 MB'"))
    if int(values["threads"]) > 1 and values.get("rate_per_s") is not None:
        found.append(("threads", "operations at a rate wait for no thread; remove one of the two"))
    return found + check_turns(values)


# Of every role of operations, whatever keeps what it works on.
SPAN = (
    Parameter("duration", POSITIVE_DURATION, "duration_ns", "for which operations begin", "10 s"),
    Parameter("count", COUNT, "count", "operations after which it ends; absent: as many as fit into its duration"),
)  # fmt: skip
TURNS = (
    Parameter("threads", COUNT, "threads", "on each there is one operation at a time", 1),
    Parameter("rate", REQUEST_RATE, "rate_per_s", "operations due per second; absent: each thread asks in turns"),
    Parameter(
        "arrivals", ARRIVALS, "arrivals",
        "of a rate: constant, or poisson, exponential of the same mean; absent: constant",
    ),
    Parameter(
        "error_budget", SHARE, "error_budget_ratio",
        "share of its operations that may be not done; of more than that the run fails; absent: any",
    ),
)  # fmt: skip
ORDER = Parameter(
    "order", choice("random", "sequential", "once"), "order",
    "in which operations take what is there: random; sequential, as it was created, and after the last the first again; "
    "once, each of what was there at the start; absent: random",
)  # fmt: skip
TIMES = frozenset({  # of a role's operations together, and of each kind of several
    "operation_time", "first_byte_time", "operation_rate", "content_rate", "request_rate", "achieved_share",
})  # fmt: skip
COURSE = frozenset({"warm_up", "first_done", "last_done", "start_spread"})  # of a role's operations together

OBJECTS = Workload(
    name=NAME,
    meaning="operations on objects of a store, by threads in turns or at a rate",
    part="measure",
    parameters=(
        *SPAN,
        Parameter(
            "operations", mix_of(OPERATIONS), "operations",
            "create, read, overwrite, delete, stat, open, list: one of them, several with their shares, or a mix by name",
            required=True,
        ),
        Parameter(
            "size", OBJECT_SIZES, "object_bytes",
            "of an object that it creates or overwrites; several: a list, or each with its share", "10 kB",
        ),
        *TURNS,
        Parameter(
            "folder", NAME_TEXT, "folder", "name of the objects that it works on, for all roles that say it; absent: its own"
        ),
        ORDER,
    ),
    streams={"operation/1": "from"},
    metrics=SEARCH | TIMES | COURSE | {
        "timed_out_operations", "missing_operations", "wrong_operations",
        "skipped_operations", "failed_operations", *FAILURES, "operation_retries", "client_cpu", "without_object",
        "working_set", "lookup_messages", "lookup_bytes",
        "store_messages", "store_bytes", "object_copies", "missing_copies", "lost_objects", "stale_objects",
        "doubtful_objects", "unread_objects", "recovered_ratio", "recovery_missing", "recovery_detection", "recovery_first",
        "recovery_half", "recovery_most", "recovery_whole", "recovery_rate", "recovery_copy_rate",
    },
    transport=lambda _: "tcp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    endless=True,
    turns=lambda values: values.get("rate_per_s") is None,
    parts=True,
    part_rows=parts,
    at_service=AtService(
        speaks=lambda _: NAME,
        without=lambda _: {},
        only=lambda _: [("to", "objects are in a store; name a service with 'kind: store'")],
        whole=True,
    ),
    told_by=frozenset(),
)  # fmt: skip
