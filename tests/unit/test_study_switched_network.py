"""The switched-network study is whole: three forms, every figure of the source, numbers that its page repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.experiment import Experiment, load
from virtlab.planner.estimate import estimate_points

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "experiments" / "switched-network"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name != "figures.yaml")


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: load(path) for path in FILES}


def test_the_quick_form_is_planned_to_take_less_than_two_minutes(experiments: dict[str, Experiment]) -> None:
    quick = experiments["quick.yaml"]
    time_ns = sum(cost.time_ns for cost in estimate_points(quick)) * quick.repeat.maximum
    assert time_ns < 120 * 10**9


def test_the_published_loads_are_all_there(experiments: dict[str, Experiment]) -> None:
    published = experiments["published.yaml"]
    assert published.factors["load"] == tuple(f"{size} kB" for size in range(0, 86, 5))
    study = published.study(published.points()[-1])
    probe = study.roles["probe"].parameters
    assert (probe["count"], probe["interval_ns"], probe["ip_packet_bytes"]) == (1000, 100_000_000, 1500)
    assert study.roles["load"].parameters["period_ns"] == 10_000_000
