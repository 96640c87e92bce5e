"""From what a run recorded to a verdict: was the supply kept, and did every response time stay within its bound?

The proof assumes one thing about the machine: within any interval of length t the guest gets at least supply(t). So the
supply is *kept* iff no interval that begins with the end of a window and ends with the beginning of a later one brought
less (those are the worst ones). Then a response time beyond its bound refutes the analysis; a broken supply voids the
run.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from virtlab.lazy import NDArray, np
from virtlab.realtime.answers import Analysis
from virtlab.realtime.quantities import fraction_text

Verdict = Literal["confirmed", "refuted", "void"]


@dataclass(frozen=True)
class Observation:
    """What the agent recorded; ns on CLOCK_MONOTONIC.

    `windows`: shape (n, 2), when the guest had the CPU. `cycles`: shape (m, 4), per period first and last instant, time
    that reached the tasks, time charged. `jobs`: shape (j, 6), episode, task (by priority), release, finish (0:
    unfinished), time executed, when it first ran (0: never).
    """

    windows: NDArray[np.int64]
    cycles: NDArray[np.int64]
    jobs: NDArray[np.int64]
    lost_ns: int
    longest_loss_ns: int
    served_ns: int
    machine_steal_ns: int | None
    by: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One task's response times against its bound. None: no job of it finished, or no bound exists."""

    name: str
    jobs: int
    unfinished: int
    longest_ns: int | None
    bound_ns: Fraction | None
    deadline_ns: Fraction
    misses: int

    @property
    def within(self) -> bool:
        """Every job finished within the bound (within anything, where no bound exists)."""
        if self.bound_ns is None:
            return True
        return self.unfinished == 0 and (self.longest_ns is None or self.longest_ns <= self.bound_ns)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of one attempt."""

    verdict: Verdict
    shortfall_ns: int
    tasks: tuple[Measured, ...]
    supply_per_period_ns: tuple[int, ...]
    loss_per_period_ns: tuple[int, ...]

    def to_json(self, observed: Observation) -> dict[str, Any]:
        """The verdict and what it rests on."""
        return {
            "verdict": self.verdict,
            "supply_kept": self.shortfall_ns <= 0,
            "shortfall_ns": max(self.shortfall_ns, 0),
            "by": observed.by,
            "supply_per_period_ns": list(self.supply_per_period_ns),
            "loss_per_period_ns": list(self.loss_per_period_ns),
            "charged_but_not_seen_ns": observed.lost_ns,
            "longest_loss_ns": observed.longest_loss_ns,
            "served_ns": observed.served_ns,
            "machine_steal_ns": observed.machine_steal_ns,
            "tasks": [
                {
                    "name": task.name,
                    "jobs": task.jobs,
                    "unfinished": task.unfinished,
                    "longest_response_ns": task.longest_ns,
                    "bound_ns": None if task.bound_ns is None else fraction_text(task.bound_ns),
                    "bound_decimal_ns": None if task.bound_ns is None else float(task.bound_ns),
                    "deadline_ns": fraction_text(task.deadline_ns),
                    "deadline_misses": task.misses,
                    "within_bound": task.within,
                }
                for task in self.tasks
            ],
        }


def shortfall_ns(
    windows: NDArray[np.int64], *, period_ns: int, budget_ns: int, overhead_ns: int, horizon_ns: int
) -> int:
    """How much the worst interval up to `horizon_ns` fell short of supply(t) with E = B - X; 0 or less: kept.

    >>> import numpy as np
    >>> exact = np.array([[10 * k, 10 * k + 4] for k in range(9)])
    >>> shortfall_ns(exact, period_ns=10, budget_ns=4, overhead_ns=0, horizon_ns=60)
    0
    >>> cut = exact.copy(); cut[4, 1] -= 1
    >>> shortfall_ns(cut, period_ns=10, budget_ns=4, overhead_ns=0, horizon_ns=60)
    1
    """
    starts, ends = windows[:, 0], windows[:, 1]
    before = np.concatenate(([0], np.cumsum(ends - starts)))  # supply before window i
    effective, gap = budget_ns - overhead_ns, period_ns - budget_ns + overhead_ns
    blackout = period_ns - budget_ns + gap
    worst = 0
    for distance in range(1, len(starts)):
        length = starts[distance:] - ends[:-distance]
        near = length <= horizon_ns
        if not near.any():
            break
        got = before[distance : len(starts)] - before[1 : len(starts) - distance + 1]
        after = np.maximum(length - blackout, 0)
        due = after // period_ns * effective + np.minimum(after % period_ns, effective)
        worst = max(worst, int((due - got)[near].max()))
    return worst


def judge(observed: Observation, analysis: Analysis) -> Judgement:
    """The verdict of one attempt against the analysis it was planned with."""
    bounds = {task.name: task for task in analysis.tasks}
    horizon = max(int(task.deadline_ns) for task in analysis.tasks) + int(analysis.period_ns)
    short = shortfall_ns(
        observed.windows,
        period_ns=int(analysis.period_ns),
        budget_ns=int(analysis.budget_ns),
        overhead_ns=int(analysis.overhead_ns),
        horizon_ns=horizon,
    )
    measured = []
    for place, name in enumerate(analysis.order):
        jobs = observed.jobs[observed.jobs[:, 1] == place] if len(observed.jobs) else observed.jobs
        finished = jobs[jobs[:, 3] > 0] if len(jobs) else jobs
        response = finished[:, 3] - finished[:, 2] if len(finished) else np.array([], dtype=np.int64)
        bound = bounds[name]
        unfinished = len(jobs) - len(finished)
        measured.append(
            Measured(
                name,
                jobs=len(jobs),
                unfinished=unfinished,
                longest_ns=int(response.max()) if len(response) else None,
                # An R beyond the deadline need not hold for jobs that wait for the one before.
                bound_ns=bound.wcrt_ns if bound.schedulable else None,
                deadline_ns=bound.deadline_ns,
                misses=int((response > float(bound.deadline_ns)).sum()) + unfinished,
            )
        )
    verdict: Verdict = (
        "void" if short > 0 else "confirmed" if all(task.within for task in measured) else "refuted"
    )
    cycles = observed.cycles[1:]  # the first period was cut by its own beginning
    return Judgement(
        verdict,
        short,
        tuple(measured),
        tuple(int(served) for served in cycles[:, 2]) if len(cycles) else (),
        tuple(int(loss) for loss in cycles[:, 3] - cycles[:, 2]) if len(cycles) else (),
    )
