"""The exact answers against a simulation of the worst supply that shares no formula with them."""

from __future__ import annotations

import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from virtlab.realtime import Task, TaskSet, analyze, best, least_budget, periods

_SPEC = importlib.util.spec_from_file_location("rt_reference", Path(__file__).parent / "rt_reference.py")
assert _SPEC is not None
assert _SPEC.loader is not None
reference = importlib.util.module_from_spec(_SPEC)
sys.modules["rt_reference"] = reference
_SPEC.loader.exec_module(reference)

RAW = st.lists(st.tuples(st.integers(6, 40), st.integers(1, 4)), min_size=1, max_size=4)


def task_set(raw: list[tuple[int, int]]) -> tuple[TaskSet, list[tuple[Fraction, Fraction]]]:
    rows = sorted(((Fraction(t), Fraction(min(c, t))) for t, c in raw), key=lambda row: row[0])
    return TaskSet([Task(str(i), t, c) for i, (t, c) in enumerate(rows)], "given"), rows


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(RAW, st.integers(1, 14), st.integers(1, 14), st.integers(0, 2), st.booleans())
def test_response_times_are_those_of_the_simulated_worst_case(raw, period, budget, overhead, polling):
    assume(overhead < budget <= period)
    tasks, rows = task_set(raw)
    found = analyze(
        tasks,
        period_ns=period,
        budget_ns=budget,
        overhead_ns=overhead,
        server="polling" if polling else "periodic",
    )
    windows = reference.worst_windows(
        Fraction(period), Fraction(budget), Fraction(overhead), Fraction(200), polling
    )
    simulated = reference.first_response(rows, windows)
    for task, value in zip(found.tasks, simulated, strict=True):
        if task.schedulable:
            assert value == task.wcrt_ns
        else:
            assert value is None or value > task.deadline_ns


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(RAW, st.integers(1, 14), st.integers(1, 14), st.integers(0, 2))
def test_no_job_of_a_safe_set_is_later_than_its_bound_over_many_periods(raw, period, budget, overhead):
    assume(overhead < budget <= period)
    tasks, rows = task_set(raw)
    found = analyze(tasks, period_ns=period, budget_ns=budget, overhead_ns=overhead)
    assume(found.schedulable)
    windows = reference.worst_windows(Fraction(period), Fraction(budget), Fraction(overhead), Fraction(900))
    played = reference.play(rows, windows, Fraction(400))
    for task, value in zip(found.tasks, played, strict=True):
        assert value is not None
        assert task.wcrt_ns is not None
        assert value <= task.wcrt_ns


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    RAW, st.integers(1, 9), st.integers(0, 2), st.fractions(Fraction(1, 4), Fraction(30), max_denominator=12)
)
def test_a_period_is_in_the_exact_set_iff_the_simulation_meets_every_deadline_there(
    raw, tenths, overhead, period
):
    tasks, rows = task_set(raw)
    share = Fraction(tenths, 10)
    assume(tasks.utilisation < share)
    assume(period * share > overhead)
    found = periods(tasks, share=share, overhead_ns=overhead)
    inside = any(low <= period <= high for low, high in found.intervals_ns)
    assert inside == reference.schedulable(rows, period, period * share, Fraction(overhead))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(RAW, st.integers(1, 9), st.integers(0, 2))
def test_the_ends_of_every_interval_are_safe_and_just_outside_is_not(raw, tenths, overhead):
    tasks, rows = task_set(raw)
    share = Fraction(tenths, 10)
    assume(tasks.utilisation < share)
    tiny = Fraction(1, 10**6)
    for low, high in periods(tasks, share=share, overhead_ns=overhead).intervals_ns[-6:]:
        assert reference.schedulable(rows, high, high * share, Fraction(overhead))
        assert not reference.schedulable(rows, high + tiny, (high + tiny) * share, Fraction(overhead))
        if low > 0:
            assert reference.schedulable(rows, low, low * share, Fraction(overhead))
            if (low - tiny) * share > overhead:
                assert not reference.schedulable(rows, low - tiny, (low - tiny) * share, Fraction(overhead))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(RAW, st.integers(2, 14), st.integers(0, 2), st.booleans())
def test_the_least_budget_is_least(raw, period, overhead, polling):
    tasks, rows = task_set(raw)
    server = "polling" if polling else "periodic"
    found = least_budget(tasks, period_ns=period, overhead_ns=overhead, server=server).budget_ns
    if found is None:
        assert period <= overhead or not reference.schedulable(
            rows, Fraction(period), Fraction(period), Fraction(overhead), polling
        )
        return
    assert reference.schedulable(rows, Fraction(period), found, Fraction(overhead), polling)
    below = found - Fraction(1, 10**6)
    assert below <= overhead or not reference.schedulable(
        rows, Fraction(period), below, Fraction(overhead), polling
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(RAW, st.integers(1, 3))
def test_no_budget_at_the_best_period_or_around_it_has_a_smaller_share(raw, overhead):
    tasks, rows = task_set(raw)
    found = best(tasks, overhead_ns=overhead)
    if found is None:
        return
    assert reference.schedulable(rows, found.period_ns, found.budget_ns, Fraction(overhead))
    for factor in (
        Fraction(1, 2),
        Fraction(9, 10),
        Fraction(99, 100),
        Fraction(101, 100),
        Fraction(11, 10),
        Fraction(3, 2),
    ):
        other = least_budget(tasks, period_ns=found.period_ns * factor, overhead_ns=overhead)
        assert other.share is None or other.share >= found.share
