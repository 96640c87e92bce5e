"""Which roles may have something under way while an echo role runs.

What begins when the echoes are over meets none of them. What was over before they begin can meet them all the same:
that a role is over means that it sends no more, not that queues are empty. It is gone when it has been quiet for
longer than its frames can be under way, beside all that was sent until then:

| role | quiet, when it is over, for |
|---|---|
| `rtt` | its time-out, which an echo without an answer has waited for; where it may be stopped, the grace for replies |
| `burst_load` from one end, with replies | the grace for replies |
| others | no time |

and for as long as the timeline waits afterwards. Where all were answered nothing is under way at all. For TCP this is
unknown: what is not acknowledged is sent again, and a full buffer is sent after its role is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import WAIT, begins, ends_role
from virtlab.plan import Action, Plan, Role
from virtlab.simulator.paths import by_tcp

OVER = frozenset({"finished", "done"})


@dataclass(frozen=True, slots=True)
class Meeting:
    """`together`: the role, and those that can be active while it is. `earlier`: those that were over before, and for
    how many ns at the least they had been quiet.
    """

    together: list[str]
    earlier: dict[str, int]


def meeting(plan: Plan, role: str) -> Meeting:
    """The roles that may overlap `role` in time, judged from the timeline."""
    firsts = {one.role: one for one in plan.timeline if begins(one.do) and one.role}
    order, mine, found = _Order(plan), firsts.get(role), Meeting([role], {})
    for name, other in plan.roles.items():
        begun = firsts.get(name)
        if name == role:
            continue
        if mine is None or begun is None:
            found.together.append(name)
            continue
        if order.pause_ns(begun.id, mine.id) is not None:
            continue
        stops = [one for one in plan.timeline if ends_role(one.do) and one.role == name]
        ends = [begun.id, *(one.id for one in stops if order.follows(one.id, begun.id))]
        pauses = [pause for end in ends if (pause := order.pause_ns(mine.id, end)) is not None]
        if not pauses or by_tcp(other):
            found.together.append(name)
        else:
            cut_off = bool(stops) or begun.timeout_ns is not None
            found.earlier[name] = max(pauses) + _quiet_ns(other, cut_off=cut_off)
    return found


def _quiet_ns(role: Role, *, cut_off: bool) -> int:
    """How long a role has sent nothing when it is over with something unanswered."""
    values, declared = role.parameters, WORKLOADS[role.workload]
    if declared.echoes:
        timeout_ns = int(values.get("timeout_ns") or 0)
        return min(timeout_ns, declared.grace_ns) if cut_off else timeout_ns
    answered = values.get("direction") == "request_reply" and values.get("origin", "from") != "both"
    return declared.grace_ns if answered else 0


class _Order:
    """What of a timeline is known to come after what."""

    def __init__(self, plan: Plan) -> None:
        self._actions = {action.id: action for action in plan.timeline}
        self.pause_ns = cache(self._pause_ns)
        self.follows = cache(self._follows)

    def _events(self, name: str) -> Iterator[tuple[Action, str]]:
        """All that must have happened before an action begins."""
        action = self._actions.get(name)
        after = None if action is None else action.after
        for event in () if after is None else (after.event, *after.all):
            cause, _, word = (event or "").rpartition(".")
            if cause in self._actions:
                yield self._actions[cause], word

    def _pause_ns(self, name: str, ended: str) -> int | None:
        """The least time from the end of an action to the beginning of another; None where that may be earlier."""
        known = []
        for cause, word in self._events(name):
            if cause.id == ended and word in OVER:
                known.append(0)
            elif (pause_ns := self.pause_ns(cause.id, ended)) is not None:
                waits = cause.do == WAIT.name and word == "done" and cause.timeout_ns is None
                known.append(pause_ns + (cause.for_ns or 0 if waits else 0))
        after = self._actions[name].after
        return max(known) + after.plus_ns if known and after is not None else None

    def _follows(self, name: str, earlier: str) -> bool:
        return any(cause.id == earlier or self.follows(cause.id, earlier) for cause, _ in self._events(name))
