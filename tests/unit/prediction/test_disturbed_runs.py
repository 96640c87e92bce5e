"""Runs in which other work of the machine had the processors of a pool: told apart by what was sampled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from virtlab.analysis.values import RunValue
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.prediction.calibration.pools import Loads, others
from virtlab.results.record import RunRecord

FILE = """
version: 1
name: pooled
hosts:
  h1:
    pools: {cores: {cpus: 2, BY}, clients: {cpus: 1}}
    guests: {app: {platform: namespace, pool: cores}, clients: {platform: namespace, pool: clients}}
roles:
  clients: {workload: request_response, from: h1.clients, to: h1.app, demand: 1 ms, rate: 10 request/s, duration: 1 s}
"""


def record(by: str = "by: affinity", processors: object = (4, 6)) -> RunRecord:
    experiment = load_text(FILE.replace("BY", by))
    objects = {
        "pools.h1.cores": SimpleNamespace(
            applied={"processors": list(processors) if isinstance(processors, tuple) else processors}
        ),
        "pools.h1.clients": SimpleNamespace(applied={"processors": [5]}),
    }
    plan = plan_run(experiment, experiment.points()[0], 0)
    return cast("RunRecord", SimpleNamespace(plan=plan, realised=SimpleNamespace(objects=objects)))


def used(**by_entity: float | None) -> list[RunValue]:
    names: dict[str, Any] = {"pool": "pools.h1.cores", "clients": "pools.h1.clients"}
    return [
        RunValue(
            "r", 0, {}, 0, "none", names.get(one, one.replace("_", ".")), "cpu", "mean", value, "ratio", 1
        )
        for one, value in by_entity.items()
    ]


def test_it_is_what_the_processors_did_and_the_guests_did_not() -> None:
    rows = used(pool=0.9, clients=0.1, host_cpu4=0.9, host_cpu5=1.0, host_cpu6=0.6)
    assert others(record(), rows) == pytest.approx((0.9 + 0.6 - 0.9) / 2), (
        "and the clients' pool serves nothing"
    )


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("by: affinity", used(pool=0.9, host_cpu4=1.0)),
        ("by: affinity", used(pool=None, host_cpu4=1.0, host_cpu6=1.0)),
        ("by: affinity", used(host_cpu4=1.0, host_cpu6=1.0)),
        ("by: quota", used(pool=0.1, host_cpu4=1.0, host_cpu6=1.0)),
    ],
)
def test_what_was_not_sampled_or_has_no_processors_of_its_own_is_not_guessed(
    by: str, rows: list[RunValue]
) -> None:
    assert others(record(by), rows) == 0.0


def test_a_run_of_the_simulator_has_no_other_work() -> None:
    assert others(record(processors=2.0), used(pool=0.1, host_cpu4=1.0, host_cpu6=1.0)) == 0.0


def test_only_runs_that_other_work_disturbed_are_spoken_of() -> None:
    assert Loads([], []).said_of_disturbance() is None
    said = Loads([record(), record()], [{}, {}], disturbed=1).said_of_disturbance()
    assert said is not None
    assert "in 1 of 2 runs other processes had more than 10% of a pool's processors" in said
