"""Times that a program printed as instants of the run's clock.

Those that count from its start are added to the instant at which it was started. Those of a wall clock (1970, ISO 8601)
are of its guest's, which is compared with the run's clock at both ends of the program, so that a clock which goes at
another pace costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.agents.requests.every import ReadClock
from virtlab.outputs import UnreadableError
from virtlab.outputs.times import Stamp
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader.control import Control

SLACK_NS = 1_000_000_000  # before its start and after its end: programs count whole seconds
PACE_MOST = 1e-3  # of a wall clock that is slewed; one that differs more was set
BETWEEN_NS = 1_000_000  # by which two readings may differ beyond that
CURE = "say with 'clock' what its times count from, and with 'time_unit' in which unit"


@dataclass(frozen=True, slots=True)
class Reading:
    """The wall clock of a guest, and the run's clock at that instant."""

    wall_ns: int
    ours_ns: int


def read(control: Control, reach: Reach) -> Reading:
    """Asks the leader of a guest, whose kernel's clock its programs have. AgentError where it does not answer."""
    told = control.call(ReadClock(), channel=reach.leader)
    return Reading(told["realtime_ns"], reach.clock.to_ours(told["raw_ns"]))


@dataclass(slots=True)
class Instants:
    """The instants of one program: when it was started, and its guest's wall clock then and at its end."""

    started_ns: int
    readings: list[Reading] = field(default_factory=list)

    def of(self, stamps: list[Stamp], *, wall: bool, ended_ns: int) -> list[int]:
        """Each on the run's clock. UnreadableError for one at which the program did not run."""
        found = [self._of_wall(one.ns) if wall else self.started_ns + one.ns for one in stamps]
        for stamp, at_ns in zip(stamps, found, strict=True):
            if not self.started_ns - SLACK_NS <= at_ns <= ended_ns + SLACK_NS:
                raise UnreadableError(f"{stamp.where} {self._distance(at_ns, ended_ns)}", stamp.line, CURE)
        return found

    def _of_wall(self, ns: int) -> int:
        first, last = self.readings[0], self.readings[-1]
        went, passed = last.wall_ns - first.wall_ns, last.ours_ns - first.ours_ns
        if abs(went - passed) > PACE_MOST * passed + BETWEEN_NS:
            what = "has times of a clock that was set while it ran"
            raise UnreadableError(what, 0, "let nothing set the clock of its guest, or count from its start")
        since = ns - first.wall_ns
        return first.ours_ns + since + (since * (passed - went) // went if went > 0 else 0)

    def _distance(self, at_ns: int, ended_ns: int) -> str:
        if at_ns < self.started_ns:
            return f"is {(self.started_ns - at_ns) / 1e9:.4g} s before the program began"
        return f"is {(at_ns - ended_ns) / 1e9:.4g} s after the program ended"
