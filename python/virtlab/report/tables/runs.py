"""Every run and attempt, with its status and, when it does not count, why."""

from __future__ import annotations

from virtlab.report.gather.gathered import Gathered
from virtlab.report.names import REALISATION
from virtlab.report.tables.table import Block, Column, number, setting_columns, table, text


def runs_table(data: Gathered) -> Block:
    """The runs in the order they were played; those that do not count are pale."""
    return table(
        [
            Column("run", lambda run: run.run),
            *setting_columns(data.design.varying, ()),
            number("repetition", lambda run: str(run.repetition)),
            number("attempt", lambda run: str(run.attempt)),
            Column(REALISATION, lambda run: run.realisation),
            Column("status", lambda run: run.status if run.used or run.status != "ok" else "ok, not used"),
            text("why", lambda run: "; ".join(run.reasons)),
        ],
        data.runs,
        out=lambda run: not run.used,
    )
