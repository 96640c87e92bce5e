"""About how long a run takes and what it keeps, from its Plan's intent alone.

The parts of time are the timeline's longest chain, and building and taking down the world (a fixed part and
one per guest). Bytes per row are of Parquet files that virtlab wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtlab.experiment import Study
from virtlab.planner.timeline import length_ns, timeline_of

if TYPE_CHECKING:
    from virtlab.experiment import Experiment

BUILD_NS = 700_000_000  # private world, soft switch, reachability check, commit to disk
BUILD_PER_GUEST_NS = 5_000_000
BYTES_PER_ROW = {
    "sent/1": 14, "rtt/1": 24, "packet/1": 16, "burst/1": 24, "interval/1": 40, "transaction/1": 12, "series/1": 8,
    "request/1": 16, "rt_job/1": 24, "rt_supply/1": 20,
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
    traffic_ns = length_ns(study, timeline_of(study), at_most=False)
    time_ns = traffic_ns + BUILD_NS + BUILD_PER_GUEST_NS * len(study.wiring.stations)
    disk_bytes = RUN_BYTES
    wanted = study.collect.packets
    for name, role in study.roles.items():
        if role.active and (wanted is None or name in wanted):
            own_ns = role.declaration.duration_ns(role.parameters) if role.part == "measure" else None
            rows = role.declaration.rows(role.parameters, own_ns or traffic_ns)
            disk_bytes += sum(count * BYTES_PER_ROW[schema] for schema, count in rows.items())
    disk_bytes += sum(
        BYTES_PER_ROW["series/1"] * 4 * (traffic_ns // every) for every in study.collect.series.values()
    )
    return Cost(time_ns, disk_bytes)


def estimate_points(experiment: Experiment) -> list[Cost]:
    """The cost of one run of every design point, in order."""
    kept: dict[int, Cost] = {}
    costs = []
    for point in experiment.points():
        study = experiment.study(point)
        if id(study) not in kept:
            kept[id(study)] = estimate(study)
        costs.append(kept[id(study)])
    return costs


def about_time(time_ns: int) -> str:
    """A length of time for people.

    >>> about_time(77_580_000_000), about_time(2_400_000_000), about_time(9_000_000_000_000)
    ('1 min 20 s', '2.4 s', '2 h 30 min')
    """
    seconds = time_ns / 10**9
    if seconds < 60:
        return f"{seconds:.2g} s"
    if seconds < 3600:
        tens = round(seconds / 10) * 10
        return f"{tens // 60} min" + (f" {tens % 60} s" if tens % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def about_bytes(size_bytes: int) -> str:
    """A size for people.

    >>> about_bytes(7_400_000), about_bytes(900)
    ('7.4 MB', '900 B')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return (
                f"{size_bytes / size:.2g} {unit}"
                if size_bytes < 10 * size
                else f"{size_bytes / size:.0f} {unit}"
            )
    return f"{size_bytes} B"
