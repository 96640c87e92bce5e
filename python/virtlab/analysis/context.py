"""What a workload's file is given: the run, the role, its window, its samples and its counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.analysis.values import Collector
from virtlab.analysis.window import RoleWindow
from virtlab.lazy import NDArray
from virtlab.plan.blocks import ARMED, END, STARTED
from virtlab.plan.model import Role
from virtlab.results.record import RunRecord

SUMMED = frozenset(
    {"send_errors", "socket_drops", "ring_drops", "stalls", "answer_stalls", "standstills", "spool_overflow"}
)


@dataclass(frozen=True, slots=True)
class RoleContext:
    """One role of one run."""

    record: RunRecord
    name: str
    role: Role
    window: RoleWindow
    counters: Mapping[str, int]
    out: Collector
    waiting: int = 0  # frames in queues of links when the run ended

    def has(self, schema: str) -> bool:
        """Whether samples of the schema were kept for the role."""
        return self.record.has(self.name, schema)

    def samples(self, schema: str, instant: str, names: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
        """Columns (all, or those named) of samples whose `instant` lies in the window, in order of measuring."""
        wanted = dict.fromkeys((*names, instant)) if names and not self.window.whole else dict.fromkeys(names)
        columns = read_columns(self.record, self.name, schema, list(wanted))
        if self.window.whole or not next(iter(columns.values())).size:
            return columns
        inside = (columns[instant] >= self.window.begin_ns) & (columns[instant] < self.window.end_ns)
        return columns if bool(inside.all()) else {name: column[inside] for name, column in columns.items()}

    def parameter(self, name: str) -> Any:
        """A parameter of the role as planned, or as a search chose it; None when it has none."""
        return self.record.overrides.get(f"{self.name}.{name}", self.role.parameters.get(name))


def read_columns(
    record: RunRecord, stream: str, schema: str, names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Some columns of a run's samples; all of them when none is named."""
    if (fresh := record.fresh(stream, schema, names or None)) is not None:
        return fresh
    return record.samples(stream, schema, names or None)


CounterRow = tuple[str, str, str, str, int]  # stream, mark, entity, counter, value


def counter_rows(record: RunRecord) -> list[CounterRow]:
    """Every counter of a run, in the order read."""
    found: list[CounterRow] = []
    for stream in record.streams():
        if stream.schema == "counter/1":
            rows = record.samples(stream.stream, stream.schema)
            columns = (rows[name].tolist() for name in ("mark", "entity", "counter", "value"))
            found += [(stream.stream, *row) for row in zip(*columns, strict=True)]
    return found


def waiting_frames(rows: Sequence[CounterRow]) -> int:
    """Frames that waited at the end of a run: in queues of links, of hosts' wires, of guests' vNICs."""
    left = {
        entity: value
        for _, mark, entity, counter, value in rows
        if counter == "backlog_packets" and is_whole_queue(entity) and mark == END
    }
    return sum(left.values())


def is_whole_queue(entity: str) -> bool:
    """Whether an entity that counts packets waiting is a queue, and no class of one."""
    return not entity.startswith("links.") or entity.count(".") == 2


def role_counters(rows: Sequence[CounterRow], role: str) -> dict[str, int]:
    """Counters of a role over the run. Both ends may report one: health counters add up, of traffic the larger
    counts (of the sender's and the receiver's `sent_packets`, the sender's).
    """
    found: dict[str, dict[str, int]] = {}
    ends = (f"{role}.", f"{role}/")
    meant = {entity for entity in {row[2] for row in rows} if entity == role or entity.startswith(ends)}
    for stream, mark, entity, counter, value in rows:
        if entity not in meant:
            continue
        of = found.setdefault(counter, {})
        end = f"{stream}|{entity}"
        if mark in {ARMED, STARTED}:
            of[end] = of.get(end, 0) - value
        elif counter in SUMMED:
            of[end] = of.get(end, 0) + value
        else:
            of[end] = max(of.get(end, 0), value)
    return {
        counter: sum(of.values()) if counter in SUMMED else max(of.values(), default=0)
        for counter, of in found.items()
    }
