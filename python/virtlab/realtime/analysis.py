"""Questions about one guest, answered exactly: is this (P, B) enough, which periods, which budget, what breaks first.

A virtual CPU gets budget B each period P and loses overhead X at each start, E = B - X. Demand w is served within t iff
for some whole k >= 1 `B >= w/k + X` and `P - B <= (t - w - kX)/(k + 1)`; everything here is that inequality, solved by
the Rust core in integers and fractions. Answers hold `Fraction`s of ns.

Source of the model: 'Scheduling Tasks with Hard Deadlines in Virtualized Software Systems', Eqs. (2)-(6). Deviation: at
an exact multiple of E the wait ends with the window (`ceil(w/E)`), where the source's `floor(w/B)` waits a blackout
more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from virtlab.errors import ExperimentError
from virtlab.realtime.answers import (
    Analysis,
    Budget,
    Choice,
    Periods,
    Rounded,
    Sensitivity,
    TaskVerdict,
    Witness,
)
from virtlab.realtime.tasks import TaskSet
from virtlab.units import show_time

if TYPE_CHECKING:
    from virtlab._native import RtTaskSet

Server = Literal["periodic", "deferrable", "cbs", "polling"]
SERVERS: tuple[str, ...] = ("periodic", "deferrable", "cbs", "polling")
Pair = tuple[int, int]
Answer = TypeVar("Answer")


def pair(value: Fraction | int) -> Pair:
    """Numerator and denominator, as the exact core takes them."""
    return Fraction(value).numerator, Fraction(value).denominator


def ask(tasks: TaskSet, names: list[str], question: Callable[[], Answer]) -> Answer:
    """Calls the exact core; its complaint becomes an ExperimentError that names the task."""
    try:
        return question()
    except ValueError as error:
        place, what = error.args if len(error.args) == 2 else (None, str(error))
        where = tasks.source if place is None else f"task {names[place]}"
        raise ExperimentError(where, what) from None
    except OverflowError:
        raise ExperimentError(
            tasks.source, "the numbers overflow exact arithmetic", "use coarser units"
        ) from None


class _Frame:
    """A task set in priority order, with times in ticks in and ns out."""

    def __init__(self, tasks: TaskSet, server: str) -> None:
        if server not in SERVERS:
            raise ExperimentError("server", f"'{server}' is unknown", f"choose one of {', '.join(SERVERS)}")
        self.tasks = tasks
        self.scale = tasks.ticks_per_ns
        self.native, self.order = tasks.ordered()
        self.names = [tasks.tasks[place].name for place in self.order]
        self.polling = server == "polling"
        self.by_edf = tasks.by_edf

    def ticks(self, value_ns: Fraction | int) -> Pair:
        return pair(Fraction(value_ns) * self.scale)

    def ns(self, value: Pair) -> Fraction:
        return Fraction(*value) / self.scale

    def ask(self, question: Callable[[], Answer]) -> Answer:
        return ask(self.tasks, self.names, question)

    def assign(self, vm: Pair, budget: Pair, overhead: Pair) -> RtTaskSet:
        """Under 'opa', takes Audsley's order at this supply where there is one."""
        if self.tasks.policy == "opa":
            native = self.tasks.native()
            found = self.ask(lambda: native.audsley(vm, budget, overhead, self.polling))
            if found is not None:
                self.order = list(found)
                self.native = native.reordered(self.order)
                self.names = [self.tasks.tasks[place].name for place in self.order]
        return self.native


def analyze(
    tasks: TaskSet, *, period_ns: Fraction | int, budget_ns: Fraction | int, overhead_ns: Fraction | int = 0,
    server: str = "periodic",
) -> Analysis:  # fmt: skip
    """Response time, slack and proof of every task at one (P, B, X).

    Fixed priorities: `R_i = J_i + min {t: t = f_inv(b_i + C_i + sum_{j<i} ceil((t + J_j)/T_j)
    C_j)}`. EDF: safe iff `f_inv(dbf(t)) <= t` at every step of dbf; R_i over Spuri's busy periods. ExperimentError when
    the numbers make no sense.

    >>> from virtlab.realtime import Task, TaskSet
    >>> found = analyze(TaskSet([Task("a", Fraction(8), Fraction(1)), Task("b", Fraction(15), Fraction(3))]),
    ...                 period_ns=6, budget_ns=3)
    >>> [task.wcrt_ns for task in found.tasks], found.critical_task
    ([Fraction(7, 1), Fraction(14, 1)], 'b')
    """
    _positive(period_ns=period_ns, budget_ns=budget_ns)
    frame = _Frame(tasks, server)
    vm, budget, overhead = frame.ticks(period_ns), frame.ticks(budget_ns), frame.ticks(overhead_ns)
    native = frame.assign(vm, budget, overhead)
    rows, critical = frame.ask(lambda: native.analyze(vm, budget, overhead, frame.polling, frame.by_edf))
    verdicts: dict[int, TaskVerdict] = {}
    for place, name, (wcrt, deadline, safe, proof) in zip(frame.order, frame.names, rows, strict=True):
        witness = None if proof is None else Witness(frame.ns(proof[0]), frame.ns(proof[1]), proof[2])
        verdicts[place] = TaskVerdict(
            name, None if wcrt is None else frame.ns(wcrt), Fraction(deadline, frame.scale), safe, witness
        )
    return Analysis(
        schedulable=all(verdict.schedulable for verdict in verdicts.values()),
        tasks=tuple(verdicts[place] for place in range(len(tasks.tasks))),
        critical_task=frame.names[critical],
        order=() if frame.by_edf else tuple(frame.names),
        period_ns=Fraction(period_ns),
        budget_ns=Fraction(budget_ns),
        overhead_ns=Fraction(overhead_ns),
        server=server,
    )


def periods(
    tasks: TaskSet, *, share: Fraction, overhead_ns: Fraction | int = 0, server: str = "periodic"
) -> Periods:
    """Every period at which budget = share x period is enough, exactly: intervals, holes, isolated points.

    Each scheduling point (t, w) and k give `(w/k + X)/a <= P <= (t - w - kX)/((k+1)(1-a))`. `safe_period_ns` is the
    largest P such that no period from `safe_from_ns` up to it fails. ExperimentError when the share is not above the
    utilisation (naming the task with which the sum reaches it), or not below 1.

    >>> from virtlab.realtime import Task, TaskSet
    >>> three = TaskSet([Task(str(i), Fraction(t), Fraction(c)) for i, (t, c) in enumerate([(16, 2), (24, 1), (36, 4)])])
    >>> found = periods(three, share=Fraction(2, 5))
    >>> found.max_period_ns, found.safe_period_ns, len(found.intervals_ns)
    (Fraction(10, 1), Fraction(22, 3), 4)
    """
    _share_above_use(tasks, share)
    frame = _Frame(tasks, server)
    policy = {"edf": "edf", "opa": "audsley"}.get(tasks.policy, "fixed")
    native = tasks.native() if policy == "audsley" else frame.native
    overhead = frame.ticks(overhead_ns)
    raw = frame.ask(lambda: native.periods(pair(share), overhead, frame.polling, policy))
    found = tuple((frame.ns(low), frame.ns(high)) for low, high in raw)
    largest = found[-1][1] if found else None
    safe = _safe(found)
    return Periods(
        intervals_ns=found,
        max_period_ns=largest,
        safe_from_ns=safe[0] if safe else None,
        safe_period_ns=safe[1] if safe else None,
        critical_task=_critical(tasks, frame, share, overhead_ns, server, largest),
        share=Fraction(share),
        overhead_ns=Fraction(overhead_ns),
        rounded=_round_period(tasks, found, Fraction(share), overhead_ns, server),
    )


def least_budget(
    tasks: TaskSet, *, period_ns: Fraction | int, overhead_ns: Fraction | int = 0, server: str = "periodic"
) -> Budget:
    """The least budget at a period, `max_i min_{t,k} max(w/k + X, P - (t - w - kX)/(k + 1))`, and who needs it.

    >>> from virtlab.realtime import Task, TaskSet
    >>> two = TaskSet([Task("a", Fraction(8), Fraction(1)), Task("b", Fraction(15), Fraction(3))])
    >>> found = least_budget(two, period_ns=6)
    >>> found.budget_ns, found.critical_task, found.rounded.budget_ns
    (Fraction(8, 3), 'b', 3)
    """
    _positive(period_ns=period_ns)
    frame = _Frame(tasks, server)
    if tasks.policy == "opa":
        found = _opa_budget(tasks, period_ns, overhead_ns, server)
    else:
        vm, overhead = frame.ticks(period_ns), frame.ticks(overhead_ns)
        raw = frame.ask(lambda: frame.native.budget(vm, overhead, frame.polling, frame.by_edf))
        found = None if raw is None else (frame.ns(raw[0]), frame.names[raw[1]])
    if found is None:
        return Budget(None, None, Fraction(period_ns), Fraction(overhead_ns), None)
    budget, critical = found
    rounded = None
    if Fraction(period_ns).denominator == 1 and -(-budget // 1) <= period_ns:
        rounded = _proved(tasks, int(period_ns), -int(-budget // 1), overhead_ns, server)
    return Budget(budget, critical, Fraction(period_ns), Fraction(overhead_ns), rounded)


def best(
    tasks: TaskSet,
    *,
    overhead_ns: Fraction | int,
    least_period_ns: Fraction | int = 0,
    server: str = "periodic",
) -> Choice | None:
    """The (P, B) of least share, exact; of equal shares the longest period. None when no pair is enough.

    Only budgets `B = w/k + X` can be best: between them the share rises with B. Needs an overhead or a least period, as
    otherwise an ever shorter period needs ever less.
    """
    if tasks.policy == "opa":
        raise ExperimentError(
            "policy", "'opa' has no single order over all periods", "use 'dm', 'rm' or 'given'"
        )
    frame = _Frame(tasks, server)
    raw = frame.ask(
        lambda: frame.native.best(
            frame.ticks(overhead_ns), frame.ticks(least_period_ns), frame.polling, frame.by_edf
        )
    )
    if raw is None:
        return None
    period, budget = frame.ns(raw[0]), frame.ns(raw[1])
    return Choice(period, budget, _round_pair(tasks, period, budget, overhead_ns, server))


def front(
    tasks: TaskSet, *, overhead_ns: Fraction | int, points: int = 24, server: str = "periodic"
) -> tuple[Choice, ...]:
    """The Pareto front of share against VM switches per second: each point has the least share of all with no more
    switches.

    From the pair of least share towards longer periods, at `points` least periods spaced by equal factors.
    """
    first = best(tasks, overhead_ns=overhead_ns, server=server)
    if first is None:
        return ()
    found = [first]
    longest = max(task.relative_deadline_ns for task in tasks.tasks)
    shortest = first.period_ns
    for step in range(1, points):
        wanted = shortest * Fraction(float(longest / shortest) ** (step / (points - 1))).limit_denominator(
            1000
        )
        least = Fraction(round(wanted))
        if least <= found[-1].period_ns:
            continue
        choice = best(tasks, overhead_ns=overhead_ns, least_period_ns=least, server=server)
        if choice is None:
            break
        if choice.period_ns > found[-1].period_ns:
            found.append(choice)
    return tuple(found)


def sensitivity(
    tasks: TaskSet, *, period_ns: Fraction | int, budget_ns: Fraction | int, overhead_ns: Fraction | int = 0,
    server: str = "periodic",
) -> Sensitivity:  # fmt: skip
    """How much each execution time, the overhead or the share can move before a deadline breaks; exact.

    Growing C_i by d adds n_i(t) d to demand: the largest d is `min_h max_t (supply(t) - w_h(t))/n_i(t)` (EDF: min over
    t).
    """
    _positive(period_ns=period_ns, budget_ns=budget_ns)
    frame = _Frame(tasks, server)
    vm, budget, overhead = frame.ticks(period_ns), frame.ticks(budget_ns), frame.ticks(overhead_ns)
    native = frame.assign(vm, budget, overhead)

    def limit(quantity: str, index: int = 0) -> tuple[Pair, int] | None:
        found: tuple[Pair, int] | None = frame.ask(
            lambda: native.limit(quantity, index, vm, budget, overhead, frame.polling, frame.by_edf)
        )
        return found

    growth: dict[str, Fraction | None] = {}
    breaks: dict[str, str | None] = {}
    for place in range(len(frame.names)):
        found = limit("wcet", place)
        possible = found is not None and frame.ns(found[0]) > -tasks.tasks[frame.order[place]].wcet_ns
        growth[frame.names[place]] = frame.ns(found[0]) if found is not None and possible else None
        breaks[frame.names[place]] = frame.names[found[1]] if found is not None else None
    factor, most_overhead = limit("all"), limit("overhead")
    factor_value = None if factor is None else Fraction(*factor[0])
    overhead_value = None if most_overhead is None else frame.ns(most_overhead[0])
    ordered = {task.name: growth[task.name] for task in tasks.tasks}
    fixed_order = tasks
    if tasks.policy == "opa":
        fixed_order = given_order(tasks, frame.names)
    least = least_budget(fixed_order, period_ns=period_ns, overhead_ns=overhead_ns, server=server)
    return Sensitivity(
        schedulable=frame.ask(lambda: native.schedulable(vm, budget, overhead, frame.polling, frame.by_edf)),
        wcet_growth_ns=ordered,
        breaks={name: breaks[name] for name in ordered},
        all_wcet_factor=factor_value if factor_value is None or factor_value > 0 else None,
        overhead_limit_ns=overhead_value if overhead_value is None or overhead_value >= 0 else None,
        least_share=least.share,
        share=Fraction(budget_ns) / Fraction(period_ns),
    )


def given_order(tasks: TaskSet, names: list[str]) -> TaskSet:
    """The set with priorities in the order of `names`."""
    rank = {name: place for place, name in enumerate(names, 1)}
    return replace(
        tasks, tasks=[replace(task, priority=rank[task.name]) for task in tasks.tasks], policy="given"
    )


def _safe(intervals: tuple[tuple[Fraction, Fraction], ...]) -> tuple[Fraction, Fraction] | None:
    if not intervals:
        return None
    return intervals[0] if intervals[0][0] == 0 else max(intervals, key=lambda part: part[1] - part[0])


def _critical(
    tasks: TaskSet,
    frame: _Frame,
    share: Fraction,
    overhead_ns: Fraction | int,
    server: str,
    largest: Fraction | None,
) -> str | None:
    """The first task whose own set ends where the largest period lies (EDF: the one with least to spare there)."""
    if largest is None:
        return None
    if tasks.policy in {"edf", "opa"}:
        return analyze(
            tasks, period_ns=largest, budget_ns=largest * share, overhead_ns=overhead_ns, server=server
        ).critical_task
    overhead = frame.ticks(overhead_ns)
    for place, name in enumerate(frame.names):
        question = partial(frame.native.periods_of_task, place, pair(share), overhead, frame.polling)
        own: list[tuple[Pair, Pair]] = frame.ask(question)
        if any(frame.ns(high) == largest for _, high in own):
            return name
    return None


def _opa_budget(
    tasks: TaskSet, period_ns: Fraction | int, overhead_ns: Fraction | int, server: str
) -> tuple[Fraction, str] | None:
    """Audsley's order at the budget found is taken as given, until the budget no longer falls: each order's least
    budget is exact, and an order that is safe below the least budget of another one is found by trying just below it.
    """
    frame = _Frame(tasks, server)
    native, vm, overhead = tasks.native(), frame.ticks(period_ns), frame.ticks(overhead_ns)
    answer: tuple[Fraction, str] | None = None
    trial = Fraction(period_ns)
    while True:
        at = frame.ticks(trial)
        if Fraction(*at) <= Fraction(*overhead):
            return answer
        order: list[int] | None = frame.ask(partial(native.audsley, vm, at, overhead, frame.polling))
        if order is None:
            return answer
        names = [tasks.tasks[place].name for place in order]
        found = least_budget(
            given_order(tasks, names), period_ns=period_ns, overhead_ns=overhead_ns, server=server
        )
        if (
            found.budget_ns is None
            or found.critical_task is None
            or (answer and found.budget_ns >= answer[0])
        ):
            return answer
        answer = (found.budget_ns, found.critical_task)
        trial = found.budget_ns - Fraction(1, 1000)


def _share_above_use(tasks: TaskSet, share: Fraction) -> None:
    if share >= 1:
        raise ExperimentError(
            "share", f"{share} is the whole CPU: any period is as good", "give a share below 1"
        )
    total = Fraction(0)
    for place in tasks.order():
        total += tasks.tasks[place].utilisation
        if total >= share:
            raise ExperimentError(
                f"task {tasks.tasks[place].name}",
                f"with it the utilisation is {float(total):.6g} and not below the share {float(share):.6g}",
                f"give a share above {float(tasks.utilisation):.6g}",
            )


def _positive(**values: Fraction | int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ExperimentError(
                name.removesuffix("_ns"), f"{show_time(value)} must be more than zero", "write e.g. '10 ms'"
            )


def _proved(
    tasks: TaskSet, period_ns: int, budget_ns: int, overhead_ns: Fraction | int, server: str
) -> Rounded:
    found = analyze(tasks, period_ns=period_ns, budget_ns=budget_ns, overhead_ns=overhead_ns, server=server)
    return Rounded(period_ns, budget_ns, found.schedulable)


def _round_pair(
    tasks: TaskSet, period: Fraction, budget: Fraction, overhead_ns: Fraction | int, server: str
) -> Rounded | None:
    """Period down, budget up: both only help; proved all the same."""
    whole_period, whole_budget = int(period // 1), -int(-budget // 1)
    if whole_budget > whole_period or whole_budget <= overhead_ns:
        return None
    return _proved(tasks, whole_period, whole_budget, overhead_ns, server)


def _round_period(
    tasks: TaskSet,
    intervals: tuple[tuple[Fraction, Fraction], ...],
    share: Fraction,
    overhead_ns: Fraction | int,
    server: str,
) -> Rounded | None:
    """The largest whole ns in the set with budget rounded up; a hole next to it is stepped over."""
    for low, high in reversed(intervals):
        period = int(high // 1)
        if period < low or period < 1:
            continue
        budget = -int(-(share * period) // 1)
        if budget <= overhead_ns or budget > period:
            continue
        rounded = _proved(tasks, period, budget, overhead_ns, server)
        if rounded.schedulable:
            return rounded
    return None
