"""Period and budget of a virtual machine with hard deadlines inside; thin over Rust.

`TaskSet` in, exact answers out: `analyze`, `periods`, `least_budget`, `best`, `front`, `sensitivity`. Many sets at
once: `virtlab.realtime.arrays`. Hosts: `virtlab.realtime.hosts`. Nothing here starts a process or reads a clock.
"""

from __future__ import annotations

from virtlab.realtime.analysis import analyze, best, front, least_budget, periods, sensitivity
from virtlab.realtime.answers import Analysis, Budget, Choice, Periods, Sensitivity
from virtlab.realtime.files import load_tasks
from virtlab.realtime.tasks import POLICIES, Policy, Task, TaskSet

__all__ = [
    "POLICIES",
    "Analysis",
    "Budget",
    "Choice",
    "Periods",
    "Policy",
    "Sensitivity",
    "Task",
    "TaskSet",
    "analyze",
    "best",
    "front",
    "least_budget",
    "load_tasks",
    "periods",
    "sensitivity",
]
