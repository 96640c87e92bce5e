"""Metrics of guests that move to another host, as their hypervisor tells them.

What a client notices is a metric of its role: its longest response time, `rtt.max`, is what many papers call downtime.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_ONCE = ("mean",)  # a run has one value
_SAMPLED = ("mean", "median", "max", "min")

MIGRATION = by_key(
    Metric(
        "pause", "ns", "lower",
        "How long the processors of a guest that moves stood still: from the end of its last instruction at the source to "
        "its first at the destination.",
        "QMP: STOP at the source, RESUME at the destination", _ONCE, "entity",
    ),
    Metric(
        "migration_time", "ns", "lower",
        "From the request that a guest moves until all of its state is at the destination, its pause included.",
        "QMP query-migrate: total-time", _ONCE, "entity",
    ),
    Metric(
        "migration_sent", "bytes", "lower", "What was sent of the memory of a guest that moved, in all rounds.",
        "QMP query-migrate: ram.transferred", _ONCE, "entity", "sent",
    ),
    Metric(
        "migration_rounds", "count", "lower",
        "How often the hypervisor read which pages a guest that moves had dirtied.",
        "QMP query-migrate: ram.dirty-sync-count", _ONCE, "entity", "rounds",
    ),
    Metric(
        "migration_remaining", "bytes", "neither",
        "What remains to be sent of a guest that moves, looked at every 50 ms.",
        "QMP query-migrate: ram.remaining", _SAMPLED, "entity", "remaining", over_time=True,
    ),
    Metric(
        "dirty_rate", "byte/s", "neither",
        "How fast a guest that moves dirties memory, as its hypervisor estimates it from the last round; 0 before it has.",
        "QMP query-migrate: ram.dirty-pages-rate", _SAMPLED, "entity", "dirty rate", over_time=True,
    ),
)  # fmt: skip
"""By key."""
