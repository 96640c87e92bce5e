"""Series and counters of hosts, guests, links and switches to values of a run.

A series is summed up over the window; a counter by how much it rose from the window's first mark to its last.
Where several roles measure one after another, hosts have CPU values of the window of each, too (`ROLE.host.cpu0`).
Only metrics of the registry become values; what a backend adds beyond it stays in the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtlab.analysis.context import CounterRow
from virtlab.analysis.values import Collector
from virtlab.analysis.window import MEASURED
from virtlab.lazy import NDArray, np
from virtlab.metrics import METRICS
from virtlab.results.record import RunRecord

COUNTERS = {
    "softnet_drops": ("dropped", "softnet_drops", "softnet_dropped"),
    "drops": ("drops", "rx_dropped", "tx_dropped", "dropped_packets"),
}
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
                _series(rows, begin, end, out, during=role)
    _counters(counters, set(record.plan.roles), out)


def _tests(record: RunRecord) -> list[str]:
    """Roles that have a window of their own, where several measure one after another."""
    mine = [role for role in record.plan.roles if role in record.windows]
    return mine if len(mine) > 1 else []


def _series(rows: dict[str, NDArray[Any]], low: int, high: int, out: Collector, *, during: str = "") -> None:
    """Values of each entity in a window; `during` a role, the processors of the hosts alone, as ROLE.ENTITY."""
    inside = (rows["t_ns"] >= low) & (rows["t_ns"] <= high)
    names = np.array(
        [f"{entity}\0{metric}" for entity, metric in zip(rows["entity"], rows["metric"], strict=True)],
        dtype=object,
    )
    for name in dict.fromkeys(names[inside].tolist()):
        entity, metric = name.split("\0")
        if during and (metric != "cpu" or not entity.startswith("host.")):
            continue
        if metric in METRICS and METRICS[metric].of == "entity":
            out.role = f"{during}.{entity}" if during else entity
            out.distribution(metric, rows["value"][inside & (names == name)])


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
            if counter in names and not (metric == "drops" and entity.startswith("softnet")):
                totals[entity] = totals.get(entity, 0) + value - first[entity, counter]
        for entity, total in totals.items():
            out.role = entity
            out.add(metric, "total", total, 1)
