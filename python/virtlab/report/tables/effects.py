"""What one more switch, and one more guest on every host, does to delay, jitter and throughput."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.analysis.effects.added import Effect
from virtlab.report.gather.gathered import Gathered
from virtlab.report.names import REALISATION
from virtlab.report.tables.table import Block, Column, absent, number, table
from virtlab.report.words import point_words
from virtlab.units import Display, display, interval

ROWS_MAX = 200  # averages always stand
ADDED = {"switch": "switch", "guest": "guest on every host"}


@dataclass(frozen=True, slots=True)
class _Step:
    """One more of something, at one setting or on average: the effect on each quantity."""

    first: Effect
    where: str
    by_path: dict[str, Effect] = field(default_factory=dict)


def effects_table(data: Gathered) -> tuple[Block, int]:
    """The table, averages first, and how many settings it leaves out."""
    steps: dict[tuple[str, ...], _Step] = {}
    for one in data.influences.effects:
        levels = {name: level for name, level in one.levels.items() if name in data.design.varying}
        where = "on average" if one.average else point_words(levels, "always")
        key = (one.added, str(one.factor), str(one.before), str(one.after), where, one.realisation)
        steps.setdefault(key, _Step(one, where)).by_path[str(one.path)] = one
    ordered = sorted(steps.values(), key=lambda step: (step.first.added != "switch", not step.first.average))
    averages = [step for step in ordered if step.first.average]
    single = [step for step in ordered if not step.first.average]
    split = len({one.realisation for one in data.influences.effects}) > 1
    columns: list[Column[_Step]] = [
        Column("one more", lambda step: ADDED.get(step.first.added, ADDED["guest"])),
        Column("from", lambda step: f"{step.first.factor} {step.first.before} to {step.first.after}"),
        Column("where", lambda step: step.where),
        *([Column(REALISATION, lambda step: step.first.realisation)] if split else []),
        *(_column(data, path) for path in dict.fromkeys(str(one.path) for one in data.influences.effects)),
    ]
    caption = "Effect of one more switch and of one more guest on every host, with its interval"
    return table(columns, [*averages, *single[:ROWS_MAX]], caption=caption), max(0, len(single) - ROWS_MAX)


def _column(data: Gathered, path: str) -> Column[_Step]:
    of_path = [one for one in data.influences.effects if str(one.path) == path]
    shown = display(of_path[0].path.unit, [abs(one.estimate.point) for one in of_path])
    return number(path, lambda step: _text(step.by_path[path], shown) if path in step.by_path else absent())


def _text(effect: Effect, shown: Display) -> str:
    estimate = effect.estimate
    words = interval(estimate.low, estimate.point, estimate.high, shown)
    return words if estimate.low is not None else f"{words}, no interval"
