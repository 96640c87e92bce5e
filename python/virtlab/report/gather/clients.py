"""What a reader has to know of operations beside their rates: what else may have limited these, and objects that were
not read in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virtlab.analysis.table import RunTable
from virtlab.results import RunRecord

BUSY = 0.8  # of the processor time that a client could have had
LEAST_SHOWN = 0.01


def client_notes(table: RunTable, records: Iterable[RunRecord]) -> list[str]:
    """One sentence per role whose client was busy, whose files or objects all fit into memory, or were not all read in
    the end.
    """
    told = []
    for role, by_run in _values(table, "client_cpu").items():
        if busy := [share for share in by_run.values() if share > BUSY]:
            told.append(
                f"The client of {role} took more than {BUSY:.0%} of the processor time that its threads could have, in "
                f"{len(busy)} of {len(by_run)} runs (at most {max(busy):.0%}). It may limit the rates of {role}, "
                "instead of what it asks."
            )
    through_cache = {
        (record.name, name): "service" in role.parameters
        for record in records
        for name, role in record.plan.roles.items()
        if "read" in role.parameters.get("operations", ())
        and not role.parameters.get("direct")
        and role.parameters.get("cache") != "drop"
    }
    for role, by_run in _values(table, "working_set").items():
        small = [ratio for run, ratio in by_run.items() if ratio < 1 and (run, role) in through_cache]
        if small and any(through_cache.get((run, role)) for run in by_run):
            told.append(
                f"The objects of {role} with their copies are {_percent(max(small))} of the memory of their nodes. Its "
                "reads may come from page caches, and not from disks; write more objects, or larger ones, to read from "
                "disks."
            )
        elif small:
            told.append(
                f"The files of {role} are {_percent(max(small))} of the memory that their guest has free. Its reads may "
                "come from the page cache, and not from a disk; with 'cache: drop' or 'direct: true' they do not."
            )
    for role, by_run in _values(table, "unread_objects").items():
        if unread := [number for number in by_run.values() if number]:
            told.append(
                f"Of {role} up to {max(unread):,.0f} objects were not read once more in the end, in {len(unread)} of "
                f"{len(by_run)} runs, as the time for that was over. Whether any of them is lost is not known; a role of "
                "'operations: read' with 'order: once' reads all of them."
            )
    return told


def _percent(ratio: float) -> str:
    return f"at most {ratio:.0%}" if ratio >= LEAST_SHOWN else f"less than {LEAST_SHOWN:.0%}"


def _values(table: RunTable, metric: str) -> Mapping[str, dict[str, float]]:
    """The metric's values by run, of each role that has it."""
    found: dict[str, dict[str, float]] = {}
    for row in table:
        if row.metric == metric and row.value is not None:
            found.setdefault(row.role, {})[row.run] = row.value
    return found
