"""About how long a run takes and what it keeps, from its Plan's intent alone.

The parts of time are the timeline's longest chain, and building and taking down the world (a fixed part and one per
guest). Bytes per row are of Parquet files that virtlab wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.experiment import Study
from virtlab.planner.timeline import length_ns, timeline_of

BUILD_NS = 700_000_000  # private world, soft switch, reachability check, commit to disk
BUILD_PER_GUEST_NS = 5_000_000
BYTES_PER_ROW = {
    "sent/1": 14, "rtt/1": 24, "packet/1": 16, "burst/1": 24, "interval/1": 40, "transaction/1": 12, "series/1": 8,
}  # fmt: skip
RUN_BYTES = 60_000  # Plan, record, log, counters


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated time and disk."""

    time_ns: int
    disk_bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.time_ns + other.time_ns, self.disk_bytes + other.disk_bytes)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.time_ns * times, self.disk_bytes * times)


def estimate(study: Study) -> Cost:
    """The cost of one run of a design point."""
    traffic_ns = length_ns(study, timeline_of(study))
    time_ns = traffic_ns + BUILD_NS + BUILD_PER_GUEST_NS * len(study.wiring.stations)
    disk_bytes = RUN_BYTES
    wanted = study.collect.packets
    for name, role in study.roles.items():
        if role.active and (wanted is None or name in wanted):
            own_ns = role.declaration.duration_ns(role.parameters) if role.part == "measure" else None
            rows = role.declaration.rows(role.parameters, own_ns or traffic_ns)
            disk_bytes += sum(count * BYTES_PER_ROW[schema] for schema, count in rows.items())
    disk_bytes += sum(BYTES_PER_ROW["series/1"] * 4 * (traffic_ns // every) for every in study.collect.series.values())
    return Cost(time_ns, disk_bytes)
