"""About how long a run takes and what it keeps, from its Plan's intent alone.

The parts of time are the timeline's longest chain, and building and taking down the world (a fixed part and
what each guest's platform takes to start).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING

from virtlab.catalogue import PLATFORMS
from virtlab.experiment import Experiment, Study
from virtlab.experiment.world.boxes import Station
from virtlab.plan import BLOCKS
from virtlab.planner.timeline import length_ns, timeline_of

if TYPE_CHECKING:
    from virtlab.experiment.work.search import SearchFor

BUILD_NS = 700_000_000  # private world, soft switch, reachability check, commit to disk
TRIAL_NS = 300_000_000  # arming, draining and collecting of one trial of a search
MLR_SUMS = 3  # an MLRsearch makes about so many duration sums of traffic
SEGMENT_BYTES = 1448  # of payload in a frame of TCP with time stamps
HEADER_BYTES = 66  # Ethernet, IP and TCP before it
TELEMETRY_ROWS = 10  # at every look: of the machine, and of each guest
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
    time_ns = traffic_ns + BUILD_NS + sum(start_ns(station) for station in study.wiring.stations.values())
    time_ns += licensed_ns(study)
    if study.search is not None:
        time_ns += search_ns(study.search)
    disk_bytes = RUN_BYTES
    wanted = study.collect.packets
    for name, role in study.roles.items():
        if role.active and (wanted is None or name in wanted):
            own_ns = role.declaration.duration_ns(role.parameters) if role.part == "measure" else None
            rows = role.declaration.rows(role.parameters, own_ns or traffic_ns)
            disk_bytes += sum(count * BLOCKS[schema].disk_bytes for schema, count in rows.items())
    disk_bytes += sum(
        BLOCKS["series/1"].disk_bytes * 4 * (traffic_ns // every) for every in study.collect.series.values()
    )
    if study.collect.telemetry:
        looks = traffic_ns // study.collect.telemetry
        each = TELEMETRY_ROWS * (1 + len(study.wiring.stations))
        disk_bytes += BLOCKS["series/1"].disk_bytes * each * looks
    return Cost(time_ns, disk_bytes)


def start_ns(station: Station) -> int:
    """About how long a guest's platform takes to start it."""
    return PLATFORMS[station.platform].start_ns


def licensed_ns(study: Study) -> int:
    """What requests take beyond their own guess where routers let through no more than a licence; one after the other.

    The least licence counts for every role: which way its requests go, and how they share it, is the run's to show.
    """
    licences = [router.licence for router in study.wiring.routers.values() if router.licence is not None]
    if not licences:
        return 0
    more_ns = 0
    for role in study.roles.values():
        values = role.parameters
        if (
            not role.active
            or role.part != "measure"
            or "request_bytes" not in values
            or "count" not in values
        ):
            continue
        both_ways = 0 if values.get("test") == "bandwidth" else int(values.get("response_bytes", 0))
        octets = _framed(int(values["request_bytes"])) + (_framed(both_ways) if both_ways else 0)
        bits = 8 * octets * (int(values["count"]) + int(values.get("warmup", 0)))
        own_ns = (role.declaration.duration_ns(values) or 0) - int(values.get("timeout_ns", 0))
        more_ns += max(0, bits * 10**9 // min(licences) - own_ns)
    return more_ns


def _framed(payload_bytes: int) -> int:
    """Bytes that a licence counts for so much payload: with the headers of as many frames as it takes.

    >>> _framed(32), _framed(8192)
    (98, 8588)
    """
    return payload_bytes + HEADER_BYTES * max(1, -(-payload_bytes // SEGMENT_BYTES))


def search_ns(search: SearchFor) -> int:
    """About how long a search and the tests after it take: trials, and what surrounds each."""
    from virtlab.experiment.work.search import trial_ns

    width = max(min(goal.width for goal in search.goals), (search.resolution or 0) / search.high)
    halvings = ceil(log2(max(2.0, (search.high - search.low) / (width * search.high))))
    if search.method == "mlrsearch":
        traffic_ns = MLR_SUMS * sum(goal.duration_sum for goal in search.goals)
        trials = traffic_ns // max(trial_ns(goal, search.method) for goal in search.goals)
    else:
        trials = halvings + 2
        traffic_ns = trials * (search.own_trial_ns or trial_ns(search.goals[0], search.method))
    tests = search.tests
    if tests is not None and tests.latency is not None:
        count = len(tests.latency.loads) * tests.latency.trials
        trials, traffic_ns = trials + count, traffic_ns + count * tests.latency.trial_ns
    if tests is not None and tests.frame_loss is not None:
        count = round(1 / tests.frame_loss.step)
        trials, traffic_ns = trials + count, traffic_ns + count * tests.frame_loss.trial_ns
    if tests is not None and tests.back_to_back is not None:
        count = tests.back_to_back.trials * (1 + ceil(log2(1 / tests.back_to_back.width)))
        trials, traffic_ns = (
            trials + count,
            traffic_ns + tests.back_to_back.trials * 2 * tests.back_to_back.longest_ns,
        )
    if tests is not None and tests.recovery is not None:
        each_ns = tests.recovery.overload_ns + tests.recovery.watch_ns
        trials, traffic_ns = trials + tests.recovery.trials, traffic_ns + tests.recovery.trials * each_ns
    if tests is not None and tests.reset is not None:
        each_ns = tests.reset.down_ns + tests.reset.watch_ns
        trials, traffic_ns = trials + tests.reset.trials, traffic_ns + tests.reset.trials * each_ns
    return int(traffic_ns + trials * TRIAL_NS)


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
