"""`rt_tasks`: response times of hard-deadline tasks against their exact bounds, and the supply that the guest really
got.

The bounds come from `virtlab.realtime` and the role's parameters alone, so a claim holds a measurement against a proof.
The role itself has the values over all tasks; `ROLE.TASK` has those of one. An R beyond the task's period bounds the
first job of a busy interval only (later ones wait for it too), so it is no bound.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.lazy import NDArray
from virtlab.realtime import Analysis, Task, TaskSet, analyze

NO_JOB = "no job ended in the window"
NO_BOUND = "the analysis finds no bound at this budget"


def exact_bounds(parameters: dict[str, Any]) -> Analysis:
    """The analysis of a role's Plan parameters. ExperimentError when its numbers make no sense."""
    tasks = TaskSet(
        [
            Task(
                row["name"],
                Fraction(row["period_ns"]),
                Fraction(row["wcet_ns"]),
                Fraction(row["deadline_ns"]),
            )
            for row in parameters["tasks"]
        ],
        parameters["policy"],
    )
    return analyze(
        tasks,
        period_ns=parameters["period_ns"],
        budget_ns=parameters["budget_ns"],
        overhead_ns=parameters["overhead_ns"],
    )


def values(context: RoleContext) -> None:
    """Response times, misses and slack of the role and of each task; supply and its shortfall of the role."""
    jobs = context.samples("rt_job/1", "release_ns")
    analysis = exact_bounds(context.role.parameters)
    role, out = context.name, context.out
    slacks, beyond = [], 0
    proved = [
        None if task.wcrt_ns is None or task.wcrt_ns > row["period_ns"] else task.wcrt_ns
        for task, row in zip(analysis.tasks, context.role.parameters["tasks"], strict=True)
    ]
    for place, task in enumerate(analysis.tasks):
        mine = {name: column[jobs["task"] == place] for name, column in jobs.items()}
        out.role = f"{role}.{task.name}"
        found = proved[place]
        bound = None if found is None else float(found)
        slack, later = _task(context, mine, bound, float(task.deadline_ns))
        slacks += [slack] if slack is not None else []
        beyond += later
    out.role = role
    _jobs(context, jobs)
    bounds = [float(bound) for bound in proved if bound is not None]
    margins = [
        float(task.deadline_ns - bound)
        for task, bound in zip(analysis.tasks, proved, strict=True)
        if bound is not None
    ]
    whole = len(bounds) == len(analysis.tasks)
    count = int(jobs["task"].size)
    for statistic, pick in (("min", min), ("max", max)):
        out.add("response_bound", statistic, pick(bounds) if whole else None, len(bounds), NO_BOUND)
    out.add("deadline_slack", "min", min(margins) if whole else None, len(margins), NO_BOUND)
    out.add(
        "bound_slack", "min", min(slacks) if slacks else None, len(slacks), NO_BOUND if bounds else NO_JOB
    )
    out.add("beyond_bound", "ratio", beyond / count if count else None, count, NO_JOB)
    out.add("beyond_bound", "count", beyond if count else None, count, NO_JOB)
    _supply(context)


def _task(
    context: RoleContext, jobs: dict[str, NDArray[Any]], bound: float | None, deadline: float
) -> tuple[float | None, int]:
    """Values of one task; its slack to the bound and how many of its jobs were later than that."""
    out, count = context.out, int(jobs["task"].size)
    ended = jobs["response_ns"][jobs["response_ns"] >= 0]
    _jobs(context, jobs)
    for statistic in ("min", "max"):
        out.add("response_bound", statistic, bound, 1, NO_BOUND)
    out.add("deadline_slack", "min", None if bound is None else deadline - bound, 1, NO_BOUND)
    slack = None if bound is None or not ended.size else bound - float(ended.max())
    out.add("bound_slack", "min", slack, int(ended.size), NO_BOUND if bound is None else NO_JOB)
    later = 0
    if bound is not None:
        # Of a job that did not end by its deadline it is only known that it was later than that.
        open_ended = int((jobs["response_ns"] < 0).sum()) if bound <= deadline else 0
        later = int((ended > bound).sum()) + open_ended
    out.add("beyond_bound", "ratio", later / count if count else None, count, NO_JOB)
    out.add("beyond_bound", "count", later if count else None, count, NO_JOB)
    return slack, later


def _jobs(context: RoleContext, jobs: dict[str, NDArray[Any]]) -> None:
    out, count = context.out, int(jobs["task"].size)
    ended = jobs["response_ns"][jobs["response_ns"] >= 0]
    if ended.size:
        out.distribution("response_time", ended)
    else:
        out.absent("response_time", NO_JOB)
    missed = int(jobs["missed"].sum()) if count else 0
    out.add("deadline_misses", "ratio", missed / count if count else None, count, NO_JOB)
    out.add("deadline_misses", "count", missed if count else None, count, NO_JOB)


def _supply(context: RoleContext) -> None:
    out = context.out
    periods = context.samples("rt_supply/1", "begin_ns")
    if periods["served_ns"].size:
        out.distribution("supply", periods["served_ns"])
        out.distribution("start_loss", periods["charged_ns"] - periods["served_ns"])
    else:
        for metric in ("supply", "start_loss"):
            out.absent(metric, "no whole period was seen")
    short = context.counters.get("shortfall_ns")
    out.add("supply_shortfall", "max", short, 1, "the probe reported no such counter")
