"""Processors over time and against the load: shares of the host's and of what guests may use are pictures apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from virtlab.report.figures.machines.processing import processing_figures
from virtlab.report.gather.model import Cell, Factor, Quantity, Result, RunValue
from virtlab.report.gather.processing import LINES, busiest, courses_of

RATE = Factor("rate", ("100 request/s", "200 request/s"))
SECOND = 1_000_000_000


def mean_of(role: str, metric: str, *values: float) -> Result:
    cells = tuple(
        Cell({"rate": level}, "shaping", (RunValue(f"r{at}", at, value),), None)
        for at, (level, value) in enumerate(zip(RATE.levels, values, strict=True))
    )
    return Result(Quantity(role, metric, "mean", "ratio"), cells)


def gathered(*results: Result, courses: Any = ()) -> Any:
    return SimpleNamespace(
        results=results,
        design=SimpleNamespace(factors=(RATE,)),
        realisations=["shaping"],
        samples=SimpleNamespace(processing=courses),
    )


def record(name: str, point: int) -> Any:
    return SimpleNamespace(name=name, point=point, windows={"measured": (2 * SECOND, 6 * SECOND)})


@pytest.fixture
def db() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute(
        "CREATE TABLE series (run VARCHAR, status VARCHAR, t_ns BIGINT, entity VARCHAR, metric VARCHAR, value DOUBLE)"
    )
    for run, used in (("a", 0.1), ("b", 0.4)):
        for second in range(1, 8):
            for entity, metric, value in (
                ("host.cpu", "cpu", 0.5 + used),
                ("host.cpu0", "cpu", 0.9),
                ("guests.g", "host_cpu_share", used),
                ("guests.g", "cpu_share", 2 * used if second != 4 else 1.0),
                ("guests.g", "cpu", 4 * used),
            ):
                made.execute(
                    "INSERT INTO series VALUES (?, 'ok', ?, ?, ?, ?)",
                    [run, second * SECOND, entity, metric, value],
                )
    return made


@pytest.mark.slow
def test_exemplar_runs_have_both_shares_inside_the_window_from_its_beginning(
    db: duckdb.DuckDBPyConnection,
) -> None:
    points = {0: {"rate": RATE.levels[0]}, 1: {"rate": RATE.levels[1]}}
    found = courses_of(db, [record("a", 0), record("b", 1)], points)
    assert [(one.run, one.entity, one.share) for one in found] == [
        ("a", "guests.g", "guests"), ("a", "guests.g", "host"), ("a", "host.cpu", "host"),
        ("b", "guests.g", "guests"), ("b", "guests.g", "host"), ("b", "host.cpu", "host"),
    ]  # fmt: skip
    assert found[0].x == (0, 1, 2, 3, 4)
    assert found[0].y == (0.2, 0.2, 1.0, 0.2, 0.2)
    assert found[5].y == pytest.approx([0.9] * 5)
    over = {figure.name: figure for figure in processing_figures(gathered(courses=found))}
    assert list(over) == ["cpu-of-host-over-time", "cpu-of-guests-over-time"]
    rows = over["cpu-of-guests-over-time"].spec["data"]["values"]
    assert {row["entity"] for row in rows} == {"guests.g"}


@pytest.mark.slow
def test_a_dataset_without_telemetry_has_no_such_plots(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("DELETE FROM series WHERE metric != 'cpu'")
    assert courses_of(db, [record("a", 0)], {}) == ()
    assert list(processing_figures(gathered(mean_of("host.cpu", "cpu", 0.5, 0.6)))) == []


def test_shares_are_drawn_against_the_load_that_took_several_values() -> None:
    data = gathered(
        mean_of("clients", "request_rate", 100, 200),
        mean_of("host.cpu", "cpu", 0.3, 0.5),
        mean_of("guests.g", "host_cpu_share", 0.1, 0.2),
        mean_of("guests.g", "cpu_share", 0.4, 0.8),
    )
    found = {figure.name: figure for figure in processing_figures(data)}
    assert list(found) == ["cpu-of-host-by-load", "cpu-of-guests-by-load"]
    rows = found["cpu-of-guests-by-load"].spec["layer"][2]["data"]["values"]
    assert [(row["x"], row["y"], row["entity"]) for row in rows] == [
        (100, 0.4, "guests.g"),
        (200, 0.8, "guests.g"),
    ]
    rows = found["cpu-of-host-by-load"].spec["layer"][2]["data"]["values"]
    assert {row["entity"] for row in rows} == {"host.cpu", "guests.g"}
    one_load = gathered(
        mean_of("clients", "request_rate", 100, 100), mean_of("guests.g", "cpu_share", 0.4, 0.8)
    )
    assert list(processing_figures(one_load)) == []


def test_a_picture_has_the_host_and_the_guests_that_used_most() -> None:
    means = [(f"guests.g{number}", number / 100) for number in range(20)]
    chosen = busiest([*means, ("host.cpu", 0.0)])
    assert chosen[0] == "host.cpu"
    assert len(chosen) == LINES
    assert "guests.g19" in chosen
    assert "guests.g1" not in chosen
