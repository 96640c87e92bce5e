"""Whether results come out the same again: variance within a run and between runs, as a table and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from virtlab.analysis.effects.recurrence import Recurrence
from virtlab.report import names
from virtlab.report.gather.distributions.recurrence import Recurring, Setting
from virtlab.report.gather.gathered import Gathered
from virtlab.report.tables.table import Block, Column, absent, in_unit, number, setting_columns, table
from virtlab.units import display

_SHARES = {"share between": "icc", "low": "low", "high": "high"}


def recurrence_table(data: Gathered, recurrence: Recurring) -> Block:
    """Per setting: what varies within a run, what between runs, and the share of the latter with its interval."""
    shown = display(recurrence.unit, [box.summary.mean for one in recurrence.settings for box in one.runs])
    level = next((one.components.level for one in recurrence.settings if one.components), 0.95)

    def component(title: str, says: Callable[[Recurrence], str]) -> Column[Setting]:
        return number(title, lambda row: says(row.components) if row.components else absent("not estimable"))

    def share(title: str, field: str) -> Column[Setting]:
        return component(title, lambda had: f"{getattr(had, field):.1%}")

    return table(
        [
            *setting_columns(data.design.varying, recurrence.settings),
            number("runs", lambda row: str(len(row.runs))),
            number("samples per run", lambda row: f"{row.samples / len(row.runs):.0f}"),
            number(
                "worth", lambda row: f"{row.components.effective_samples:.0f}" if row.components else None
            ),
            number(in_unit("mean", shown.unit), lambda row: shown.number(row.mean, 5)),
            component(in_unit("sd within a run", shown.unit), lambda had: shown.number(had.within_sd)),
            component(in_unit("sd between runs", shown.unit), lambda had: shown.number(had.between_sd)),
            *(share(title, field) for title, field in _SHARES.items()),
        ],
        recurrence.settings,
        name=names.of_metric("recurrence", recurrence.role, recurrence.metric),
        title="variance within and between runs",
        caption=f"{recurrence.role}.{recurrence.metric}: standard deviation within a run and between runs; the share of the "
        f"variance that lies between runs (intra-class correlation) with its {level * 100:g} % interval; 'worth' is how "
        "many independent samples say as much as those of a run, which follow each other",
    )


def recurrence_rows(recurrences: Sequence[Recurring]) -> list[dict[str, Any]]:
    """The same for programs: values in the metric's unit; None where not estimable."""
    return [
        {
            "role": one.role, "metric": one.metric, "unit": one.unit, "point": dict(setting.point),
            "realisation": setting.realisation, "runs": len(setting.runs), "samples": setting.samples, "mean": setting.mean,
            "within_sd": getattr(setting.components, "within_sd", None),
            "between_sd": getattr(setting.components, "between_sd", None),
            "share_between": getattr(setting.components, "icc", None),
            "low": getattr(setting.components, "low", None), "high": getattr(setting.components, "high", None),
        }
        for one in recurrences
        for setting in one.settings
    ]  # fmt: skip
