"""Sample blocks of a guest with its own clock, put on the run's clock.

Columns that hold instants are of the clock of the agent that sent the block; `sent_ns` of an arrival came with the
packet and is of the sender's. Values below 0 mean that there was no such instant, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.testbed.kinds.clock import Clock, GuestClock

OWN: Mapping[str, tuple[str, ...]] = {
    "sent/1": ("intended_ns", "sent_ns"),
    "rtt/1": ("intended_ns", "sent_ns", "received_ns"),
    "packet/1": ("received_ns", "user_ns"),
    "burst/1": ("intended_ns", "sent_ns", "finished_ns"),
    "interval/1": ("begin_ns", "end_ns"),
    "transaction/1": ("started_ns", "finished_ns"),
    "request/1": ("sent_ns", "finished_ns"),
    "response/1": ("intended_ns", "sent_ns", "finished_ns"),
    "rt_job/1": ("release_ns", "start_ns", "finish_ns"),
    "rt_supply/1": ("begin_ns", "end_ns"),
    "memory/1": ("begin_ns", "end_ns"),
    "series/1": ("t_ns",),
    "counter/1": ("t_ns",),
}
OTHERS: Mapping[str, tuple[str, ...]] = {"packet/1": ("sent_ns",)}


def on_our_clock(
    schema: str, columns: Mapping[str, NDArray[Any]], own: Clock, other: Clock
) -> dict[str, NDArray[Any]]:
    """The columns of a block with every instant on our clock. `other` is the clock at the role's other end."""
    out = dict(columns)
    for clock, names in ((own, OWN.get(schema, ())), (other, OTHERS.get(schema, ()))):
        if isinstance(clock, GuestClock):
            for name in names:
                out[name] = _by_epoch(out[name], clock)
    return out


def _by_epoch(instants: NDArray[Any], clock: GuestClock) -> NDArray[Any]:
    """The instants converted, those of each time between two pauses by themselves."""
    epochs = np.searchsorted(np.array(clock.breaks_ns, dtype=np.int64), instants)
    out = instants
    for epoch in np.unique(epochs):
        out = np.where(epochs == epoch, _converted(np.where(epochs == epoch, instants, -1), clock), out)
    return out


def _converted(instants: NDArray[Any], clock: Clock) -> NDArray[Any]:
    """Exact for whole columns: the offset is a straight line, drawn once per column through its first and last
    instant.
    """
    there = instants >= 0
    if not there.any():
        return instants
    first, last = int(instants[there].min()), int(instants[there].max())
    low, high = first - clock.to_ours(first), last - clock.to_ours(last)
    slope = (high - low) / (last - first) if last > first else 0.0
    offsets = low + np.rint((instants - first) * slope).astype(np.int64)
    return np.where(there, instants - offsets, instants)
