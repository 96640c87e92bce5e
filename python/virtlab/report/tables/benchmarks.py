"""What the tests after a search measured: a row per setting, test, load and flow, loads from the least up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, SettingKey
from virtlab.report.gather.searches import goals_beside
from virtlab.report.tables.table import Block, Column, absent, number, setting_columns, table, text
from virtlab.units import display

LEADS = ("mean", "ratio")
SPREAD = {  # statistic -> its column
    "min": "smallest", "max": "largest", "sd": "sd", "median": "median", "p90": "p90", "p99": "p99",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Tested:
    """A metric of one setting at one load, or why no run could measure it."""

    cell: Cell
    metric: str
    unit: str
    part: str  # which load
    flow: str
    load: Cell | None
    others: dict[str, Cell]  # statistic -> its cell
    note: str

    def text(self, value: float) -> str:
        """A value in the unit that suits the setting's values."""
        return display(self.unit, self.cell.present).text(value)

    @property
    def load_bit_per_s(self) -> float:
        """The mean of the loads that were tested; 0 where none was."""
        return self.load.mean if self.load is not None and self.load.present else 0.0


def tests_table(data: Gathered, role: str) -> Block | None:
    """The table; None where nothing was tested.

    `mean` is over runs of what each run had as its mean over trials, with the interval; smallest, largest and sd are of
    trials, quantiles of the frames of all trials, averaged over runs. What no run could measure is listed too, with the
    reason.
    """
    rows = [*_measured(data, role), *_unmeasured(data, role)]
    if not rows:
        return None
    goal = goals_beside([one for one in data.searches if one.role == role], first=True)
    return table(
        [
            *setting_columns(data.design.varying, (), lambda row: row.cell),
            text("test", lambda row: METRICS[row.metric].title()),
            Column("at", lambda row: row.part or "—"),
            Column("flow", lambda row: row.flow or "—"),
            number("load", lambda row: _load(row.load)),
            number("runs", lambda row: str(len(row.cell.present))),
            number("mean", lambda row: row.text(row.cell.mean) if row.cell.present else absent()),
            *(_end(end) for end in ("low", "high")),
            *(_spread(statistic, title) for statistic, title in SPREAD.items()),
            text("note", lambda row: row.note),
        ],
        sorted(rows, key=lambda row: _place(data, row)),
        name=names.of_search("tests", role),
        title=f"tests after the search ({len(rows)})",
        caption=f"Tests of {role}: mean over runs with its interval; smallest, largest and sd over the trials of a run, "
        f"quantiles over the frames of all its trials. Loads at... are shares of what was found{goal}",
        out=lambda row: not row.cell.present,
    )


def _end(end: str) -> Column[_Tested]:
    def says(row: _Tested) -> str | Block | None:
        value = getattr(row.cell.estimate, end, None)
        return row.text(value) if value is not None else absent("not estimable") if row.cell.present else None

    return number(end, says)


def _spread(statistic: str, title: str) -> Column[_Tested]:
    def says(row: _Tested) -> str | None:
        other = row.others.get(statistic)
        return row.text(other.mean) if other is not None and other.present else None

    return number(title, says)


def _load(load: Cell | None) -> str:
    return display("bit/s", load.present).text(load.mean) if load is not None and load.present else ""


def _measured(data: Gathered, role: str) -> Iterator[_Tested]:
    how = {
        (value["metric"], value["part"], tuple(one.point.items()), one.realisation): value.get("how", "")
        for one in data.searches
        if one.role == role
        for value in one.tests
    }
    for result in data.results:
        quantity = result.quantity
        own, _, at = quantity.role.partition(".")
        if own != role or not _leads(quantity.metric, quantity.statistic):
            continue
        part, _, flow = at.partition(".")
        loads = _loads(data, role, part)
        others = {one: data.by_setting(f"{quantity.role}.{quantity.metric}.{one}") for one in SPREAD}
        for cell in result.cells:
            here = {one: cells[cell.setting] for one, cells in others.items() if cell.setting in cells}
            reasons = [value.reason for value in cell.values] + [
                how.get((quantity.metric, part, *cell.setting), "")
            ]
            note = "; ".join(dict.fromkeys(filter(None, reasons)))
            yield _Tested(
                cell, quantity.metric, quantity.unit, part, flow, loads.get(cell.setting), here, note
            )


def _unmeasured(data: Gathered, role: str) -> Iterator[_Tested]:
    """What no run of any setting could measure, with the reason that the first run of each setting gives."""
    present = {result.quantity.path for result in data.results}
    for search in data.searches:
        for value in search.tests if search.role == role else ():
            part, metric = value["part"], value["metric"]
            flow = search.flows[value["flow"]] if value["flow"] is not None else ""
            owner = ".".join(one for one in (role, part, flow) if one)
            if value["value"] is not None or not _leads(metric, value["statistic"]):
                continue
            if f"{owner}.{metric}.{value['statistic']}" not in present:
                cell = Cell(search.point, search.realisation, (), None)
                load = _loads(data, role, part).get(cell.setting)
                yield _Tested(cell, metric, METRICS[metric].unit, part, flow, load, {}, value["reason"])


def _leads(metric: str, statistic: str) -> bool:
    return metric in BENCHMARKS and metric != "tested_load" and statistic in LEADS


def _loads(data: Gathered, role: str, part: str) -> dict[SettingKey, Cell]:
    return data.by_setting(f"{role}.{part}.tested_load.mean") if part else {}


def _place(data: Gathered, row: _Tested) -> tuple[object, ...]:
    """Settings in the order of their levels, tests in that of the RFC, loads from the least up, then flows."""
    levels = (
        factor.levels.index(level) if (level := row.cell.point.get(factor.name)) in factor.levels else -1
        for factor in data.design.factors
    )
    return (*levels, list(BENCHMARKS).index(row.metric), row.load_bit_per_s, row.flow)
