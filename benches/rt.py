"""Figures of the real-time room: task sets per second, the exact study, one call, exact against floating point."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from virtlab import _native
from virtlab.realtime.arrays import Family, generate, largest_ratios, response_times
from virtlab.realtime.studies import Scenarios
from virtlab.realtime.tasks import Task, TaskSet

VM_PERIOD, BUDGET = 400_000_000, 160_000_000  # share 0.4, ticks of a millionth of a time unit
GOALS = {10: 2.7e6, 20: 0.74e6, 30: 0.31e6}


def best_of(repeats: int, work: Callable[[], Any]) -> float:
    """Least CPU time of this process, s."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def plain_python(rows: list[list[tuple[int, int]]]) -> list[list[int | None]]:
    """The peer: the same response times, one set after the other, in Python integers."""
    lead, effective = VM_PERIOD - BUDGET, BUDGET
    found = []
    for tasks in rows:
        answers: list[int | None] = []
        for index, (deadline, wcet) in enumerate(tasks):
            t = 0
            while True:
                w = wcet + sum(-(-max(t, 1) // period) * c for period, c in tasks[:index])
                now = lead + w + -(-w // effective) * lead
                if now > deadline or now == t:
                    answers.append(None if now > deadline else t)
                    break
                t = now
        found.append(answers)
    return found


def bench() -> Iterator[dict[str, Any]]:
    """Lines for `make bench`."""
    for tasks, goal in GOALS.items():
        family = Family(tasks, 1000, 10_000, 1000)
        period, wcet = generate(family, 0.3, 40_000, seed=1)
        few = [
            list(zip(map(int, t), map(int, c), strict=True))
            for t, c in zip(period[:300], wcet[:300], strict=True)
        ]
        fast = response_times(period[:300], wcet[:300], vm_period=VM_PERIOD, budget=BUDGET)
        slow = plain_python(few)
        assert [[None if v > 2**62 else v for v in row] for row in fast.tolist()] == slow
        ours = 40_000 / best_of(
            5, lambda p=period, c=wcet: response_times(p, c, vm_period=VM_PERIOD, budget=BUDGET)
        )
        peer = 300 / best_of(2, lambda rows=few: plain_python(rows))
        yield {
            "name": f"rt.sets_per_s.n{tasks}", "value": ours, "unit": "1/s of one core", "ratio": ours / peer,
            "peer": "the same in plain Python", "goal": f">= {goal:.2g}",
        }  # fmt: skip
        as_float = period.astype(float), wcet.astype(float)
        floating = 40_000 / best_of(
            5,
            lambda f=as_float: _native.rt_response_times_float(
                f[0], f[1], float(VM_PERIOD), float(BUDGET), 0.0
            ),
        )
        yield {
            "name": f"rt.exact_over_float_time.n{tasks}", "value": floating / ours, "unit": "ratio of times",
            "ratio": floating / ours, "peer": "the kernel in doubles, real-valued", "goal": "<= 3",
        }  # fmt: skip
    yield _study()
    yield from _one_call()


def _study() -> dict[str, Any]:
    settings = Scenarios()

    def study() -> None:
        for tasks in settings.tasks:
            family = Family(tasks, settings.shortest, settings.longest, settings.least_wcet)
            largest_ratios(
                family, list(settings.utilisations), list(settings.shares), sets=1000, seed=1, threads=1
            )

    spent = best_of(3, study)
    return {
        "name": "rt.study_81_scenarios_1000_sets", "value": spent, "unit": "s of one core", "ratio": spent / 0.5,
        "peer": "the goal", "goal": "<= 0.5",
    }  # fmt: skip


def _one_call() -> Iterator[dict[str, Any]]:
    period, wcet = generate(Family(10, 1000, 10_000, 1000), 0.3, 1, seed=1)
    rows = list(zip(map(int, period[0]), map(int, wcet[0]), strict=True))
    tasks = TaskSet([Task(str(i), *map(_fraction, row)) for i, row in enumerate(rows)])
    calls = 20_000
    began = time.perf_counter()
    for _ in range(calls):
        tasks.response_times_ns(period_ns=VM_PERIOD, budget_ns=BUDGET)
    ours = (time.perf_counter() - began) / calls * 1e6
    began = time.perf_counter()
    for _ in range(50):
        plain_python([rows])
    peer = (time.perf_counter() - began) / 50 * 1e6
    yield {
        "name": "rt.one_call_from_python_n10", "value": ours, "unit": "us", "ratio": peer / ours,
        "peer": "the same in plain Python", "goal": "<= 5",
    }  # fmt: skip
    table = np.array([rows])
    began = time.perf_counter()
    for _ in range(calls):
        response_times(table[:, :, 0], table[:, :, 1], vm_period=VM_PERIOD, budget=BUDGET)
    arrays = (time.perf_counter() - began) / calls * 1e6
    assert math.isfinite(arrays)
    yield {
        "name": "rt.one_array_call_n10", "value": arrays, "unit": "us", "ratio": peer / arrays,
        "peer": "the same in plain Python", "goal": None,
    }  # fmt: skip


def _fraction(value: int) -> Any:
    from fractions import Fraction

    return Fraction(value)
