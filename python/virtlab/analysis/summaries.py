"""Statistics that a tool computed itself, of imported roles: they stand where samples give no value.

What neither samples nor the tool give is absent with that reason, not with one that speaks of our own probe.
"""

from __future__ import annotations

from dataclasses import replace

from virtlab.analysis.values import Collector, RunValue
from virtlab.metrics import METRICS
from virtlab.results.record import RunRecord

SCHEMA = "summary/1"
NOT_TOLD = "the tool that measured it does not say"


def values(record: RunRecord, role: str, out: Collector) -> None:
    """Puts the tool's statistics among the values of a role."""
    if not record.has(role, SCHEMA):
        return
    rows = record.samples(role, SCHEMA)
    told: dict[tuple[str, str], tuple[float, int]] = {}
    for metric, statistic, value, samples in zip(
        *(rows[name].tolist() for name in ("metric", "statistic", "value", "samples")), strict=True
    ):
        if metric in METRICS and statistic in METRICS[metric].statistics:
            told[metric, statistic] = value, samples
    for at, one in enumerate(out.values):
        if one.role == role and one.value is None:
            out.values[at] = _with(one, told.pop((one.metric, one.statistic), None))
        elif one.role == role:
            told.pop((one.metric, one.statistic), None)
    out.role = role
    for (metric, statistic), (value, samples) in told.items():
        out.add(metric, statistic, value, samples)


def _with(value: RunValue, summary: tuple[float, int] | None) -> RunValue:
    if summary is None:
        return replace(value, reason=NOT_TOLD)
    return replace(value, value=summary[0], samples=summary[1], reason="")
