"""`files`: operations on files of a directory of a guest, each answer verified against what was written last.

The directory may be of any file system that is mounted there: a disk, memory, one of the network. Operations are chosen
as those of `objects`; each thread does one at a time by system calls. Everything is in one folder that the role makes
in the directory and removes in the end; roles with one `directory` and `folder` of a guest work on the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.disks import FOLDER
from virtlab.catalogue.kinds import (
    FLAG,
    NAME_TEXT,
    Kind,
    choice,
    shown,
)
from virtlab.catalogue.measures import SEARCH
from virtlab.catalogue.object_sizes import OBJECT_SIZES
from virtlab.catalogue.workloads.objects import (
    COURSE,
    OBJECT_MAX_BYTES,
    OPERATIONS,
    ORDER,
    SPAN,
    TIMES,
    TURNS,
    check_turns,
    largest_bytes,
    mix_of,
    parts,
)

NAME = "files"
FAILURES = ("missing", "wrong", "skipped", "failed")  # of the endings of `operation/1`
CLASSES = ("server_error_operations", "broken_operations")  # of failed operations
THREADS_MAX = 1024
BLOCK_BYTES = 4096  # what goes past the page cache is whole ones
PATH_MAX = 4000
OPERATION_GUESS_NS = 10_000  # of an estimate, on one thread


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"'{shown(value)}' is not a whole path; begin with '/', e.g. '{FOLDER}'")
    names = value.split("/")[1:]
    if (
        not all(value.isprintable() and name not in {"", ".", ".."} for name in names)
        or len(value) > PATH_MAX
    ):
        raise ValueError(
            f"'{shown(value)}' is not a plain path; write it without '.', '..', '//' and '/' at its end"
        )
    return value


DIRECTORY = Kind("directory", _directory, {"type": "string", "pattern": "^/"}, FOLDER)


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    traffic_ns = min(traffic_ns, int(values["duration_ns"]))
    closed = int(values["threads"]) * traffic_ns // OPERATION_GUESS_NS
    rate = values.get("rate_per_s")
    due = closed if rate is None else int(rate) * traffic_ns // 10**9 + 1
    return {"operation/1": min(due, int(values.get("count") or due))}


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    if int(values["threads"]) > THREADS_MAX:
        found.append(("threads", f"one guest has fewer threads; write at most {THREADS_MAX}"))
    if largest_bytes(values) > OBJECT_MAX_BYTES:
        found.append(("size", "a file is at most 1 GiB; write less, e.g. '1 MB'"))
    found += check_turns(values)
    sizes = [int(size) for size, _ in values.get("object_sizes", ())] or [int(values["object_bytes"])]
    uneven = next((size for size in sizes if size % BLOCK_BYTES), None)
    if values.get("direct") and uneven is not None:
        whole = -(-uneven // BLOCK_BYTES) * BLOCK_BYTES
        what = f"direct files are whole blocks of {BLOCK_BYTES} B, and {uneven} B are not"
        found.append(("size", f"{what}; write e.g. 'size: {whole} B', or remove 'direct'"))
    if values.get("direct") and values.get("cache") == "drop":
        found.append(("cache", "direct files are not in the page cache; remove 'cache', or 'direct'"))
    return found


FILES = Workload(
    name=NAME,
    meaning="operations on files of a directory, by threads in turns or at a rate",
    part="measure",
    parameters=(
        *SPAN,
        Parameter(
            "directory", DIRECTORY, "directory", "in which it makes the folder of its files; it has to be there", FOLDER
        ),
        Parameter(
            "operations", mix_of(OPERATIONS), "operations",
            "create, read, overwrite, delete, stat, open, list: one of them, several with their shares, or a mix by name",
            required=True,
        ),
        Parameter(
            "size", OBJECT_SIZES, "object_bytes",
            "of a file that it creates or overwrites; several: a list, or each with its share", "10 kB",
        ),
        *TURNS,
        Parameter(
            "folder", NAME_TEXT, "folder",
            "name of the files that it works on, for all roles of its guest and directory that say it; absent: its own",
        ),
        ORDER,
        Parameter("sync", choice("none", "fsync"), "sync", "fsync: each write is flushed before it is done", "none"),
        Parameter("direct", FLAG, "direct", "true: reads and writes go past the page cache (O_DIRECT)"),
        Parameter(
            "cache", choice("keep", "drop"), "cache",
            "drop: a file leaves the page cache before each read of it, outside of the time that is measured; absent: keep",
        ),
    ),
    streams={"operation/1": "from"},
    metrics=SEARCH | TIMES | COURSE | {
        "missing_operations", "wrong_operations",
        "skipped_operations", "failed_operations", *CLASSES, "client_cpu", "working_set", "without_object", "missing_copies",
        "lost_objects", "stale_objects", "doubtful_objects", "unread_objects", "recovered_ratio", "recovery_missing",
        "recovery_detection", "recovery_first", "recovery_half", "recovery_most", "recovery_whole", "recovery_rate",
        "recovery_copy_rate",
    },
    transport=lambda _: None,
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    endless=True,
    turns=lambda values: values.get("rate_per_s") is None,
    directory="directory",
    parts=True,
    part_rows=parts,
    told_by=frozenset(),
    alone=True,
    arms={"testbed": None, "simulator": "what a file system does is not modelled; run the file on the testbed"},
)  # fmt: skip
