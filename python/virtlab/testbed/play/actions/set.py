"""`set`: both ends of a role get a parameter's new value, or what plays a link sends at another rate, cuts
it, or makes it whole.
"""

from __future__ import annotations

from virtlab.agents.requests.probe import SetParameter
from virtlab.plan import Action
from virtlab.planner.topology.cuts import STATE, UP
from virtlab.testbed.play import cuts, rates
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Tells both ends of a role, or what plays a link, and waits for the answer."""
    del at_ns
    if action.link is not None:
        trial.note(timeline, f"{action.id}.started", trial.site.now())
        if STATE in action.args:
            cuts.change(trial.control, trial.plan, trial.lowered, action.link, action.args[STATE])
            trial.guests.change_link(action.link, up=action.args[STATE] == UP)
        else:
            rates.change(trial.control, trial.plan, trial.lowered, action.link, action.args[rates.RATE])
    else:
        for parameter, value in action.args.items():
            for side in trial.sides.get(str(action.role), []):
                trial.control.call(SetParameter(str(action.role), parameter, value), channel=side.channel)
    trial.note(timeline, f"{action.id}.done", trial.site.now())


IMPLEMENTATION = ActionKind(begin)
