"""Metrics of guests that move to another host: as their hypervisor tells them, as clients notice them, and of what
writes to their memory.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_ONCE = ("mean",)  # a run has one value
_SAMPLED = ("mean", "median", "max", "min")

_CLIENTS = (
    Metric(
        "blackout", "ns", "lower",
        "Longest time between two replies in a row that a client of a guest got around its move: the guest's pause, the "
        "time until the network finds it at its destination, and that between two requests.",
        "replies in a row, from the request to move on", ("max",), "role", "blackout of a client",
    ),
    Metric(
        "blackout_late", "count", "lower", "Requests sent in a client's blackout that were answered after it.",
        "blackout", ("count",), "role", "late requests of the blackout",
    ),
    Metric(
        "blackout_lost", "count", "lower",
        "Requests sent in a client's blackout that were never answered; absent where only answers have rows.",
        "blackout", ("count",), "role", "lost requests of the blackout",
    ),
    Metric(
        "copy_blackout", "ns", "lower",
        "Longest of the other gaps between two replies in a row that overlap the move: while its hypervisor prepares the "
        "copy or reads which pages are dirty, a guest may send no reply without being paused.",
        "blackout, without the gap in which the guest began at its destination", ("max",), "role",
        "blackout of the copy",
    ),
    Metric(
        "pause_blackout", "ns", "lower",
        "Time from the last reply before a guest runs at its destination to the first one after: what was left of a "
        "client's interval, the guest's pause, and the re-convergence.",
        "replies in a row around RESUME at the destination", ("max",), "role", "blackout of the pause",
    ),
    Metric(
        "reconvergence", "ns", "lower",
        "Time from the instant from which a guest runs at its destination until a client gets a reply: the announcement, "
        "the switches, the guest's first instructions there, and what TCP waits before it sends a lost request again.",
        "RESUME at the destination to the next reply", ("max",), "role", "re-convergence",
    ),
    Metric(
        "downtime", "ns", "lower",
        "Largest response time of the requests that were open while a guest moved: what many papers call downtime.",
        "response time (rtt, response_time) at its largest", ("max",), "role", "downtime of a client",
    ),
)  # fmt: skip
OF_CLIENTS = frozenset(metric.key for metric in _CLIENTS)
"""What a role has of the move of the guest at which it ends."""

MIGRATION = by_key(
    *_CLIENTS,
    Metric(
        "pause", "ns", "lower",
        "How long the processors of a guest that moves stood still: from the end of its last instruction at the source to "
        "its first at the destination; of one that is shut down, until it serves again.",
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
        "migration_sent_paused", "bytes", "lower",
        "Of what was sent of the memory of a guest that moved, that while it was paused.",
        "QMP query-migrate: ram.downtime-bytes", _ONCE, "entity", "sent in the pause",
    ),
    Metric(
        "migration_disk_sent", "bytes", "lower", "What was sent of the disk of a guest that moved, where it is mirrored.",
        "QMP query-block-jobs: offset", _ONCE, "entity", "sent of the disk",
    ),
    Metric(
        "migration_rounds", "count", "lower",
        "How often the hypervisor read which pages a guest that moves had dirtied.",
        "QMP query-migrate: ram.dirty-sync-count", _ONCE, "entity", "rounds",
    ),
    Metric(
        "migration_setup", "ns", "lower", "Of the time that a guest takes to move, that before the first page is sent.",
        "QMP query-migrate: setup-time", _ONCE, "entity", "set-up",
    ),
    Metric(
        "migration_throttle", "ratio", "neither",
        "Share of the time for which the hypervisor stops the processors of a guest that moves, so that it writes less "
        "(`auto_converge`).", "QMP query-migrate: cpu-throttle-percentage", ("mean", "max"), "entity", "throttle",
        over_time=True,
    ),
    Metric(
        "migration_remaining", "bytes", "neither",
        "What remains to be sent of a guest that moves, looked at every 50 ms.",
        "QMP query-migrate: ram.remaining", _SAMPLED, "entity", "remaining", over_time=True,
    ),
    Metric(
        "migration_dirtied", "bytes", "neither",
        "Different bytes, in whole pages, that a guest that moves wrote during a round: a value per reading of which "
        "pages are dirty. Readings between two looks, 50 ms apart, have one value together.",
        "QMP query-migrate: by how much ram.remaining grows as ram.dirty-sync-count does, and what was sent", _SAMPLED,
        "entity", "dirtied per round", over_time=True,
    ),
    Metric(
        "dirty_rate", "byte/s", "neither",
        "How fast a guest that moves dirties memory, as its hypervisor estimates it from the last round; 0 before it has.",
        "QMP query-migrate: ram.dirty-pages-rate", _SAMPLED, "entity", "dirty rate", over_time=True,
    ),
    Metric(
        "sampled_dirty_rate", "byte/s", "neither",
        "How many different bytes a guest wrote per second of a measurement, as its hypervisor finds by sampling pages, or "
        "by KVM's dirty ring (a condition of the run): at most the working set in each; in steps of 1 MiB/s.",
        "QMP calc-dirty-rate: mode page-sampling, or dirty-ring", _SAMPLED,
        "entity", "dirty rate by sampling", over_time=True,
    ),
    Metric(
        "written_rate", "byte/s", "neither",
        "Bytes of memory that a writer wrote per second, in whole pages by its own count; per interval of 100 ms of its "
        "guest's clock, which stands still while the guest is paused.", "dirty: pages written per interval", _SAMPLED,
        "role", "rate of writes to memory",
    ),
    Metric(
        "written_pages", "count", "neither", "Pages of memory that a writer wrote, by its own count.",
        "dirty: pages written", ("total",), "role", "pages written",
    ),
    Metric(
        "missed_pages", "ratio", "lower",
        "Of the pages that a writer was to write, those that it passed over, as its guest got no processor in time.",
        "dirty: due for 100 ms and not written", ("ratio", "count"), "role", "writes passed over",
    ),
)  # fmt: skip
"""By key."""
