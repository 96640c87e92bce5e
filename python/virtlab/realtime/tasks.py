"""Tasks with hard deadlines inside a guest, checked; the policy that orders them.

Times are exact fractions of ns (a faster core can make execution times fractional). For the exact core everything is
multiplied to whole *ticks*: one tick is `1 / ticks_per_ns` ns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from virtlab.errors import ExperimentError
from virtlab.units import show_time

if TYPE_CHECKING:
    from virtlab._native import RtTaskSet

Policy = Literal["rm", "dm", "opa", "given", "edf"]
POLICIES: dict[str, str] = {
    "rm": "rate monotonic: the shorter period first",
    "dm": "deadline monotonic: the shorter deadline (less jitter) first",
    "opa": "Audsley's optimal priority assignment",
    "given": "the priorities of the file (else its order, first is highest)",
    "edf": "earliest deadline first",
}
MOST_TICKS = 2**62


@dataclass(frozen=True, slots=True)
class Task:
    """One periodic or sporadic task; times in ns.

    `deadline_ns` (None: the period) and `jitter_ns` count from the release; `blocking_ns` is the longest time that
    tasks of lower priority hold it up. `priority` (1 is highest) matters under the policy 'given' only; `vcpu`
    allocates it.
    """

    name: str
    period_ns: Fraction
    wcet_ns: Fraction
    deadline_ns: Fraction | None = None
    jitter_ns: Fraction = Fraction(0)
    blocking_ns: Fraction = Fraction(0)
    priority: int | None = None
    vcpu: int | None = None

    @property
    def relative_deadline_ns(self) -> Fraction:
        """D: the deadline, or the period where none is stated."""
        return self.period_ns if self.deadline_ns is None else self.deadline_ns

    @property
    def utilisation(self) -> Fraction:
        """C / T."""
        return self.wcet_ns / self.period_ns

    def check(self) -> None:
        """ExperimentError, naming the task, when its numbers make no sense."""

        def refuse(what: str, cure: str = "") -> None:
            raise ExperimentError(f"task {self.name}", what, cure)

        if self.period_ns <= 0:
            refuse(f"its period {show_time(self.period_ns)} must be more than zero")
        if self.wcet_ns <= 0:
            refuse(f"its execution time {show_time(self.wcet_ns)} must be more than zero")
        if self.wcet_ns > self.period_ns:
            refuse(
                f"its execution time {show_time(self.wcet_ns)} exceeds its period {show_time(self.period_ns)}",
                "shorten it, or release it less often",
            )
        deadline = self.relative_deadline_ns
        if deadline <= 0 or deadline > self.period_ns:
            refuse(
                f"its deadline {show_time(deadline)} must be more than zero and at most its period"
                f" {show_time(self.period_ns)}"
            )
        if self.jitter_ns < 0 or self.blocking_ns < 0:
            refuse("its jitter and blocking must not be negative")
        if self.wcet_ns + self.jitter_ns > deadline:
            refuse(
                f"its execution time {show_time(self.wcet_ns)} and jitter {show_time(self.jitter_ns)} exceed its deadline"
                f" {show_time(deadline)}",
                "no supply can be enough",
            )


@dataclass(frozen=True)
class TaskSet:
    """Tasks that were checked, in the order of the file; the answer's task order is theirs.

    >>> from fractions import Fraction as F
    >>> tasks = TaskSet([Task("a", F(8), F(1)), Task("b", F(15), F(3))])
    >>> tasks.response_times_ns(period_ns=6, budget_ns=3)
    [7, 14]
    """

    tasks: Sequence[Task]
    policy: Policy = "rm"
    source: str = ""
    _natives: dict[str, RtTaskSet] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ExperimentError(self.source, "there are no tasks in it", "write one at least")
        if self.policy not in POLICIES:
            raise ExperimentError(
                "policy", f"'{self.policy}' is unknown", f"choose one of {', '.join(POLICIES)}"
            )
        names: set[str] = set()
        priorities: dict[int, str] = {}
        for task in self.tasks:
            task.check()
            if task.name in names:
                raise ExperimentError(f"task {task.name}", "two tasks have this name", "give each its own")
            names.add(task.name)
            if task.priority is not None:
                if self.policy == "given" and task.priority in priorities:
                    other = priorities[task.priority]
                    raise ExperimentError(
                        f"task {task.name}",
                        f"it has the priority {task.priority} of task {other}",
                        "give each its own",
                    )
                priorities[task.priority] = task.name
        if self.policy == "given" and priorities and len(priorities) < len(self.tasks):
            missing = next(task.name for task in self.tasks if task.priority is None)
            raise ExperimentError(
                f"task {missing}", "it has no priority, others have", "give all or none of them one"
            )
        scale = self.ticks_per_ns
        for task in self.tasks:
            if max(task.period_ns, task.jitter_ns, task.blocking_ns) * scale >= MOST_TICKS:
                raise ExperimentError(
                    f"task {task.name}",
                    "its times overflow exact 64-bit ticks",
                    "use coarser units or fewer digits",
                )

    @property
    def ticks_per_ns(self) -> int:
        """The least number that makes every time a whole number of ticks."""
        values = [
            value
            for task in self.tasks
            for value in (
                task.period_ns, task.wcet_ns, task.relative_deadline_ns, task.jitter_ns, task.blocking_ns,
            )
        ]  # fmt: skip
        return math.lcm(*(Fraction(value).denominator for value in values))

    @property
    def utilisation(self) -> Fraction:
        """The sum of C / T, exact."""
        return sum((task.utilisation for task in self.tasks), Fraction(0))

    def faster(self, speed: Fraction) -> TaskSet:
        """The same tasks on a core `speed` times as fast: execution and blocking times divided by it."""
        if speed <= 0:
            raise ExperimentError("speed", f"{speed} must be more than zero", "write e.g. 1.5")
        scaled = [
            replace(task, wcet_ns=task.wcet_ns / speed, blocking_ns=task.blocking_ns / speed)
            for task in self.tasks
        ]
        return replace(self, tasks=scaled)

    def only(self, tasks: Sequence[Task]) -> TaskSet:
        """Some of the tasks, under the same policy."""
        return replace(self, tasks=list(tasks))

    @property
    def by_edf(self) -> bool:
        """Whether deadlines, not fixed priorities, decide."""
        return self.policy == "edf"

    def native(self) -> RtTaskSet:
        """The exact core's form, in the order of the file."""
        if "file" not in self._natives:
            from virtlab._native import RtTaskSet as Native

            scale = self.ticks_per_ns
            rows = [
                tuple(
                    int(value * scale)
                    for value in (
                        task.period_ns, task.wcet_ns, task.relative_deadline_ns, task.jitter_ns, task.blocking_ns,
                    )
                )
                for task in self.tasks
            ]  # fmt: skip
            self._natives["file"] = Native(rows)
        return self._natives["file"]

    def order(self) -> list[int]:
        """Places by priority, highest first. For 'opa', which depends on the supply, the deadline-monotonic start."""
        if self.policy in {"given", "edf"}:
            return sorted(range(len(self.tasks)), key=lambda place: self.tasks[place].priority or 0)
        return list(
            self.native().rate_monotonic() if self.policy == "rm" else self.native().deadline_monotonic()
        )

    def ordered(self) -> tuple[RtTaskSet, list[int]]:
        """The exact core's form by priority, and the place in the file of each."""
        order = self.order()
        if "ordered" not in self._natives:
            self._natives["ordered"] = self.native().reordered(order)
        return self._natives["ordered"], order

    def response_times_ns(
        self, *, period_ns: int, budget_ns: int, overhead_ns: int = 0, polling: bool = False
    ) -> list[int | Fraction | None]:
        """Worst-case response times in the order of the file; None beyond the deadline. The quick form of `analyze`.

        `R_i = J_i + f_inv(b_i + C_i + sum_{j<i} ceil((t + J_j)/T_j) C_j)`, its least fixed point, with
        `f_inv(w) = (P-B) + w + ceil(w/(B-X)) (P-B+X)`.
        """
        ready = self.__dict__.get("_ready")
        if ready is None:
            native, order = self.ordered()
            ready = native.response_times, self.ticks_per_ns, None if order == sorted(order) else order
            object.__setattr__(self, "_ready", ready)
        call, scale, places = ready
        found: list[int | Fraction | None] = call(
            period_ns * scale, budget_ns * scale, overhead_ns * scale, polling
        )
        if scale != 1:
            found = [None if ticks is None else Fraction(ticks, scale) for ticks in found]
        if places is None:
            return found
        answer: list[int | Fraction | None] = [None] * len(places)
        for place, value in zip(places, found, strict=True):
            answer[place] = value
        return answer
