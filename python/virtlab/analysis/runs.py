"""One run's samples to its values: each role by its workload's file, then series and counters."""

from __future__ import annotations

from virtlab.analysis import entities, moves, processing, summaries
from virtlab.analysis.context import RoleContext, counter_rows, role_counters, waiting_frames
from virtlab.analysis.declared import declared_by
from virtlab.analysis.searches import searched
from virtlab.analysis.values import Collector, RunValue
from virtlab.analysis.window import role_window
from virtlab.analysis.workloads import values_of
from virtlab.results.record import RunRecord


def values_of_run(record: RunRecord) -> list[RunValue]:
    """Every value of a run: what was measured, and what could not be with the reason."""
    out = Collector(
        record.name, record.point, dict(record.levels), record.repetition, record.link_realisation
    )
    counters = counter_rows(record)
    declared = declared_by(record)
    waiting = waiting_frames(counters)
    last_ns = max((role_window(record, name).end_ns for name in record.plan.roles), default=0)
    for name, role in record.plan.roles.items():
        values = values_of(role.workload)
        if values is None:
            continue  # its samples stay in the dataset
        out.role, out.declared = name, declared.get(name, {})
        window = role_window(record, name)
        left = waiting if window.end_ns == last_ns else 0  # what others left behind was served since
        context = RoleContext(record, name, role, window, role_counters(counters, name), out, left)
        values(context)
        moves.values(context)
        summaries.values(record, name, out)
    out.declared = {}
    searched.values(record, out)
    entities.values(record, counters, out)
    processing.values(record, out)
    return out.values
