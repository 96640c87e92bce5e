"""What was written to disks of guests, and to all of a host, against the load."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.figures.machines.against_load import Against, against_load
from virtlab.report.gather.gathered import Gathered

METRIC = "disk_written"


def disk_figures(data: Gathered) -> Iterator[Figure]:
    """Written bytes per second over the load, where guests have disks and the load took several values."""
    found = [
        (result.quantity.role, result.cells)
        for result in data.results
        if (result.quantity.metric, result.quantity.statistic) == (METRIC, "mean")
        and result.quantity.role.endswith((".disk", ".disks"))
    ]
    said = Against(
        name=names.WRITES_PLOT,
        title="Writes to disks by load of {role}",
        value="Bytes written per second",
        axis="byte/s",
        scale={"scale": {"zero": True}, "axis": {"format": "~s"}},
        tip=".3~s",
        text=".4g",
    )
    if found and (figure := against_load(data, said, found)) is not None:
        yield figure
