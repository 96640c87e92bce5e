"""A chosen (P, B) in the words of those who grant it: chrt, libvirt, Xen, cgroups, rt-app.

Microsecond formats round the budget up and the period down, both safe; the caller proves the rounded pair again.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction

from virtlab.errors import ExperimentError
from virtlab.realtime.tasks import TaskSet
from virtlab.units import show_time

FORMATS = ("chrt", "libvirt", "xen", "cgroup", "cgroup1", "rt-app")


def granted(format_: str, period_ns: Fraction, budget_ns: Fraction) -> tuple[int, int]:
    """(period, budget) in ns as the format can say it. ExperimentError where it cannot."""
    unit = 1 if format_ == "chrt" else 1000
    period, budget = int(period_ns // unit) * unit, -int(-budget_ns // unit) * unit
    ranges = {
        "chrt": (100_000, 4_194_304_000, 1024),
        "libvirt": (1_000_000, 1_000_000_000, 1_000_000),
        "cgroup": (1_000_000, 1_000_000_000, 1_000_000),
        "cgroup1": (1_000_000, 1_000_000_000, 1_000_000),
        "xen": (10_000, 2**63, 10_000),
        "rt-app": (100_000, 4_194_304_000, 1024),
    }
    if format_ not in ranges:
        raise ExperimentError("--format", f"'{format_}' is unknown", f"choose one of {', '.join(FORMATS)}")
    shortest, longest, least = ranges[format_]
    if not shortest <= period <= longest or budget < least:
        raise ExperimentError(
            "--period",
            f"{format_} takes periods of {show_time(shortest)} to {show_time(longest)} and budgets from"
            f" {show_time(least)}, not {show_time(budget)} in {show_time(period)}",
            "choose a period and a budget within",
        )
    if budget > period:
        raise ExperimentError(
            "--budget",
            f"{show_time(budget)} exceeds the period {show_time(period)} after rounding",
            "lower it",
        )
    return period, budget


def export(
    format_: str, tasks: TaskSet, order: tuple[str, ...], period_ns: int, budget_ns: int, guest: str
) -> str:
    """The text for one format; `period_ns` and `budget_ns` as `granted` gave them."""
    period_us, budget_us = period_ns // 1000, budget_ns // 1000
    if format_ == "chrt":
        return (
            f"# on the vCPU thread of {guest}, unpinned (PID: its thread id)\n"
            f"chrt --deadline --sched-runtime {budget_ns} --sched-deadline {period_ns}"
            f" --sched-period {period_ns} --pid 0 PID\n"
        )
    if format_ == "libvirt":
        return (
            "<!-- within <domain>; vcpu_quota is per vCPU -->\n<cputune>\n"
            f"  <period>{period_us}</period>\n  <quota>{budget_us}</quota>\n</cputune>\n"
        )
    if format_ == "xen":
        return f"# scheduler rtds; times in us\nxl sched-rtds -d {guest} -p {period_us} -b {budget_us}\n"
    if format_ == "cgroup":
        return f"# cgroup v2\necho '{budget_us} {period_us}' > /sys/fs/cgroup/{guest}/cpu.max\n"
    if format_ == "cgroup1":
        return (
            f"# cgroup v1\necho {period_us} > /sys/fs/cgroup/cpu/{guest}/cpu.cfs_period_us\n"
            f"echo {budget_us} > /sys/fs/cgroup/cpu/{guest}/cpu.cfs_quota_us\n"
        )
    return _rt_app(tasks, order, period_ns, budget_ns)


def _rt_app(tasks: TaskSet, order: tuple[str, ...], period_ns: int, budget_ns: int) -> str:
    """The tasks as SCHED_FIFO threads, the reservation as a comment field rt-app ignores."""
    named = {task.name: task for task in tasks.tasks}
    names = order or tuple(named)
    if len(names) > 98:
        raise ExperimentError("--format", "SCHED_FIFO has 99 priorities", "rt-app takes at most 98 tasks")
    content = {
        "_comment": f"inside a guest with {budget_ns} ns each {period_ns} ns",
        "tasks": {
            name: {
                "policy": "SCHED_FIFO",
                "priority": 98 - place,
                "loop": -1,
                "run": math.ceil(named[name].wcet_ns / 1000),
                "timer": {"ref": "unique", "period": int(named[name].period_ns // 1000), "mode": "absolute"},
            }
            for place, name in enumerate(names)
        },
        "global": {
            "duration": 10,
            "calibration": "CPU0",
            "default_policy": "SCHED_OTHER",
            "pi_enabled": False,
        },
    }
    return json.dumps(content, indent=2) + "\n"
