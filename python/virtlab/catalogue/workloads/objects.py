"""`objects`: operations on objects of a distributed store, each answer verified against what was written last.

Threads are a closed loop: each begins its next operation when the one before has ended. At a rate operations are due by a
schedule, whatever has ended, and their time counts from when they were due. Roles with one `folder` work on the same
objects, so that one role fills a store and others read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.catalogue.declaration import AtService, Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    ARRIVALS,
    COUNT,
    NAME_TEXT,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    REQUEST_RATE,
    Kind,
    PlacedError,
    shown,
)
from virtlab.catalogue.measures import SEARCH

NAME = "objects"
OPERATIONS = ("create", "read", "overwrite", "delete", "stat")  # by their codes in `operation/1`
ENDINGS = ("done", "timed_out", "missing", "wrong")  # by their codes there
SHARE_MAX = 10**6
THREADS_MAX = 4096
OBJECT_MAX_BYTES = 1 << 30
OPERATION_GUESS_NS = 500_000  # of an estimate, on one thread


def _operations(value: Any) -> dict[str, float]:
    if isinstance(value, str):
        value = {value: 1}
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' are no operations; write e.g. {{read: 80, create: 20}}")
    found = {}
    for name, share in value.items():
        if name not in OPERATIONS:
            raise PlacedError((name,), f"'{shown(name)}' is not an operation; write {', '.join(OPERATIONS)}")
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= SHARE_MAX:
            raise PlacedError((name,), f"'{shown(share)}' is not a share; write a number above 0")
        found[name] = float(share)
    return found


MIX = Kind(
    "split over operations",
    _operations,
    {
        "anyOf": [
            {"enum": list(OPERATIONS)},
            {"type": "object", "propertyNames": {"enum": list(OPERATIONS)}, "minProperties": 1},
        ]
    },
    "{read: 80, create: 20}",
)


def parts(values: Values) -> tuple[str, ...]:
    """Operations of a role that have values of their own: those of several."""
    asked = values["operations"]
    return tuple(name for name in OPERATIONS if name in asked) if len(asked) > 1 else ()


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    traffic_ns = min(traffic_ns, int(values["duration_ns"]))
    closed = int(values["threads"]) * traffic_ns // OPERATION_GUESS_NS
    rate = values.get("rate_per_s")
    due = closed if rate is None else int(rate) * traffic_ns // 10**9 + 1
    return {"operation/1": min(due, int(values.get("count") or due))}


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    if int(values["threads"]) > THREADS_MAX:
        found.append(("threads", f"one client has fewer threads; write at most {THREADS_MAX}"))
    if int(values["object_bytes"]) > OBJECT_MAX_BYTES:
        found.append(("size", "an object is at most 1 GiB; write less, e.g. '1 MB'"))
    if int(values["threads"]) > 1 and values.get("rate_per_s") is not None:
        found.append(("threads", "operations at a rate wait for no thread; remove one of the two"))
    if values.get("arrivals") is not None and values.get("rate_per_s") is None:
        what = "without a rate each operation follows the one before"
        found.append(("arrivals", f"{what}; write a rate, or remove it"))
    return found


OBJECTS = Workload(
    name=NAME,
    meaning="operations on objects of a store, by threads in turns or at a rate",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "for which operations begin", "10 s"),
        Parameter("count", COUNT, "count", "operations after which it ends; absent: as many as fit into its duration"),
        Parameter(
            "operations", MIX, "operations",
            "create, read, overwrite, delete, stat: one of them, or several with their shares", required=True,
        ),
        Parameter("size", POSITIVE_SIZE, "object_bytes", "of an object that it creates or overwrites", "10 kB"),
        Parameter("threads", COUNT, "threads", "on each there is one operation at a time", 1),
        Parameter("rate", REQUEST_RATE, "rate_per_s", "operations due per second; absent: each thread asks in turns"),
        Parameter(
            "arrivals", ARRIVALS, "arrivals",
            "of a rate: constant, or poisson, exponential of the same mean; absent: constant",
        ),
        Parameter(
            "folder", NAME_TEXT, "folder", "name of the objects that it works on, for all roles that say it; absent: its own"
        ),
    ),
    streams={"operation/1": "from"},
    metrics=SEARCH | {
        "operation_time", "operation_rate", "timed_out_operations", "missing_operations", "wrong_operations",
        "operation_retries", "without_object", "lookup_messages", "lookup_bytes", "store_messages", "store_bytes",
        "object_copies", "missing_copies", "lost_objects", "stale_objects", "doubtful_objects",
    },
    transport=lambda _: "tcp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    endless=True,
    turns=lambda values: values.get("rate_per_s") is None,
    parts=True,
    at_service=AtService(
        speaks=lambda _: NAME,
        without=lambda _: {},
        only=lambda _: [("to", "objects are in a store; name a service with 'kind: store'")],
        whole=True,
    ),
    told_by=frozenset(),
    arms={
        "testbed": "no agent asks a store yet; run the file with '--backend simulator'",
        "simulator": None,
    },
)  # fmt: skip
