"""The real-time room's answers on examples that can be checked by hand, and its arrays against plain Python."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtlab import _native
from virtlab.realtime import Task, TaskSet, analyze, best, front, least_budget, periods, sensitivity
from virtlab.realtime.arrays import BEYOND, Family, generate, largest_ratios, response_times
from virtlab.realtime.examples import THREE_TASKS, TWO_TASKS, UNIT_NS, example
from virtlab.realtime.model import period_bound, three_lines

U = UNIT_NS


def test_the_three_task_example_in_exact_rationals():
    found = periods(example(*THREE_TASKS), share=Fraction(2, 5)).to_json()
    assert found["max_period_ns"] == "10000000"
    assert found["safe_period_ns"] == "22000000/3"
    assert found["intervals_ns"] == [
        ["0", "22000000/3"],
        ["7500000", "8000000"],
        ["25000000/3", "27500000/3"],
        ["10000000", "10000000"],
    ]
    assert found["rounded"] == {"period_ns": 10_000_000, "budget_ns": 4_000_000, "schedulable": True}
    json.dumps(found)


@pytest.mark.parametrize(
    ("count", "share", "largest"),
    [
        (1, Fraction(2, 5), Fraction(35, 3)),
        (2, Fraction(2, 5), Fraction(65, 6)),
        (3, Fraction(1, 2), Fraction(14)),
    ],
)
def test_largest_periods_of_the_example(count, share, largest):
    assert periods(example(*THREE_TASKS[:count]), share=share).max_period_ns == largest * U


def test_the_isolated_point_is_schedulable_and_its_neighbour_is_not():
    tasks = example(*THREE_TASKS)
    assert analyze(tasks, period_ns=10 * U, budget_ns=4 * U).schedulable
    assert not analyze(tasks, period_ns=Fraction(19, 2) * U, budget_ns=Fraction(19, 5) * U).schedulable


def test_a_witness_proves_its_task():
    period, budget = Fraction(6 * U), Fraction(3 * U)
    for task in analyze(example(*TWO_TASKS), period_ns=period, budget_ns=budget).tasks:
        proof = task.witness
        assert proof is not None
        assert budget >= proof.w_ns / proof.k
        assert period - budget <= (proof.t_ns - proof.w_ns) / (proof.k + 1)


def test_a_response_time_exactly_at_the_deadline_is_safe():
    tasks = TaskSet(
        [Task("a", Fraction(8), Fraction(1)), Task("b", Fraction(15), Fraction(3), deadline_ns=Fraction(14))]
    )
    found = analyze(tasks, period_ns=6, budget_ns=3).tasks[1]
    assert (found.wcrt_ns, found.slack_ns, found.schedulable) == (14, 0, True)


def test_equal_periods_keep_the_order_of_the_file():
    found = analyze(
        TaskSet([Task("x", Fraction(20), Fraction(2)), Task("y", Fraction(20), Fraction(3))]),
        period_ns=4,
        budget_ns=2,
    )
    assert found.order == ("x", "y")
    assert found.tasks[0].wcrt_ns < found.tasks[1].wcrt_ns


def test_an_exact_multiple_of_the_budget_does_not_wait_for_another_period():
    assert [_native.rt_supply(w, 1, 6, 3)[0] for w in (1, 3, 4, 5, 6)] == [7, 9, 13, 14, 15]


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9), st.integers(1, 300), st.booleans())
def test_time_to_supply_is_the_least_time_with_that_supply(period, budget, overhead, demand, polling):
    if not overhead < budget <= period:
        return
    t, _ = _native.rt_supply(demand, 1, period, budget, overhead, polling)
    assert _native.rt_supply(1, t, period, budget, overhead, polling)[1] >= demand
    assert _native.rt_supply(1, t - 1, period, budget, overhead, polling)[1] < demand


def test_a_polling_server_waits_longer_by_its_budget():
    task = TaskSet([Task("a", Fraction(100), Fraction(2))])
    kept = analyze(task, period_ns=10, budget_ns=4).tasks[0].wcrt_ns
    dropped = analyze(task, period_ns=10, budget_ns=4, server="polling").tasks[0].wcrt_ns
    assert (kept, dropped) == (14, 18)


def test_audsley_finds_what_deadline_order_misses():
    # Blocking hits b alone, so b must not stand where deadline order puts it.
    tasks = [
        Task("a", Fraction(20), Fraction(4), blocking_ns=Fraction(6)),
        Task("b", Fraction(21), Fraction(4)),
        Task("c", Fraction(60), Fraction(2)),
    ]
    results = {
        policy: periods(TaskSet(tasks, policy), share=Fraction(3, 5)).max_period_ns
        for policy in ("dm", "opa")
    }
    assert results["opa"] >= results["dm"]
    found = least_budget(TaskSet(tasks, "opa"), period_ns=5).budget_ns
    for order in (
        ("a", "b", "c"),
        ("b", "a", "c"),
        ("a", "c", "b"),
        ("c", "a", "b"),
        ("b", "c", "a"),
        ("c", "b", "a"),
    ):
        named = {task.name: task for task in tasks}
        given_set = TaskSet([named[name] for name in order], "given")
        other = least_budget(given_set, period_ns=5).budget_ns
        assert other is None or found <= other


def test_edf_needs_no_more_than_fixed_priorities():
    rows = example(*THREE_TASKS).tasks
    fixed, edf = (least_budget(TaskSet(rows, policy), period_ns=8 * U).budget_ns for policy in ("rm", "edf"))
    assert edf <= fixed


def test_rounded_answers_are_proved_and_round_the_budget_up():
    found = least_budget(example(*TWO_TASKS), period_ns=6 * U)
    assert found.budget_ns == Fraction(8, 3) * U
    assert found.rounded.budget_ns == 2_666_667
    assert found.rounded.schedulable


def test_the_front_trades_switches_for_share():
    curve = front(example(*THREE_TASKS), overhead_ns=20_000, points=8)
    first = best(example(*THREE_TASKS), overhead_ns=20_000)
    assert curve[0].share == first.share
    assert all(a.period_ns < b.period_ns and a.share < b.share for a, b in pairwise(curve))


def test_sensitivity_says_what_breaks_and_how_far_it_is():
    found = sensitivity(example(*TWO_TASKS), period_ns=6 * U, budget_ns=3 * U)
    assert found.wcet_growth_ns == {"1": Fraction(U, 2), "2": Fraction(U)}
    assert found.breaks["1"] == "2"
    grown = example(*TWO_TASKS).tasks
    grown = [grown[0], Task("2", grown[1].period_ns, grown[1].wcet_ns + U)]
    assert analyze(TaskSet(grown), period_ns=6 * U, budget_ns=3 * U).schedulable


def test_a_faster_core_divides_execution_times():
    slow = example((8, 2), (15, 6))
    assert analyze(slow.faster(Fraction(2)), period_ns=6 * U, budget_ns=3 * U).tasks[1].wcrt_ns == 14 * U


def test_arrays_of_another_shape_are_refused() -> None:
    sets = np.array([[8, 15]]), np.array([[1, 3]])
    for many in (1, 2):
        found = response_times(*sets, vm_period=6, budget=3, threads=many)
        assert (found.tolist(), found.dtype, found.flags.writeable) == ([[7, 14]], np.int64, True)
    with pytest.raises(ValueError, match="periods need the shape"):
        response_times(sets[0][0], sets[1], vm_period=6, budget=3)
    with pytest.raises(ValueError, match="arrays need one shape"):
        response_times(sets[0], sets[1][:, :1], vm_period=6, budget=3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_arrays_agree_with_plain_python(data):
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[2] / "theory" / "rt_reference.py"
    spec = importlib.util.spec_from_file_location("rt_reference_arrays", path)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    tasks, sets = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 20))
    rows = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 800)), min_size=tasks, max_size=tasks)
    drawn = [[(t, min(c, t)) for t, c in data.draw(rows)] for _ in range(sets)]
    period, budget = data.draw(
        st.tuples(st.integers(2, 400), st.integers(1, 400)).filter(lambda p: p[1] <= p[0])
    )
    overhead = data.draw(st.integers(0, budget - 1))
    table = np.array(drawn)
    found = response_times(table[:, :, 0], table[:, :, 1], vm_period=period, budget=budget, overhead=overhead)
    for row, values in zip(drawn, found.tolist(), strict=True):
        expected = reference.response_times(row, period, budget, overhead)
        assert [None if value == BEYOND else value for value in values] == expected


def test_studies_do_not_depend_on_the_number_of_threads():
    family = Family(10, 1000, 10_000, 1000)
    one, all_cores = (
        largest_ratios(family, [0.2], [Fraction(2, 5), Fraction(7, 10)], sets=50, seed=3, threads=threads)
        for threads in (1, 0)
    )
    assert np.array_equal(one, all_cores)


@pytest.mark.slow
def test_the_fast_largest_period_is_the_exact_one():
    family = Family(6, 10, 40, 5, ticks=10)
    period, wcet = generate(family, 0.3, 40, seed=9)
    ratios = largest_ratios(family, [0.3], [Fraction(1, 2)], sets=40, seed=9)[0, 0]
    for row in range(40):
        tasks = TaskSet(
            [
                Task(str(i), Fraction(int(t)), Fraction(int(c)))
                for i, (t, c) in enumerate(zip(period[row], wcet[row], strict=True))
            ]
        )
        exact = periods(tasks, share=Fraction(1, 2)).max_period_ns
        assert ratios[row] == pytest.approx(float(exact / int(period[row, 0])), rel=1e-12)


def test_the_bound_on_the_period_holds_for_every_set():
    for tasks in (10, 20):
        ratios = largest_ratios(
            Family(tasks, 1000, 10_000, 1000), [0.1], [Fraction(2, 5), Fraction(7, 10)], sets=200, seed=1
        )
        assert ratios[0, 0].max() < period_bound(0.4)
        assert ratios[0, 1].max() < period_bound(0.7)


def test_the_three_line_model_on_its_two_worked_examples():
    possible = three_lines(share=0.54, utilisation=0.3, overhead=1, first_period=157, first_wcet=2)
    assert possible.left == pytest.approx(4.1667, abs=1e-4)
    assert -(-possible.left // 1) == 5
    impossible = three_lines(share=0.2, utilisation=0.1, overhead=16, first_period=161, first_wcet=2)
    assert impossible.left == pytest.approx(160)
    assert impossible.lower_line_at_left == pytest.approx(1.70, abs=0.005)
    assert not impossible.possible
