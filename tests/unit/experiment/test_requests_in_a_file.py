"""What a file may say of requests and their server: parameters that need or exclude each other, each with its cure."""

from __future__ import annotations

import pytest
from tests.requests_file import requests_file

from virtlab.experiment import load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.planner import plan_run


@pytest.mark.parametrize(
    ("role", "key", "cure"),
    [
        ("subtasks: 2", "subtasks", "write 'demand'"),
        ("demand: 1 ms, subtasks: 1025", "subtasks", "write at most 1024"),
        ("lock: 50 %", "lock", "write 'demand'"),
        ("demand: 1 ms, lock: 101 %", "lock", "write at most '100 %'"),
        ("demand_distribution: empirical", "demand_distribution", "write 'demand_samples: [0.8 ms, 1.2 ms, 9 ms]'"),
        ("demand_samples: [1 ms]", "demand_samples", "write 'demand_distribution: empirical'"),
        ("demand: 1 ms, demand_distribution: empirical, demand_samples: [1 ms]", "demand", "remove 'demand'"),
        ("demand_distribution: empirical, demand_samples: []", "demand_samples", "write 1 to 10000"),
        ("demand_distribution: empirical, demand_samples: [1 ms, soon]", "demand_samples[1]", "write e.g. '200 us'"),
        ("write_mode: fsync", "write_mode", "write e.g. 'write: 4 KiB'"),
        ("idle_write: 1 s", "idle_write", "write e.g. 'write: 4 KiB'"),
        ("write: 65 MiB", "write", "write at most '64 MiB'"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_one_mistake_with_its_cure(role: str, key: str, cure: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        load_text(requests_file(role))
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"roles.clients.{key}"
    assert cure in mistake.cure


def test_a_plan_says_what_a_request_costs_in_si_units_and_nothing_that_the_file_leaves_out() -> None:
    def parameters(role: str) -> dict[str, object]:
        experiment = load_text(requests_file(role))
        return dict(plan_run(experiment, next(iter(experiment.points())), 0).roles["clients"].parameters)

    plain = parameters("demand: 1 ms")
    rich = parameters(
        "serial_demand: 2 ms, demand_distribution: empirical, demand_samples: [0 ns, 1 ms, 1 ms], subtasks: 4, lock: 20 %, "
        "write: 4 KiB, write_mode: throttled, idle_write: 100 ms"
    )
    assert {key: rich[key] for key in rich.keys() - plain.keys()} == {
        "serial_demand_ns": 2_000_000, "demand_distribution": "empirical", "demand_samples_ns": [0, 1_000_000, 1_000_000],
        "subtasks": 4, "lock_ratio": 0.2, "write_bytes": 4096, "write_mode": "throttled", "idle_write_ns": 100_000_000,
    }  # fmt: skip


def test_a_period_without_its_unit_is_told_one_of_its_size() -> None:
    with pytest.raises(FileMistakesError) as raised:
        load_text(requests_file("demand: 1 ms", "collect: {telemetry: 1}\n"))
    (mistake,) = raised.value.mistakes
    assert mistake.cure == "write e.g. '1 s', or off"
