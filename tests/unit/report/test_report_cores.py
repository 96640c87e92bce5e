"""A busy core shows: each processor of the host during each test, beside the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from virtlab.report.figures.machines.cores import cores_figure
from virtlab.report.gather.model import Cell, Factor, Quantity, Result, RunValue

FACTOR = Factor("pin", ("none", "one"))


def busy(role: str, shares: dict[str, list[float]], statistic: str = "mean") -> Result:
    cells = tuple(
        Cell(
            {"pin": level},
            "shaping",
            tuple(RunValue(f"r{at}", at, value) for at, value in enumerate(values)),
            None,
        )
        for level, values in shares.items()
    )
    return Result(Quantity(role, "cpu", statistic, "ratio"), cells)


def gathered(*results: Result) -> Any:
    plan = {"timeline": [{"id": "b", "role": "second"}, {"id": "a", "role": "first"}]}
    return SimpleNamespace(
        results=results,
        design=SimpleNamespace(factors=(FACTOR,)),
        realisations=["shaping"],
        world=SimpleNamespace(plan=plan),
    )


def test_each_processor_stands_beside_the_others_in_the_order_of_the_tests() -> None:
    figure = cores_figure(
        gathered(
            busy("first.host.cpu0", {"none": [0.2, 0.4], "one": [0.1]}),
            busy("first.host.cpu1", {"none": [0.2], "one": [0.9]}),
            busy("second.host.cpu0", {"none": [0.3], "one": []}),
            busy("host.cpu0", {"none": [1.0], "one": [1.0]}),  # over the whole run: no test
            busy("first.host.cpu", {"none": [1.0], "one": [1.0]}),  # all processors together
            busy("first.host.cpu0", {"none": [1.0]}, "max"),
        )
    )
    assert figure is not None
    assert figure.name == "cpu-of-cores-during-tests"
    bars = [row for row in figure.spec["data"]["values"] if row["kind"] == 0]
    assert [(row["x"], row["core"], row["panel"], row["low"], row["high"]) for row in bars] == [
        ("first", "0", "pin none", 0.2, 0.4), ("first", "0", "pin one", 0.1, 0.1), ("first", "1", "pin none", 0.2, 0.2),
        ("first", "1", "pin one", 0.9, 0.9), ("second", "0", "pin none", 0.3, 0.3),
    ]  # fmt: skip
    assert figure.spec["spec"]["layer"][0]["encoding"]["x"]["sort"] == ["second", "first"]
    assert "processor 1 during first at pin one 90%" in figure.alt


def test_without_values_of_single_tests_there_is_no_such_plot() -> None:
    assert cores_figure(gathered(busy("host.cpu0", {"none": [0.5]}))) is None
