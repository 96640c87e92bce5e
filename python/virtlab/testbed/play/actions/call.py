"""`call`: a service begins an operation; that it is done, or has failed, is news of the service's."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Hands it to the service."""
    del at_ns
    trial.note(timeline, f"{action.id}.started", trial.site.now())
    trial.guests.call(action)


IMPLEMENTATION = ActionKind(begin)
