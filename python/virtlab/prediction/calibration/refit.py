"""A platform profile from any results, fitted to part of their design points by calibration's own fitting.

Every role that shows what the platform adds gives rows (`rows`): echoes, requests and their answers, datagrams at a
rate, floods. What one ns of a cost adds is found by simulating each design point's own Plan with that cost alone. All
of that is done once; a fit that leaves points out takes the rows and spreads of the others and is calibration's: robust
non-negative least squares, each row weighed by its standard error, with the same tables of wake-ups and lateness.

`virtlab calibrate` has designed runs, and separates more costs. Here rows of roles that nothing else runs beside are
preferred: queueing scatters more than costs come to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import START
from virtlab.errors import ExperimentError
from virtlab.plan import Plan
from virtlab.planner.queues.pushback import sharing
from virtlab.prediction.calibration.calibrate import fitted
from virtlab.prediction.calibration.rows import FIRST, NOTICE, Design, Row, Spread, is_flood, rows_of_role
from virtlab.results import RunRecord
from virtlab.simulator.profile import Profile, wakeups

T = TypeVar("T")
POINTS_MAX = 16  # of a fit: costs are constants, so points spread over the design are enough
RUNS_MAX = 8  # of a point whose samples are read
PARTS = ("send_ns", "message_ns", "crossing_ns", "crossing_byte_ns")


@dataclass
class Rows:
    """All rows and spreads of a dataset, by design point; `contended`: rows of roles that others ran beside."""

    names: tuple[str, ...]
    processors: int
    rows: dict[int, list[Row]] = field(default_factory=dict)
    contended: dict[int, list[Row]] = field(default_factory=dict)
    spreads: dict[int, list[Spread]] = field(default_factory=dict)
    runs: int = 0
    simulations: int = 0
    notes: list[str] = field(default_factory=list)

    def profile(self, leave_out: Collection[int], name: str = "refit") -> Profile | None:
        """Fitted to all points but those; None when no row is left."""
        rows = _left_in(self.rows, leave_out) or _left_in(self.contended, leave_out)
        if not rows:
            return None
        return fitted(
            rows, _left_in(self.spreads, leave_out), self.names, runs=self.runs, processors=self.processors,
            provenance={}, name=name,
        ).profile  # fmt: skip


def rows_of(records: Sequence[RunRecord], processors: int) -> Rows:
    """Rows of good runs of one realisation; empty where no role shows a cost, or the simulator plays no such world."""
    by_point: dict[int, list[RunRecord]] = {}
    for record in records:
        if _telling(record.plan):
            by_point.setdefault(record.point, []).append(record)
    chosen = _spread_out(sorted(by_point), POINTS_MAX)
    names = _names([by_point[point][0].plan for point in chosen])
    found = Rows(names, processors)
    simulated = [name for name in names if not name.startswith(("flood.", "links.frame"))]
    designs: dict[str, Design] = {}
    for point in chosen:
        for role in _telling(by_point[point][0].plan):
            contended = _contended(by_point[point][0].plan, role)
            for record in by_point[point][:RUNS_MAX]:
                try:
                    rows, spreads = rows_of_role(record, role, simulated, designs, contended=contended)
                except ExperimentError as error:
                    found.notes.append(f"{role} tells no costs: {error}")
                    break
                found.runs += 1
                (found.contended if contended else found.rows).setdefault(point, []).extend(rows)
                found.spreads.setdefault(point, []).extend(
                    _alone(spread, contended=contended) for spread in spreads
                )
    found.simulations = len(designs) * (len(simulated) + 2)
    return found


def _alone(spread: Spread, *, contended: bool) -> Spread:
    """Where others make traffic, path delays vary by queueing, which is no lateness."""
    return Spread(spread.wakeup, spread.process_ns, None, spread.path_ns) if contended else spread


def _left_in(parts: dict[int, list[T]], leave_out: Collection[int]) -> list[T]:
    return [each for point, found in parts.items() if point not in leave_out for each in found]


def _telling(plan: Plan) -> list[str]:
    """Roles whose packets are kept, and that a cost shows in. A search is played elsewhere, trial by trial."""
    return [
        name
        for name, role in plan.roles.items()
        if WORKLOADS[role.workload].tells(role.parameters) and name in plan.collect.packets
    ]


def _names(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Costs that these worlds can pay. All get a value, so that a profile knows the kinds that occur."""
    found: dict[str, None] = {}
    for plan in plans:
        world = plan.world
        kinds = [f"platform.{guest.platform}" for guest in world.guests.values()]
        found |= dict.fromkeys(f"{kind}.{part}" for kind in kinds for part in PARTS)
        for vswitch in world.vswitches.values():
            found |= dict.fromkeys(f"vswitch.{vswitch.kind}.{part}" for part in ("packet_ns", "byte_ns"))
        guests = world.guests.values()
        slow = any(vnic.pushback_bit_per_s for guest in guests for vnic in guest.vnics.values())
        if slow or sharing(plan):
            found["qdisc.htb.packet_ns"] = None
        if world.links:
            found |= dict.fromkeys(("links.departure_ns", NOTICE))
        found |= dict.fromkeys(wakeups(plan, guest.idle)[0] for guest in guests)
        found[FIRST] = None
        for name, role in plan.roles.items():
            if not is_flood(plan, name):
                continue
            found |= dict.fromkeys(f"flood.{role.workload}.{part}" for part in ("packet_ns", "byte_ns"))
            for guest in role.parameters.get("via") or ():
                way = "bridge" if world.guests[guest].bridges else "forward"
                kind = f"platform.{world.guests[guest].platform}.{way}"
                found |= dict.fromkeys((f"{kind}_ns", f"{kind}_byte_ns"))
            if world.links:
                found |= dict.fromkeys(("links.frame_ns", "links.frame_byte_ns"))
    return tuple(found)


def _contended(plan: Plan, role: str) -> bool:
    """Whether other roles run beside this one: they were started before it ran, or with it."""
    return any(action.do == START.name and action.role not in {None, role} for action in plan.timeline)


def _spread_out(points: list[int], most: int) -> list[int]:
    """At most so many of them, evenly from the first to the last."""
    if len(points) <= most:
        return points
    return sorted({points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)})
