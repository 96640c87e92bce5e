"""The source's worked examples, as task sets in time units (1 unit = 1 ms)."""

from __future__ import annotations

from fractions import Fraction

from virtlab.realtime.analysis import analyze
from virtlab.realtime.studies import Row
from virtlab.realtime.tasks import Task, TaskSet

UNIT_NS = 1_000_000


def example(*tasks: tuple[int, int]) -> TaskSet:
    """Tasks 1, 2, ... of (period, execution time) in time units."""
    return TaskSet(
        [
            Task(str(number), Fraction(period * UNIT_NS), Fraction(wcet * UNIT_NS))
            for number, (period, wcet) in enumerate(tasks, 1)
        ]
    )


TWO_TASKS = ((8, 1), (15, 3))
THREE_TASKS = ((16, 2), (24, 1), (36, 4))


def three_task_curve(share: Fraction, longest: int = 16, steps: int = 12) -> list[Row]:
    """R/T of each of the three tasks over VM periods in twelfths of a unit."""
    rows: list[Row] = []
    tasks = example(*THREE_TASKS)
    for step in range(1, longest * steps + 1):
        period = Fraction(step * UNIT_NS, steps)
        found = analyze(tasks, period_ns=period, budget_ns=period * share)
        for task in found.tasks:
            ratio = None if task.wcrt_ns is None else float(task.wcrt_ns / task.deadline_ns)
            rows.append({"vm_period": step / steps, "task": task.name, "ratio": ratio})
    return rows
