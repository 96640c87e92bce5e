"""How busy a simulated world is, and what saturates: lines by the time they sent, queues by their waits and drops,
pools by the processors that are used.

Everything is of one measuring role's time, from its start to its end: what a link did while others measured says
nothing of this one. Of a load it is of the whole run. A line counts the time that frames, their preamble and gap
occupied it, so it is saturated at 100 %. A pool counts where its use is sampled
(`collect: {series: {guest.cpu: ...}}`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.analysis.context import counter_rows
from virtlab.analysis.runs import values_of_run
from virtlab.catalogue.actions import begins
from virtlab.results.trial import TrialRecord
from virtlab.units import show_quantity

SATURATED = 0.9  # busy share from which on it is called so
USE = ("cpu_share", "mean")


@dataclass(frozen=True, slots=True)
class Resource:
    """One direction of a link, over all runs: busy share, mean wait of a frame in its queue, dropped share of frames;
    or a pool, of which the busy share alone is known.
    """

    name: str
    busy_ratio: float
    wait_ns: float
    drop_ratio: float

    @property
    def saturated(self) -> bool:
        """Whether it is full, or drops."""
        return self.busy_ratio >= SATURATED or self.drop_ratio > 0

    def __str__(self) -> str:
        wait = f", frames wait {show_quantity(self.wait_ns, 'ns', 3)}" if self.wait_ns >= 1000 else ""
        drops = f", {show_quantity(self.drop_ratio, 'ratio', 2)} dropped" if self.drop_ratio else ""
        return f"{self.name} {self.busy_ratio * 100:.0f} % busy{wait}{drops}"


def resources(records: Sequence[TrialRecord], role: str) -> list[Resource]:
    """Every line and pool of the world while a role was active, over several runs of it, the busiest first."""
    sums: dict[str, dict[str, int]] = {}
    for record in records:
        for entity, found in _risen(record, role).items():
            into = sums.setdefault(entity, {})
            for counter, value in found.items():
                into[counter] = into.get(counter, 0) + value
    lines = []
    for entity, total in sums.items():
        packets, drops = total.get("packets", 0), total.get("drops", 0)
        lines.append(
            Resource(
                entity,
                min(total["busy_ns"] / max(total["t_ns"], 1), 1.0),  # a frame at the end counts whole
                total.get("residence_ns", 0) / packets if packets else 0.0,
                drops / (packets + drops) if packets + drops else 0.0,
            )
        )
    lines += _pools(records)
    return sorted(lines, key=lambda each: (-each.busy_ratio, -each.wait_ns, each.name))


def _pools(records: Sequence[TrialRecord]) -> list[Resource]:
    shares: dict[str, list[float]] = {}
    for record in records:
        pools = {f"pools.{name}" for name in record.plan.world.pools}
        for row in values_of_run(record) if pools else ():
            if row.role in pools and (row.metric, row.statistic) == USE and row.value is not None:
                shares.setdefault(row.role, []).append(row.value)
    return [Resource(name, min(sum(each) / len(each), 1.0), 0.0, 0.0) for name, each in shares.items()]


def _risen(record: TrialRecord, role: str) -> dict[str, dict[str, int]]:
    """Entity -> counter -> its rise from the role's start to its end, and that time as `t_ns`."""

    actions = [action.id for action in record.plan.timeline if action.role == role and begins(action.do)]
    marks = [f"{action}.{event}" for action in actions for event in ("started", "finished")]
    rows = [row for row in counter_rows(record) if row[2].startswith("links.")]
    read = {row[1] for row in rows}
    known = [mark for mark in marks if mark in record.marks and mark in read]
    whole = len(known) < 2  # a load is not read at its own ends: the run as a whole, then
    first: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    for _, mark, entity, counter, value in rows:
        if whole or mark in known:
            first.setdefault((entity, counter), value)
            last[entity, counter] = value
    ends = [record.marks[mark].t_ns for mark in ([*record.marks] if whole else known)]
    length_ns = max(ends, default=0) - min(ends, default=0)
    found: dict[str, dict[str, int]] = {}
    for (entity, counter), value in last.items():
        found.setdefault(entity, {"t_ns": length_ns})[counter] = value - first[entity, counter]
    return {entity: counters for entity, counters in found.items() if "busy_ns" in counters}
