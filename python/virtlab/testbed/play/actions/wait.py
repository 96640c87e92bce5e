"""`wait`: nothing is done until a time is over."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Has the timeline know when the time is over."""
    trial.note(timeline, f"{action.id}.started", at_ns)
    timeline.expect(action.id, at_ns + (action.for_ns or 0))


IMPLEMENTATION = ActionKind(begin)
