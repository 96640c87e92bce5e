"""A disk that is full, or a run that would keep more than its file allows: it failed, and what was finished is
untouched.

What the run had written is taken away first, so that there is usually room for the record that says why it failed.
A full disk is the machine's: the campaign stops, and the same command resumes once there is room. If not even that
record fits, it ends with one error. A run beyond its own file's limit is the file's: other design points may keep
less.
"""

from __future__ import annotations

from virtlab.errors import MachineError
from virtlab.plan.backend import Outcome, Realised
from virtlab.plan.model import Plan
from virtlab.results import Dataset, RunKey, RunRecord
from virtlab.results.files import NO_ROOM
from virtlab.results.writer import OverLimitError

CURE = "make room there"
RESUMES = "the same command resumes"


def is_no_room(error: BaseException) -> bool:
    """Whether there was no room, on the disk or by the file; the database's own errors say so in their text alone."""
    if isinstance(error, OverLimitError):
        return True
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return type(error).__module__.lstrip("_").startswith("duckdb") and "No space left" in str(error)


def recorded(dataset: Dataset, key: RunKey, plan: Plan, error: Exception) -> RunRecord:
    """The run as failed, without samples. MachineError when there is no room even for that."""
    where = str(dataset.path)
    reason = f"{where}: no room for the run's samples ({getattr(error, 'strerror', None) or error}); {CURE}"
    outcome = Outcome("failed", (reason,), blame="machine")
    if isinstance(error, MachineError):  # of the file's own limit
        reason = str(error)
        outcome = Outcome("failed", (reason,))
    try:
        with dataset.begin_run(key, plan) as writer:
            writer.log("error", reason, kind=type(error).__name__)
            timings = {"total": 0}
            return writer.commit(outcome, Realised({}), timings)
    except OSError as again:
        if again.errno not in NO_ROOM:
            raise
        raise MachineError(
            where, f"the disk is full: not even the reason of {key.name} fits", f"{CURE}; {RESUMES}"
        ) from error
