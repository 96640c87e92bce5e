"""`wait`: nothing is done until a time is over, or a service or a metric is as is waited for."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Has the timeline know when the time is over, or the service or the role asked again and again."""
    trial.note(timeline, f"{action.id}.started", at_ns)
    if action.until is not None and action.until.metric is not None:
        trial.polling.begin(action)
        return
    if action.until is not None:
        trial.guests.call(action)
        return
    timeline.expect(action.id, at_ns + (action.for_ns or 0))


IMPLEMENTATION = ActionKind(begin)
