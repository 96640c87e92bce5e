"""The trials of a search, as picture and table: which load was tried when, what came of it, and how the bounds closed in.

One run stands for each design point, the first that counts: a search is a course of events, and courses do not add up.
A trial is good when its loss (of every flow, where the goal says so) is at most the first goal's; for MLRsearch a bound
rests on several trials. Lines are the bounds known after each trial; the dashed rule is what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.analysis.searches import limit_of
from virtlab.metrics import METRICS
from virtlab.report import names
from virtlab.report.figures.figure import (
    MAXIMUM_PANELS,
    REALISATION,
    Figure,
    Row,
    arrange,
    panel_label,
    panel_labels,
)
from virtlab.report.quantities import Display, display
from virtlab.report.tables.table import Block, cell, head

if TYPE_CHECKING:
    from virtlab.report.gather.model import Factor
    from virtlab.results import RunRecord

TABLE_ROWS = 600
WIDE = 50.0  # loads further apart than this stand on a logarithmic axis
KINDS = ("good", "too much", "warm-up", "made again")


@dataclass(frozen=True, slots=True)
class Searched:
    """The search of one run: its header, its trials in order, what it found per goal."""

    role: str
    variable: str
    unit: str
    point: Mapping[str, str]
    realisation: str
    run: str
    allowed: float  # loss ratio of a good trial
    trials: tuple[Mapping[str, Any], ...]
    found: tuple[Mapping[str, Any], ...]
    flows: tuple[str, ...] = ()  # their names
    tests: tuple[Mapping[str, Any], ...] = ()  # what the tests after it measured, or why they could not

    def kind(self, trial: Mapping[str, Any]) -> str:
        """What came of a trial of the search."""
        if trial["repeated"]:
            return "made again"
        if trial["purpose"] == "warm-up":
            return "warm-up"
        return "good" if trial["loss_ratio"] <= self.allowed else "too much"

    @property
    def own(self) -> list[Mapping[str, Any]]:
        """Trials of the search itself, without those of tests after it."""
        return [trial for trial in self.trials if trial["purpose"] in {"warm-up", "search", "confirm"}]


def searches_of(used: Iterable[RunRecord], varying: Sequence[Factor]) -> tuple[Searched, ...]:
    """One search per design point and link realisation."""
    from virtlab.analysis.searches import tests_of, trials_of
    from virtlab.catalogue.workloads.raw_stream import flow_names

    kept: dict[tuple[int, str], Searched] = {}
    for record in sorted(used, key=lambda one: one.name):
        held = trials_of(record)
        if held is None or (record.point, record.link_realisation) in kept:
            continue
        header, trials, found = held
        allowed = 0.0 if header["until"] is not None else header["goals"][0]["loss"]
        kept[record.point, record.link_realisation] = Searched(
            header["role"], header["variable"], METRICS[limit_of(header["parameter"])].unit,
            {factor.name: record.levels[factor.name] for factor in varying if factor.name in record.levels},
            record.link_realisation, record.name, allowed, tuple(trials), tuple(found),
            tuple(flow_names(record.plan.roles[header["role"]].parameters)), tests_of(record),
        )  # fmt: skip
    return tuple(kept[key] for key in sorted(kept))


def search_figure(
    role: str, searches: Sequence[Searched], factors: Sequence[Factor], *, split: bool
) -> Figure:
    """Load against the order of trials; a panel per design point."""
    panels = [factor.name for factor in factors] + ([REALISATION] if split else [])
    mine = [one for one in searches if one.role == role]

    def label(one: Searched) -> str:
        return panel_label({**one.point, REALISATION: one.realisation}, panels)

    labels = panel_labels(factors, panels, (label(one) for one in mine))
    shown = mine if len(labels) <= 1 else [one for one in mine if label(one) in labels[:MAXIMUM_PANELS]]
    loads = [float(trial["value"]) for one in shown for trial in one.own]
    unit = display(mine[0].unit, loads) if mine else Display(1.0, "")
    points: list[Row] = []
    bounds: list[Row] = []
    found: list[Row] = []
    for one in shown:
        for number, trial in enumerate(one.own):
            panel = {"panel": label(one), "x": number}
            points.append(panel | {
                "y": trial["value"] / unit.size, "what": one.kind(trial), "loss": trial["loss_ratio"],
                "seconds": trial["trial_s"], "says": _came_of(trial),
            })  # fmt: skip
            for name, key in (("lower bound", "low"), ("upper bound", "high")):
                if trial[key] is not None:
                    bounds.append(panel | {"y": trial[key] / unit.size, "what": name})
        found += [
            {"panel": label(one), "y": goal["value"] / unit.size, "what": f"found ({goal['goal']})"}
            for goal in one.found
            if goal["value"] is not None
        ]
    spec = _spec(points, bounds, found, labels[:MAXIMUM_PANELS], unit, wide=_wide(loads))
    left_out = len(labels) - min(len(labels), MAXIMUM_PANELS)
    more = f"; {left_out} more settings are left out" if left_out else ""
    return Figure(
        name=names.of_search("search", role),
        title=f"Search of {mine[0].variable if mine else role}, trial by trial{goals_beside(mine)}",
        subtitle="The first run of each setting. Marks: trials in their order, and what came of them. "
        f"Lines: bounds known after each. Dashed: what was found{more}",
        alt=_alt(role, shown, unit),
        spec=spec,
        group=f"search of {role}",
        statistic="trial by trial",
        empty=not points,
    )


def goals_beside(searches: Sequence[Searched], *, first: bool = False) -> str:
    """What was searched for, as it stands behind a title; `first`: only the goal whose value is tested at.

    >>> one = Searched("load", "load.rate", "bit/s", {}, "none", "r", 0.0, (), ({"text": "no loss"}, {"text": "0.5 %"}))
    >>> goals_beside([one]), goals_beside([one], first=True)
    (' (no loss | 0.5 %)', ' (no loss)')
    """
    texts = [goal["text"] for one in searches for goal in one.found[: 1 if first else None]]
    return f" ({' | '.join(dict.fromkeys(texts))})" if texts else ""


def _came_of(trial: Mapping[str, Any]) -> str:
    if trial["measured"] is not None:
        return f"measured {trial['measured']:.6g}"
    if trial["sent"] is None:
        return ""
    return f"{trial['sent']:,} sent, {trial['received']:,} received, {trial['unsent'] or 0:,} unsent"


def _wide(loads: Sequence[float]) -> bool:
    return bool(loads) and min(loads) > 0 and max(loads) > WIDE * min(loads)


def _spec(
    points: list[Row],
    bounds: list[Row],
    found: list[Row],
    labels: Sequence[str],
    unit: Display,
    *,
    wide: bool,
) -> Row:
    kinds = [*KINDS, "lower bound", "upper bound", *dict.fromkeys(row["what"] for row in found)]
    present = [kind for kind in kinds if any(row["what"] == kind for row in (*points, *bounds, *found))]
    scale: Row = {"type": "log", "nice": False} if wide else {"zero": False}
    title = f"{unit.unit}, logarithmic" if wide else unit.unit
    y = {"field": "y", "type": "quantitative", "title": title, "scale": scale}
    x = {
        "field": "x", "type": "quantitative", "title": "trial", "scale": {"nice": False, "padding": 8},
        "axis": {"tickMinStep": 1, "format": "d"},
    }  # fmt: skip
    colour = {
        "field": "what",
        "type": "nominal",
        "title": None,
        "sort": present,
        "scale": {"domain": present},
    }
    tooltip = [
        {"field": "x", "title": "trial", "type": "quantitative"},
        {"field": "y", "title": unit.unit or "value", "type": "quantitative", "format": ".5~g"},
        {"field": "seconds", "title": "length (s)", "type": "quantitative", "format": ".4~g"},
        {"field": "loss", "title": "loss", "type": "quantitative", "format": ".4~%"},
        {"field": "what", "title": "came of it", "type": "nominal"},
        {"field": "says", "title": "frames", "type": "nominal"},
    ]
    layers: list[Row] = [
        {
            "data": {"values": bounds},
            "mark": {"type": "line", "style": "curve", "interpolate": "step-after"},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        {
            "data": {"values": points},
            "mark": {"type": "point", "style": "mean"},
            "encoding": {"x": x, "y": y, "color": colour, "shape": dict(colour), "tooltip": tooltip},
        },
        {
            "data": {"values": found},
            "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
            "encoding": {"y": y, "color": colour},
        },
    ]
    spec = arrange(layers, labels if len(labels) > 1 else (), height=300 if len(labels) <= 1 else 200)
    if len(labels) > 1:
        spec["resolve"] = {"scale": {"y": "independent"}}
    return spec


def _alt(role: str, searches: Sequence[Searched], unit: Display) -> str:
    says = []
    for one in searches[:8]:
        where = ", ".join(f"{name} {level}" for name, level in one.point.items())
        value = one.found[0]["value"] if one.found else None
        what = "nothing was found good" if value is None else f"{unit.text(value)} found"
        says.append(f"{where + ': ' if where else ''}{what} in {len(one.own)} trials")
    return f"Trials of the search of {role}{goals_beside(searches)} in their order. {'; '.join(says)}."


def trials_table(role: str, searches: Sequence[Searched], varying: Sequence[str]) -> Block:
    """Every trial of the runs drawn, tests after the search included."""
    mine = [one for one in searches if one.role == role]
    split = len({one.realisation for one in mine}) > 1
    unit = display(mine[0].unit, [float(trial["value"]) for one in mine for trial in one.trials])
    numbers = [
        "trial",
        f"load ({unit.unit})",
        "length (s)",
        "sent",
        "received",
        "unsent",
        "loss",
        "measured",
        "low",
        "high",
    ]
    rows: list[Row] = []
    for one in mine:
        for number, trial in enumerate(one.trials):
            if len(rows) == TABLE_ROWS:
                break
            kind = one.kind(trial) if trial in one.own else trial["purpose"]
            purpose = " ".join(part for part in (kind, trial.get("part", "")) if part)
            cells = [cell(one.point.get(name, "")) for name in varying]
            cells += [cell(one.realisation)] if split else []
            cells += [cell(one.run), cell(purpose, "text"), cell(str(number), "number")]
            cells += [
                cell(unit.number(trial["value"], 6), "number"),
                cell(f"{trial['trial_s']:.4g}", "number"),
            ]
            cells += [_count(trial[key]) for key in ("sent", "received", "unsent")]
            cells += [cell(f"{100 * trial['loss_ratio']:.4g} %", "number"), _plain(trial["measured"])]
            cells += [_bound(trial[key], unit) for key in ("low", "high")]
            note = "; ".join(part for part in (trial["disturbed"], trial.get("note", "")) if part)
            rows.append({"cells": [*cells, cell(note, "text")], "out": bool(trial["repeated"])})
    total = sum(len(one.trials) for one in mine)
    cut = (
        f"; the first {len(rows)} of {total}, the others are in artefacts/trials.jsonl of their runs"
        if total > len(rows)
        else ""
    )
    columns = [*varying, *([REALISATION] if split else []), "run", "what", *numbers, "note"]
    return {
        "id": names.of_search("trials", role),
        "title": f"trials ({min(total, TABLE_ROWS)})",
        "caption": f"Trials of {role}{goals_beside(mine)} in the first run of each setting, in their order{cut}",
        "head": head(*columns, numbers=numbers),
        "rows": rows,
    }


def _count(number: int | None) -> Block:
    return cell("", "absent") if number is None else cell(f"{number:,}", "number")


def _plain(number: float | None) -> Block:
    return cell("", "absent") if number is None else cell(f"{number:.6g}", "number")


def _bound(number: float | None, unit: Display) -> Block:
    return cell("", "absent") if number is None else cell(unit.number(number, 6), "number")
