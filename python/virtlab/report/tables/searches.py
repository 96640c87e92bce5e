"""The trials of a search: which load was tried when, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from virtlab.report import names
from virtlab.report.gather.searches import Searched, goals_beside
from virtlab.report.tables.table import Block, Column, number, setting_columns, table, text
from virtlab.units import display, show_count

ROWS_MAX = 600
COUNTS = ("sent", "received", "unsent")


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial at its place in the search that it is of."""

    search: Searched
    number: int
    values: Mapping[str, Any]

    @property
    def purpose(self) -> str:
        """What it was for, and of a trial of the search itself what came of it."""
        own = self.values in self.search.own
        kind = self.search.kind(self.values) if own else self.values["purpose"]
        return " ".join(part for part in (kind, self.values.get("part", "")) if part)


def trials_table(role: str, searches: Sequence[Searched], varying: Sequence[str]) -> Block:
    """Every trial of the runs drawn, tests after the search included."""
    mine = [one for one in searches if one.role == role]
    unit = display(mine[0].unit, [float(trial["value"]) for one in mine for trial in one.trials])
    total = sum(len(one.trials) for one in mine)
    rest = f"; the first {ROWS_MAX} of {total}, the others are in artefacts/trials.jsonl of their runs"
    return table(
        [
            *setting_columns(varying, mine, lambda row: row.search),
            Column("run", lambda row: row.search.run),
            text("what", lambda row: row.purpose),
            number("trial", lambda row: str(row.number)),
            number(f"load ({unit.unit})", lambda row: unit.number(row.values["value"], 6)),
            number("length (s)", lambda row: f"{row.values['trial_s']:.4g}"),
            *(_optional(key, show_count) for key in COUNTS),
            number("loss", lambda row: f"{100 * row.values['loss_ratio']:.4g} %"),
            _optional("measured", lambda value: f"{value:.6g}"),
            *(_optional(key, lambda bound: unit.number(bound, 6)) for key in ("low", "high")),
            text(
                "note",
                lambda row: "; ".join(filter(None, (row.values["disturbed"], row.values.get("note", "")))),
            ),
        ],
        islice(_trials(mine), ROWS_MAX),
        name=names.of_search("trials", role),
        title=f"trials ({min(total, ROWS_MAX)})",
        caption=f"Trials of {role}{goals_beside(mine)} in the first run of each setting, in their order"
        + (rest if total > ROWS_MAX else ""),
        out=lambda row: bool(row.values["repeated"]),
    )


def _trials(searches: Sequence[Searched]) -> Iterator[_Trial]:
    return (_Trial(one, at, trial) for one in searches for at, trial in enumerate(one.trials))


def _optional(key: str, says: Callable[[Any], str]) -> Column[_Trial]:
    return number(key, lambda row: None if row.values[key] is None else says(row.values[key]))
