"""Series and counters of hosts, guests, links and switches to values of a run.

A series is summed up over the window; a counter by how much it rose from the window's first mark to its last. A share
or rate is of the time since the sample before: it counts if that lies in the window, which it may leave by a tenth of a
second, so that seconds before or after the load do not count as its own. Where none lies so, those do that end inside.
Where several roles measure one after another, hosts have CPU values of the window of each, too (`ROLE.host.cpu0`), and
where a guest moves, each host and its disks (`ROLE.hosts.h1`, `ROLE.hosts.h1.disks`): before, during and after.
Only metrics of the registry become values; what a backend adds beyond it stays in the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from virtlab.analysis.context import CounterRow
from virtlab.analysis.values import Collector
from virtlab.analysis.window import MEASURED
from virtlab.catalogue.actions import moves_guest
from virtlab.catalogue.collected import SOFTNET_COUNTERS
from virtlab.lazy import NDArray, np
from virtlab.metrics import METRICS
from virtlab.metrics.migration import MIGRATION
from virtlab.results.record import RunRecord

COUNTERS = {
    "softnet_drops": ("dropped", "softnet_drops", "softnet_dropped"),
    "drops": ("drops", "rx_dropped", "tx_dropped", "dropped_packets"),
    "page_faults": ("page_faults",),
    "major_page_faults": ("major_page_faults",),
    "memory_limit_hits": ("memory_limit_hits",),
    "memory_stalled": ("memory_stalled_ns",),
    "swapped_in": ("swapped_in_pages",),
}
AT_INSTANTS = frozenset(
    {"memory_available", "memory_used", "backlog", "backlog_packets", *MIGRATION} - {"sampled_dirty_rate"}
)  # all else is over intervals
EDGE_NS = 100_000_000
OF_MOVES = ("pause", "migration_time", "migration_sent", "migration_rounds")
USED = frozenset({"packets", "residence_ns", "start_ns"}).union(*COUNTERS.values())


def values(record: RunRecord, counters: Sequence[CounterRow], out: Collector) -> None:
    """Adds the values of every entity."""
    low, high = record.windows.get(MEASURED, (-(2**62), 2**62))
    for stream in record.streams():
        if stream.schema == "series/1":
            rows = record.samples(stream.stream, stream.schema)
            _series(rows, low, high, out)
            for role in _tests(record):
                begin, end = record.windows[role]
                _series(rows, begin, end, out, during=role, of=_of_hosts(record))
    for guest in _stayed(record):
        out.role = f"guests.{guest}"
        for metric in OF_MOVES:
            out.absent(metric, "the guest did not move to its end")
    _counters(counters, set(record.plan.roles), out)


def _stayed(record: RunRecord) -> Iterator[str]:
    """Guests whose move began, and has not come to its end."""
    for action in record.plan.timeline:
        begun, ended = f"{action.id}.started" in record.marks, f"{action.id}.finished" in record.marks
        if moves_guest(action.do) and begun and not ended:
            yield str(action.guest)


def _tests(record: RunRecord) -> list[str]:
    """Roles that have a window of their own, where several measure one after another."""
    mine = [role for role in record.plan.roles if role in record.windows]
    return mine if len(mine) > 1 else []


def _of_hosts(record: RunRecord) -> Callable[[str, str], bool]:
    """Which entity's metric has values of the windows of single roles."""
    moves = any(moves_guest(action.do) for action in record.plan.timeline)

    def wanted(entity: str, metric: str) -> bool:
        return (metric == "cpu" and entity.startswith("host.")) or (moves and entity.startswith("hosts."))

    return wanted


def _series(
    rows: dict[str, NDArray[Any]],
    low: int,
    high: int,
    out: Collector,
    *,
    during: str = "",
    of: Callable[[str, str], bool] = lambda *_: True,
) -> None:
    """Values of each entity in a window; `during` a role those that are wanted of it (`of`) alone, as ROLE.ENTITY."""
    for (entity, metric), at in _by_name(rows).items():
        if not of(entity, metric):
            continue
        if metric in METRICS and METRICS[metric].of == "entity":
            found = at[_inside(rows["t_ns"][at], low, high, over=metric not in AT_INSTANTS)]
            if found.size:
                out.role = f"{during}.{entity}" if during else entity
                out.distribution(metric, rows["value"][found])


def _by_name(rows: dict[str, NDArray[Any]]) -> dict[tuple[str, str], NDArray[Any]]:
    """Entity and metric -> places of their rows in the order of time; names in the order in which they first appear."""
    names = [f"{entity}\0{metric}" for entity, metric in zip(rows["entity"], rows["metric"], strict=True)]
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    coded = np.fromiter((codes[name] for name in names), dtype=np.int64, count=len(names))
    order = np.lexsort((rows["t_ns"], coded))
    parts = np.split(order, np.cumsum(np.bincount(coded, minlength=len(codes)))[:-1]) if codes else []
    return {
        (entity, metric): part
        for name, part in zip(codes, parts, strict=True)
        for entity, _, metric in [name.partition("\0")]
    }


def _inside(t_ns: NDArray[Any], low: int, high: int, *, over: bool) -> NDArray[Any]:
    """Which samples count in a window; `over`: each is of the time since the one before it."""
    ends: NDArray[Any] = (t_ns >= low) & (t_ns <= high)
    if not over or t_ns.size < 2:
        return ends
    begins = np.concatenate(([2 * t_ns[0] - t_ns[1]], t_ns[:-1]))
    whole = ends & (begins >= low - EDGE_NS)
    return whole if whole.any() else ends


def _counters(rows: Sequence[CounterRow], roles: set[str], out: Collector) -> None:
    first: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    meant = {entity for entity in {row[2] for row in rows} if entity.split("/")[0] not in roles}
    for _, _, entity, counter, value in rows:
        if counter in USED and entity in meant:
            first.setdefault((entity, counter), value)
            last[entity, counter] = value
    for (entity, counter), waited_ns in last.items():
        sent = last.get((entity, "packets"), 0) - first.get((entity, "packets"), 0)
        if counter == "residence_ns" and sent > 0:
            out.role = entity
            out.add("residence", "mean", (waited_ns - first[entity, counter]) / sent, sent)
        if counter == "start_ns":
            out.role = entity
            out.add("start_time", "total", waited_ns, 1)
    for metric, names in COUNTERS.items():
        totals: dict[str, int] = {}
        for (entity, counter), value in last.items():
            if counter in names and not (
                metric == "drops" and entity.partition(".")[0] == SOFTNET_COUNTERS.name
            ):
                totals[entity] = totals.get(entity, 0) + value - first[entity, counter]
        for entity, total in totals.items():
            out.role = entity
            out.add(metric, "total", total, 1)
