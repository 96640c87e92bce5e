"""The level of the report's intervals: as stated, and stricter only where a campaign stopped at an early look."""

from __future__ import annotations

import pytest

from virtlab.analysis import RunTable, RunValue
from virtlab.metrics import MetricPath
from virtlab.report.gather.results import result_of
from virtlab.stats import look_level

LOOKS = (4, 8)


def table(sizes: dict[str, int], looks: tuple[int, ...] = LOOKS) -> RunTable:
    """Runs of a probe, so many per level of `load`."""
    rows = [
        RunValue(
            f"p{point}-r{n}", point, {"load": level}, n, "veth", "probe", "rtt", "mean", 1000.0 + n, "ns", 10
        )
        for point, (level, size) in enumerate(sizes.items())
        for n in range(size)
    ]
    return RunTable(tuple(rows), looks, {"load": tuple(sizes)})


def levels(of: RunTable) -> list[float]:
    """The level of each cell's interval at 95 % stated."""
    points = {row.point: dict(row.levels) for row in of.rows}
    found = result_of(of, MetricPath.parse("probe.rtt.mean"), points, 0.95)
    return [cell.estimate.level for cell in found.cells if cell.estimate is not None]


@pytest.mark.slow
def test_only_a_cell_that_ended_at_an_early_look_has_a_stricter_level() -> None:
    early = look_level(LOOKS, 0.95)
    assert early > 0.95
    assert levels(table({"0 B": 4, "30 kB": 8})) == [early, 0.95]


def test_a_fixed_number_of_runs_keeps_the_stated_level() -> None:
    assert levels(table({"0 B": 4, "30 kB": 4}, looks=())) == [0.95, 0.95]
    assert levels(table({"0 B": 2}, looks=(4,))) == [0.95]
