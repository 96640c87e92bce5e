"""When a role's samples count.

Metrics are of the window `measured` when the Plan names one. A role that began and ended inside it counts
whole, so that no packet at its edge is cut by the time that the report of an event takes; one that was active before
or after counts by the part inside. Where there is no such window, or the role was not active in it, its own
time from started to finished counts.

A load may run during several measuring roles, and loses more during an unlimited stream than during a probe. Its
values come from the first of those roles that is not an unlimited stream (from the first of all where each is one),
so that they describe one state of the network.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import RUN, begins, ends_role
from virtlab.plan.model import Plan, Role
from virtlab.results.record import RunRecord

MEASURED = "measured"
FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class RoleWindow:
    """`begin_ns` and `end_ns` on the run's clock; `whole` when every sample of the role counts."""

    begin_ns: int
    end_ns: int
    name: str
    whole: bool = True

    @property
    def length_ns(self) -> int | None:
        """Its length; None when it is not known."""
        return None if self.begin_ns <= -FOREVER or self.end_ns >= FOREVER else self.end_ns - self.begin_ns


def role_window(record: RunRecord, role: str) -> RoleWindow:
    """The window in which a role's samples count in a run."""
    own = _own(record, role)
    measured = record.windows.get(MEASURED)
    if measured is None:
        return own
    others = [(name, _own(record, name)) for name in measuring_beside(record.plan, role)]
    windows = [
        (name, max(measured[0], other.begin_ns), min(measured[1], other.end_ns)) for name, other in others
    ]
    for name, begin_ns, end_ns in [*windows, (MEASURED, *measured)]:
        low, high = max(begin_ns, own.begin_ns), min(end_ns, own.end_ns)
        if low < high:
            return RoleWindow(low, high, name, whole=(low, high) == (own.begin_ns, own.end_ns))
    return own


def _own(record: RunRecord, role: str) -> RoleWindow:
    """From when a role started to when it finished; without an end that did not happen."""
    mine = [action for action in record.plan.timeline if action.role == role]
    actions = [action.id for action in mine if begins(action.do)]
    stops = [action.id for action in mine if ends_role(action.do)]
    begin = _mark(record, [f"{action}.started" for action in actions])
    end = _mark(record, [f"{action}.{event}" for action in actions for event in ("finished", "done")])
    if end is None:
        end = _mark(record, [f"{action}.{event}" for action in stops for event in ("started", "done")])
    return RoleWindow(begin if begin is not None else -FOREVER, end if end is not None else FOREVER, "own")


def beside_of(record: RunRecord, role: str) -> str | None:
    """The measuring role while which a load counts; None for a role that measures, where there is one only, or
    where none of several ran while the load did.
    """
    name = role_window(record, role).name
    return name if name in measuring_beside(record.plan, role) else None


def measuring_beside(plan: Plan, role: str) -> list[str]:
    """Measuring roles beside which a load may count, the first choice first; none for a role that measures,
    or where there is one only.
    """
    runs = list(
        dict.fromkeys(action.role for action in plan.timeline if action.do == RUN.name and action.role)
    )
    if role in runs or len(runs) < 2:
        return []
    return sorted(runs, key=lambda name: _takes_all(plan.roles[name]))


def _takes_all(role: Role) -> bool:
    """Whether a role is a stream as fast as possible."""
    declared = WORKLOADS.get(role.workload)
    return declared is not None and declared.fills(role.parameters)


def _mark(record: RunRecord, names: list[str]) -> int | None:
    """The instant of the first of these events that happened."""
    return next((record.marks[name].t_ns for name in names if name in record.marks), None)
