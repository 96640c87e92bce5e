"""The table of what blackouts are made of: their parts sum up, and what TCP waits is a part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from virtlab.report.gather.model import Cell, RunValue, SettingKey
from virtlab.report.tables.moves import blackouts_table

MS = 1_000_000
OF_CLIENT = {"blackout.max": 300, "copy_blackout.max": 300, "pause_blackout.max": 54, "reconvergence.max": 40}
OF_GUEST = {"guests.v.migration_setup.mean": 298, "guests.v.pause.mean": 10}


def gathered(values_ms: dict[str, float], roles: dict[str, Any]) -> Any:
    cells = {
        path: Cell({"mode": "pre_copy"}, "shaping", (RunValue("r0", 0, value * MS),), None)
        for path, value in values_ms.items()
    }

    def by_setting(path: str) -> dict[SettingKey, Cell]:
        return {cells[path].setting: cells[path]} if path in cells else {}

    return SimpleNamespace(
        results=[SimpleNamespace(cells=[cell]) for cell in cells.values()],
        world=SimpleNamespace(plan={"roles": roles}),
        design=SimpleNamespace(varying=["mode"]),
        by_setting=by_setting,
    )


def shown(table: Any) -> list[dict[str, str]]:
    titles = [one["text"] for one in table["head"]]
    return [dict(zip(titles, (cell["text"] for cell in row["cells"]), strict=True)) for row in table["rows"]]


CLIENT = {"workload": "rtt", "from": "c", "to": "v"}


def test_the_blackout_of_the_pause_is_the_sum_of_its_parts() -> None:
    values = {f"client.{name}": value for name, value in OF_CLIENT.items()} | OF_GUEST
    (row,) = shown(blackouts_table(gathered(values, {"client": CLIENT})))
    assert row["client"] == "client"
    assert row["mode"] == "pre_copy"
    parts = [float(row[name].split()[0]) for name in ("before the pause", "pause", "re-convergence")]
    assert parts == [4, 10, 40]
    assert sum(parts) == pytest.approx(float(row["of the pause"].split()[0]))
    assert row["blackout"] == row["of the copy"] == "300 ms"
    assert row["set-up"] == "298 ms"
    assert "retransmission" not in row


def test_what_tcp_waits_is_what_a_client_by_datagrams_does_not() -> None:
    asks = {"workload": "tcp_rr", "from": "c", "to": "v"}
    values = {f"client.{name}": value for name, value in OF_CLIENT.items()} | OF_GUEST
    values |= {f"asks.{name}": value for name, value in OF_CLIENT.items()}
    values |= {"asks.reconvergence.max": 240, "asks.pause_blackout.max": 251}
    rows = {
        row["client"]: row
        for row in shown(blackouts_table(gathered(values, {"client": CLIENT, "asks": asks})))
    }
    assert rows["asks"]["retransmission"] == "200 ms"
    assert rows["client"]["retransmission"] == ""


def test_a_client_of_a_guest_that_stays_has_no_row() -> None:
    assert blackouts_table(gathered({"client.rtt.mean": 1}, {"client": CLIENT})) is None
