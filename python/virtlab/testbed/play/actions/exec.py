"""`exec`: a command runs in a guest, started by the guest's leader, and its output is kept."""

from __future__ import annotations

from virtlab.plan import Action
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.commands import launch
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Starts it on a free channel; its end is news of its leader's."""
    del at_ns
    launch(trial, action.id, f"timeline.{action.id}", str(action.guest), action.argv, timeline)


IMPLEMENTATION = ActionKind(begin, moves_processes=True)
