"""`stop`: the client of a role gets the order to end."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Tells the client, and waits for its answer."""
    del at_ns
    trial.note(timeline, f"{action.id}.started", trial.site.now())
    trial.stop_role(str(action.role), timeline)
    trial.note(timeline, f"{action.id}.done", trial.site.now())


IMPLEMENTATION = ActionKind(begin)
