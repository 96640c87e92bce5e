"""What is drawn around moves: every time is from the start of the first one, before it negative; what did nothing is
left out; moves at the same time are shaded once.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.test_analysis_values import RTT, START, plan_with, record_of, replies
from tests.unit.analysis.test_what_clients_notice_of_a_move import MS, moving

from virtlab.report import names
from virtlab.report.figures.machines.around_moves import LINES, around_moves_figures
from virtlab.report.gather.around_moves import LARGEST, MEDIAN, Around, Line, Span, around_moves_of
from virtlab.report.gather.distributions.samples import declare_windows
from virtlab.results import Dataset

SERIES = [  # ms after the start, of, metric, value
    (2000, "guests.b", "host_cpu_share", 0.2),
    (2050, "guests.b", "host_cpu_share", 0.3),
    (4500, "guests.b", "host_cpu_share", 0.1),
    (2000, "hosts.h1", "cpu", 0.4),
    (2000, "guests.b", "cpu", 3.0),  # processors, no share
    (2000, "guests.a", "host_cpu_share", 0.0),  # did nothing
    (2000, "guests.b.disk", "disk_written", 5e6),
    (9000, "hosts.h2.disks", "disk_written", 6e6),
    (11000, "hosts.h2.disks", "disk_written", 9e6),  # after the measured window
    (4000, "guests.b", "migration_time", 2e9),
]  # fmt: skip


def around(folder: Path, plan: Any, **more: Any) -> tuple[Around, ...]:
    """A move from 3 to 5 s after the start; replies every 10 ms from the start on, the third takes 7 ms.

    `more`: blocks of other roles, by their names.
    """
    at, of, metric, value = zip(*SERIES, strict=True)
    rows = {
        "t_ns": START + MS * np.array(at),
        "entity": np.array(of, dtype=object),
        "metric": np.array(metric, dtype=object),
        "value": np.array(value),
    }
    blocks = {("r", "rtt/1"): replies([0, 1, 2], [MS, 2 * MS, 7 * MS]), ("telemetry", "series/1"): rows}
    blocks |= {(role, "transaction/1"): block for role, block in more.items()}
    record_of(
        folder, plan, blocks, window=(START, START + 10_000 * MS), own=(START + 3000 * MS, START + 5000 * MS)
    )
    dataset = Dataset.open(folder / "d.results")
    with dataset.database() as db:
        declare_windows(db, dataset.runs())
        return around_moves_of(db, dataset.runs(), {0: {"dirty": "2 MB/s"}})


@pytest.mark.slow
def test_times_are_from_the_start_of_the_move(tmp_path: Path) -> None:
    (one,) = around(tmp_path, moving(RTT))
    assert one.spans == (Span("b", 0.0, 2.0),)
    assert one.width_ns == 100 * MS
    lines = {(line.quantity, line.of, line.statistic): (line.x, line.y) for line in one.lines}
    assert lines.pop(("response times", "b", MEDIAN)) == ((-3.0,), (2.0 * MS,))
    assert lines.pop(("response times", "b", LARGEST)) == ((-3.0,), (7.0 * MS,))
    assert lines.pop(("processors", "guests.b", LARGEST)) == ((-0.95, 1.5), (0.3, 0.1))
    assert lines.pop(("processors", "hosts.h1", LARGEST)) == ((-1.0,), (0.4,))
    assert lines.pop(("writes", "guests.b.disk", LARGEST)) == ((-1.0,), (5e6,))
    assert lines.pop(("writes", "hosts.h2.disks", LARGEST)) == ((6.0,), (6e6,))
    assert not lines
    assert {line.of: line.guest for line in one.lines} == {
        "b": "b", "guests.b": "b", "guests.b.disk": "b", "hosts.h1": "", "hosts.h2.disks": "",
    }  # fmt: skip


@pytest.mark.slow
def test_two_kinds_of_times_of_one_guest_are_two_lines(tmp_path: Path) -> None:
    plan = moving(RTT)
    asks = plan.roles["r"].model_copy(update={"workload": "tcp_rr", "parameters": {"duration_ns": 10**9}})
    begun = START + MS * np.array([0, 10])
    block = {"flow": np.zeros(2, np.int32), "started_ns": begun, "finished_ns": begun + 40 * MS}
    (one,) = around(tmp_path, plan.model_copy(update={"roles": {**plan.roles, "t": asks}}), t=block)
    times = {
        line.of: line.y
        for line in one.lines
        if line.quantity == "response times" and line.statistic == MEDIAN
    }
    assert sorted(y for y, *_ in times.values()) == [2.0 * MS, 40.0 * MS]
    assert all(of.startswith("b, ") for of in times)


@pytest.mark.slow
def test_a_run_without_a_move_has_nothing_around_it(tmp_path: Path) -> None:
    assert around(tmp_path, plan_with(RTT)) == ()


def drawn(*found: Around) -> dict[str, Any]:
    return {
        one.name: one
        for one in around_moves_figures(SimpleNamespace(samples=SimpleNamespace(around_moves=found)))
    }  # type: ignore[arg-type]


def lines_of(what: Any, *of: str) -> tuple[Line, ...]:
    return tuple(
        Line(what, each, each.removeprefix("guests."), LARGEST, (-1.0, 1.0), (0.1, 0.2)) for each in of
    )


def test_moves_at_the_same_time_are_shaded_once() -> None:
    spans = (Span("v", 0.0, 2.0), Span("w", 1.0, 3.0), Span("x", 4.0, 5.0))
    figure = drawn(Around("r", {}, 100 * MS, spans, lines_of("processors", "guests.v")))[
        names.AROUND_MOVES_PLOTS["processors"]
    ]
    shade, line = figure.spec["layer"]
    assert [(row["x"], row["x2"]) for row in shade["data"]["values"]] == [(0.0, 3.0), (4.0, 5.0)]
    assert {row["of"] for row in line["data"]["values"]} == {"guests.v (moves)"}
    assert "w from 1 to 3 s" in figure.alt


def test_hosts_and_guests_that_move_are_drawn_before_others() -> None:
    others = [f"guests.o{at}" for at in range(LINES)]
    lines = lines_of("writes", *others, "guests.v", "hosts.h1")
    figure = drawn(Around("r", {}, 100 * MS, (Span("v", 0.0, 1.0),), lines))[
        names.AROUND_MOVES_PLOTS["writes"]
    ]
    colour = figure.spec["layer"][1]["encoding"]["color"]
    assert colour["sort"][:2] == ["hosts.h1", "guests.v (moves)"]
    assert len(colour["sort"]) == LINES
    assert "2 more are left out" in figure.subtitle


@pytest.mark.parametrize("what", ["response times", "processors", "writes"])
def test_settings_have_a_panel_each(what: Any) -> None:
    points = [{"dirty": level} for level in ("1 MB/s", "2 MB/s")]
    found = [
        Around(f"r{at}", point, 10 * MS, (Span("v", 0.0, 1.0),), lines_of(what, "v"))
        for at, point in enumerate(points)
    ]
    (figure,) = drawn(*found).values()
    assert figure.spec["facet"]["sort"] == ["dirty 1 MB/s", "dirty 2 MB/s"]


def test_without_moves_nothing_is_drawn() -> None:
    assert drawn() == {}
