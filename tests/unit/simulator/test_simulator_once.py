"""What runs of one world share is worked out once, and a run of its own seed is what it would be alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.experiment import Experiment, load, load_text
from virtlab.planner import plan_run
from virtlab.simulator.lower import lower, reseeded
from virtlab.simulator.once import Remembered, structure

FILE = Path(__file__).parents[3] / "experiments" / "switched-network" / "quick.yaml"
SERVED = """
version: 1
name: served
hosts: 2
topology: {shape: line, switches: 1}
services: {app: {kind: demand_server, on: h2.g1, demand: 1 ms, demand_distribution: exponential}}
roles: {one: ROLE, two: ROLE}
""".replace("ROLE", "{workload: request_response, from: h1.g1, to: app}")


@pytest.mark.slow
def test_repetitions_differ_in_their_seeds_alone() -> None:
    experiment = load(FILE)
    first, second = experiment.points()[:2]
    plans = [plan_run(experiment, first, 0), plan_run(experiment, first, 1), plan_run(experiment, second, 0)]
    assert structure(plans[0]) == structure(plans[1])
    assert structure(plans[0]) != structure(plans[2])
    assert plans[0].identity() != plans[1].identity()


@pytest.mark.parametrize("experiment", [load(FILE), load_text(SERVED)], ids=["switched", "served"])
def test_a_reseeded_world_is_the_one_lowered_with_that_seed(experiment: Experiment) -> None:
    point = experiment.points()[-1]
    base, other = (plan_run(experiment, point, repetition) for repetition in (0, 1))
    lowered = lower(base, base.seed)
    kept = lower(base, base.seed)
    assert base.seed != other.seed
    assert reseeded(lowered, other, other.seed) == lower(other, other.seed)
    assert lowered == kept, "what is remembered is not changed"


def test_the_oldest_result_is_forgotten_first() -> None:
    made: list[int] = []
    remembered: Remembered[int] = Remembered(most=2)

    def of(key: int) -> int:
        return remembered.of(key, lambda: made.append(key) or key)

    assert [of(key) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]
