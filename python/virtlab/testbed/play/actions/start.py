"""`start`: the ends of a role get the order to begin, the client's at an instant that its own clock has.

The program of a role begins as its guest's leader starts it.
"""

from __future__ import annotations

from virtlab.agents.requests.probe import StartRole
from virtlab.catalogue.workloads import is_command
from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.reasons import Reason
from virtlab.testbed.play.timeline import Timeline

LATE_START_NS = 500_000_000  # only a connection that was cut holds a start up for so long


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Orders both ends to begin; the client reports when traffic began."""
    if is_command(trial.plan.roles[str(action.role)].workload):
        trial.programs.begin(str(action.role), action.id, timeline)
        return
    sides = trial.sides[str(action.role)]
    if any(side.started for side in sides):
        trial.reasons.append(
            Reason(
                f"timeline.{action.id}",
                f"role {action.role} was started before; a role runs once in a trial",
            )
        )
        return
    trial.probes.take_over(str(action.role))
    for side in sides:
        begins_ns = max(at_ns, trial.site.now())
        at = trial.clock(side.channel).from_ours(begins_ns) if side.side == "client" else None
        side.started = True
        trial.control.call(StartRole(side.role, at), channel=side.channel)
        late_ns = trial.site.now() - begins_ns
        if side.side == "client" and trial.control.attached(side.channel) and late_ns > LATE_START_NS:
            trial.taints.append(Reason(side.place, f"ordered to start up to {late_ns / 1e9:.1f} s late"))


IMPLEMENTATION = ActionKind(begin)
