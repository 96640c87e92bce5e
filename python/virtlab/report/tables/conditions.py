"""What was built: the states of its objects as intended, applied and read back, and how well the links kept to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report.gather.model import Realisation
from virtlab.report.tables.table import Block, Column, cell, number, table, text


def quality_table(quality: Sequence[Mapping[str, Any]]) -> Block | None:
    """Lateness of the switch and delay it added, per realisation, over all runs in use."""
    if not quality:
        return None

    def column(name: str) -> Column[Mapping[str, Any]]:
        return Column(name, lambda row: str(row.get(name, "")))

    return table([column(name) for name in quality[0]], quality)


def realised_table(realised: Sequence[Realisation]) -> Block | None:
    """Objects in groups that were intended, applied and read back alike; what was read back differently is marked."""
    if not realised:
        return None
    return table(
        [
            text("object", lambda row: row.path),
            Column("by", lambda row: row.by),
            number("runs", lambda row: str(row.runs)),
            text("intended", lambda row: _facts(row.intended)),
            text("applied", lambda row: _facts(row.applied)),
            text(
                "read back",
                lambda row: cell(_facts(row.read_back), "text differs" if differing(row) else "text"),
            ),
        ],
        realised,
    )


def differing(realisation: Realisation) -> list[str]:
    """Names that were intended or applied with one value and read back with another of the same kind."""
    wanted = {**realisation.intended, **realisation.applied}
    return [
        name
        for name, value in wanted.items()
        if name in realisation.read_back
        and type(realisation.read_back[name]) is type(value)
        and realisation.read_back[name] != value
    ]


def _facts(values: Mapping[str, Any]) -> str:
    def words(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)

    return ", ".join(f"{name} {words(value)}" for name, value in values.items()) or "—"
