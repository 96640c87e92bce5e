"""What would be enough for the guests of a Plan to move: the smallest bandwidth, downtime limit or throttle of each
move.

The model is that of `virtlab migration`, with the numbers that the simulator plays. Of a copy over links the bandwidth
is what the narrowest of them carries of TCP, with no one else on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.plan import Plan
from virtlab.planner.mobility.moves import MODE, mode_of, moves
from virtlab.prediction.migration.model import Course, Fixed, Least, Moved, Policy, courses, least
from virtlab.simulator.lower import lower
from virtlab.simulator.moves import dirtied, timed
from virtlab.simulator.pools import supplied
from virtlab.simulator.profile import Profile
from virtlab.units import show_quantity

PAYLOAD_SHARE = 1448 / 1538  # of a line's octets, as the simulator has it (`bulk.rs`)


@dataclass(frozen=True, slots=True)
class Enough:
    """A guest's move: its course at the Plan's limits, and what would be enough for it to arrive by its rule."""

    action: str
    guest: str
    bandwidth_byte_per_s: float
    course: Course
    least: Least | None  # None of a mode without rounds, which arrives at any bandwidth

    def line(self) -> str:
        """The course and what would be enough, in one line."""
        said = "it never arrives"
        if self.course.end != "never":
            pause, total = (
                show_quantity(each * 1e9, "ns") for each in (self.course.pause_s, self.course.total_s)
            )
            said = f"it pauses for {pause} and takes {total}, alone on the links"
        return f"{self.action}: {self.guest} moves; {said}; {self._enough()}"

    def _enough(self) -> str:
        if self.least is None:
            return "it arrives at any bandwidth"
        return f"enough to arrive: {', or '.join(self._terms(self.least))}"

    def _terms(self, least: Least) -> list[str]:
        found = []
        if (rate := least.bandwidth_byte_per_s) is not None:
            found.append(f"a bandwidth of {show_quantity(float(rate), 'byte/s')}")
        if (limit := least.downtime_limit_ns) is not None:
            found.append(
                f"a downtime limit of {show_quantity(float(limit), 'ns')}" if limit else "any downtime limit"
            )
        if (throttle := least.throttle_percent) is not None:
            found.append(f"a throttle of {throttle} %" if throttle else "no throttle")
        return found or ["none of bandwidth, downtime limit and throttle alone"]


def enough(plan: Plan, profile: Profile) -> list[Enough]:
    """What is enough for each guest that moves, in the order of the timeline."""
    if not moves(plan):
        return []
    lowered = timed(supplied(lower(plan, 0), plan, profile.value), plan, profile.value)
    by_id = {each["id"]: each["args"] for each in lowered["timeline"]}
    found = []
    for guest, action in ((guest, one) for guest, own in moves(plan).items() for one in own):
        given = by_id[action.id]
        rates = [plan.world.links[link].rate_bit_per_s / 8 * PAYLOAD_SHARE for link, _ in given["way"]]
        bandwidth = min([given["bandwidth_byte_per_s"], *rates])
        own = given["guest"] | dirtied(plan, guest)
        moved = Moved(**{**own, "fixed": Fixed(**own["fixed"])})
        policy = Policy(**given["policy"])
        course = courses([moved], bandwidth, policy)[0]
        smallest = least([moved], bandwidth, policy) if mode_of(action) == MODE else None
        found.append(Enough(action.id, guest, bandwidth, course, smallest))
    return found
