"""What a packet costs in processor time, machine and all: all processors while a stream ran, per packet that arrived.

Senders, receivers, virtual switches and whatever holds the links work on the same processors, and the kernel's part
of that belongs to no process. So the figure is of the whole machine, and what a virtual switch costs is the
difference between two settings that differ in nothing else. Other work that keeps a processor busy is counted, too.
"""

from __future__ import annotations

import re

from virtlab.analysis.values import Collector
from virtlab.analysis.window import role_window
from virtlab.lazy import np
from virtlab.results.record import RunRecord

PROCESSOR = re.compile(r"host\.cpu\d+")  # each by itself; `host.cpu` is their mean


def values(record: RunRecord, out: Collector) -> None:
    """Adds `cpu_per_packet` of each stream whose packet rate is known, where processors were sampled while it ran."""
    rates = {
        value.role: (value.value, value.samples)
        for value in out.values
        if (value.metric, value.statistic) == ("packet_rate", "mean")
    }
    for role, (rate, packets) in rates.items():
        out.role = role
        if not rate:
            out.absent("cpu_per_packet", "no packet arrived")
            continue
        window = role_window(record, role)
        busy = _busy(record, window.begin_ns, window.end_ns)
        if busy is None:
            out.absent("cpu_per_packet", "no processor was sampled while the stream ran")
        else:
            out.add("cpu_per_packet", "mean", 1e9 * busy / rate, packets)


def _busy(record: RunRecord, low_ns: int, high_ns: int) -> float | None:
    """Mean number of busy processors in a window; None without samples in it."""
    for stream in record.streams():
        if stream.schema != "series/1":
            continue
        rows = record.samples(stream.stream, stream.schema)
        inside = (rows["t_ns"] >= low_ns) & (rows["t_ns"] <= high_ns) & (rows["metric"] == "cpu")
        names = {str(name) for name in rows["entity"][inside] if PROCESSOR.fullmatch(str(name))}
        if names:
            return sum(
                float(np.mean(rows["value"][inside & (rows["entity"] == name)])) for name in sorted(names)
            )
    return None
