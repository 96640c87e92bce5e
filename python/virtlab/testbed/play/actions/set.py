"""`set`: both ends of a role get a parameter's new value."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Tells both ends, and waits for their answers."""
    del at_ns
    for parameter, value in action.args.items():
        for side in trial.sides.get(str(action.role), []):
            request = {"role": action.role, "parameter": parameter, "value": value}
            trial.control.call("set", request, channel=side.channel)
    trial.note(timeline, f"{action.id}.done", trial.site.now())


IMPLEMENTATION = ActionKind(begin)
