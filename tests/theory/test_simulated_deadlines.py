"""Hard-deadline tasks in virtual time, held against their exact bounds: none is ever exceeded, and some are reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import Values, counters, parsed, simulated, values_of

from virtlab.analysis.workloads.rt_tasks import exact_bounds
from virtlab.simulator import Simulator

MS = 1_000_000
TASKS = [("control", 16.0, 2.0), ("filter", 24.0, 1.0), ("logger", 36.0, 4.0)]


def parameters(tasks: Sequence[tuple[str, float, float]] = TASKS, **more: Any) -> dict[str, Any]:
    """A role of the study realtime-vm; times of tasks in ms."""
    rows = [
        {
            "name": name,
            "period_ns": round(period * MS),
            "wcet_ns": round(wcet * MS),
            "deadline_ns": round(period * MS),
        }
        for name, period, wcet in tasks
    ]
    return {
        "tasks": rows, "period_ns": 10 * MS, "budget_ns": 5 * MS, "overhead_ns": MS // 2, "policy": "rm",
        "server": "deadline",
        "competitors": [], "phases": 8, "duration_ns": 2000 * MS, **more,
    }  # fmt: skip


def world(role: dict[str, Any]) -> Values:
    values = values_of()
    values["roles"] = {"probe": {"workload": "rt_tasks", "from": "a", **role}}
    values["collect"]["packets"] = ["probe"]
    return values


def played(role: dict[str, Any], seed: int = 1) -> tuple[Any, dict[str, int], Any]:
    """Kept samples, counters of the client, outcome."""
    outcome, kept = simulated(world(role), seed)
    assert outcome.status == "ok", outcome.reasons
    told = {
        name: value for (entity, name), value in counters(kept, "stop").items() if entity == "probe/client"
    }
    return kept, told, outcome


def longest(kept: Any, task: int) -> int:
    response = kept.column("probe", "rt_job/1", "response_ns")
    assert (response > 0).all()
    return int(response[kept.column("probe", "rt_job/1", "task") == task].max())


def test_the_most_urgent_task_waits_for_the_next_budget_and_its_start() -> None:
    """Released as the budget is gone: 10 - 5 ms to the next period, 0.5 ms of its start, 2 ms of its own."""
    kept, told, _ = played(parameters())
    assert longest(kept, 0) == 7_500_000
    assert told["missed_jobs"] == told["unfinished_jobs"] == told["shortfall_ns"] == 0
    assert told["jobs"] == len(kept.column("probe", "rt_job/1", "task"))


def test_each_period_brings_the_budget_less_what_its_start_costs() -> None:
    kept, told, _ = played(parameters())
    served, charged = (kept.column("probe", "rt_supply/1", name) for name in ("served_ns", "charged_ns"))
    assert set(served.tolist()) == {4_500_000}
    assert set(charged.tolist()) == {5_000_000}
    assert told["lost_ns"] == 500_000 * len(served)


def random_roles(count: int) -> list[dict[str, Any]]:
    """Task sets of moderate use beside competitors that leave the guest its budget."""
    draw = np.random.default_rng(7)
    roles = []
    for _ in range(count):
        tasks = [
            (f"t{place}", float(period), float(round(period * draw.uniform(0.03, 0.12), 1)))
            for place, period in enumerate(draw.choice([12, 16, 20, 24, 36, 50], size=3, replace=False))
        ]
        competitors = [
            {"period_ns": int(period) * MS, "budget_ns": int(period) * MS // 5}
            for period in draw.choice([3, 4, 7, 15, 40], size=2, replace=False)
        ]
        roles.append(
            parameters(
                tasks, competitors=competitors, policy=str(draw.choice(["rm", "given"])), overhead_ns=200_000
            )
        )
    return roles


@pytest.mark.slow
def test_no_job_is_later_than_its_bound_whatever_competes() -> None:
    slack = []
    for seed, role in enumerate(random_roles(30)):
        bounds = exact_bounds(role)
        kept, told, _ = played(role, seed)
        assert told["shortfall_ns"] == 0, "the supply keeps what the proof assumes"
        for place, task in enumerate(bounds.tasks):
            if task.wcrt_ns is None or task.wcrt_ns > role["tasks"][place]["period_ns"]:
                continue  # of a job that waits for the one before it there is no bound
            slack.append(float(task.wcrt_ns) - longest(kept, place))
    assert len(slack) > 50
    assert min(slack) >= 0
    assert min(slack) < 5 * MS, "bounds that nothing comes near would prove nothing here"


def test_a_budget_below_the_tasks_own_use_misses_deadlines() -> None:
    kept, told, _ = played(parameters(budget_ns=2_500_000))
    missed = kept.column("probe", "rt_job/1", "missed")
    assert told["missed_jobs"] == missed.sum() > 0
    assert told["shortfall_ns"] == 0, "the machine kept its promise; it was too small"


def test_competitors_delay_the_guest_and_equal_seeds_do_so_equally() -> None:
    role = parameters(competitors=[{"period_ns": 3 * MS, "budget_ns": MS}])
    first, again, other = (
        played(role, seed)[0].column("probe", "rt_job/1", "response_ns") for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert first.max() > played(parameters())[0].column("probe", "rt_job/1", "response_ns").max()


def test_a_role_that_is_stopped_has_what_it_had_until_then() -> None:
    whole, _, _ = played(parameters())
    values = world(parameters())
    stop = {
        "id": "end",
        "do": "stop",
        "role": "probe",
        "after": {"event": "measure.started", "plus_ns": 300 * MS},
    }
    values["timeline"].append(stop)
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    finish = kept.column("probe", "rt_job/1", "finish_ns")
    early = whole.column("probe", "rt_job/1", "finish_ns")
    assert 0 < len(finish) < len(early)
    assert finish[finish > 0].tolist() == early[: (finish > 0).sum()].tolist()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"competitors": [{"period_ns": 4 * MS, "budget_ns": 3 * MS}]}, "of a processor"),
        ({"budget_ns": 11 * MS}, "at most the period"),
    ],
)
def test_what_no_processor_has_is_refused(change: dict[str, Any], why: str) -> None:
    (refusal,) = Simulator().check(parsed(world(parameters(**change))))
    assert refusal.path == "roles.probe"
    assert why in refusal.reason
