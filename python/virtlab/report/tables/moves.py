"""What the blackouts of clients are made of while a guest moves: one row per client and setting, means over runs. And
what guests wrote in each round of their copies: one row per round, of the runs of which the rest is drawn over time.

The longest gap without a reply is either the one around the guest's pause or another one of the copy. The first is what
passed from the last reply to the pause, the pause, and the re-convergence; of a client over TCP the last has what TCP
waits before it sends a lost request again, which the difference to another client of the guest, by datagrams, shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue import WORKLOADS
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.migrations import MoveCourse
from virtlab.report.gather.model import SettingKey
from virtlab.report.tables.table import Block, Column, in_unit, number, setting_columns, table
from virtlab.report.words import point_words
from virtlab.units import display

PARTS = {
    "blackout": "blackout.max",
    "of the copy": "copy_blackout.max",
    "of the pause": "pause_blackout.max",
    "re-convergence": "reconvergence.max",
}
OF_GUEST = {"set-up": "migration_setup.mean", "pause": "pause.mean"}
COLUMNS = (
    "blackout", "of the copy", "set-up", "of the pause", "pause", "re-convergence", "before the pause",
    "retransmission",
)  # fmt: skip

ROUNDS = 40  # of a guest that are shown


@dataclass(frozen=True, slots=True)
class _Row:
    setting: SettingKey
    role: str
    ns: dict[str, float]

    @property
    def point(self) -> dict[str, str]:
        return dict(self.setting[0])

    @property
    def realisation(self) -> str:
        return self.setting[1]


def blackouts_table(data: Gathered) -> Block | None:
    """The table; None where no client had a blackout around a pause."""
    rows = list(_rows(data))
    if not rows:
        return None
    shown = display("ns", [value for row in rows for value in row.ns.values()])

    def part(name: str) -> Column[_Row]:
        return number(name, lambda row: shown.text(row.ns[name]) if name in row.ns else None)

    columns = [
        *setting_columns(data.design.varying, [cell for one in data.results for cell in one.cells]),
        Column("client", lambda row: row.role),
        *(part(name) for name in COLUMNS if any(name in row.ns for row in rows)),
    ]
    caption = (
        "Means over runs. The blackout is the longer of two gaps: that of the copy, while the hypervisor may hold the guest "
        "up (as in its set-up), and that of the pause, which is the pause, the re-convergence, and what was left of "
        "the client's interval before the pause"
    )
    return table(columns, rows, title="What blackouts are made of", caption=caption)


@dataclass(frozen=True, slots=True)
class _Round:
    course: MoveCourse
    number: int
    at_s: float
    dirtied_bytes: float


def rounds_table(data: Gathered) -> Block | None:
    """A row per round of each move that is drawn; None where no hypervisor told any."""
    rows = [
        _Round(course, number, *each)
        for course in data.samples.moves
        for number, each in enumerate(course.rounds[:ROUNDS], start=1)
    ]
    if not rows:
        return None
    shown = display("bytes", [row.dirtied_bytes for row in rows])
    columns: list[Column[_Round]] = [
        Column("run", lambda row: point_words(row.course.point, row.course.run)),
        Column("guest", lambda row: row.course.entity.removeprefix("guests.")),
        number("round", lambda row: str(row.number)),
        number("over after (s)", lambda row: f"{row.at_s:.3g}"),
        number(in_unit("dirtied in it", shown.unit), lambda row: f"{row.dirtied_bytes / shown.size:.4g}"),
    ]
    more = sum(max(0, len(course.rounds) - ROUNDS) for course in data.samples.moves)
    caption = (
        "Different bytes that the guest wrote while a round was sent, which are sent again, by the time from the start of "
        "the first move. Rounds that were over within one look at the hypervisor are one row."
        + (f" {more} more rounds are left out." if more else "")
    )
    return table(columns, rows, title="What guests wrote in each round", caption=caption)


def _rows(data: Gathered) -> Iterator[_Row]:
    roles = (data.world.plan or {}).get("roles", {})
    asked = {role: str(entry["to"]) for role, entry in roles.items() if entry.get("to") is not None}
    for role, guest in asked.items():
        found: dict[SettingKey, dict[str, float]] = {}
        for owner, parts in ((role, PARTS), (f"guests.{guest}", OF_GUEST)):
            for name, metric in parts.items():
                for setting, cell in data.by_setting(f"{owner}.{metric}").items():
                    if cell.present:
                        found.setdefault(setting, {})[name] = cell.mean
        beside = [other for other, to in asked.items() if to == guest and _datagrams(roles[other])]
        for setting, ns in found.items():
            if not {"pause", "of the pause", "re-convergence"} <= ns.keys():
                continue
            ns["before the pause"] = ns["of the pause"] - ns["pause"] - ns["re-convergence"]
            if beside and not _datagrams(roles[role]):
                other = data.by_setting(f"{beside[0]}.{PARTS['re-convergence']}").get(setting)
                if other is not None and other.present:
                    ns["retransmission"] = ns["re-convergence"] - other.mean
            yield _Row(setting, role, ns)


def _datagrams(role: dict[str, Any]) -> bool:
    """Whether what a role asks is never sent again."""
    workload = WORKLOADS.get(str(role["workload"]))
    return workload is not None and workload.transport(role) in {"icmp", "udp"}
