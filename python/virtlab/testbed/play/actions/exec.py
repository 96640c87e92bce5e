"""`exec`: a command runs in a guest, started by the guest's leader, and its output is kept."""

from __future__ import annotations

from virtlab.catalogue.actions import WAIT
from virtlab.plan import Action
from virtlab.testbed.leader.channels import COMMANDS
from virtlab.testbed.leader.control import RefusedError
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Starts it on a free channel; its end is news of its leader's."""
    del at_ns
    guest = str(action.guest)
    reach = trial.guests.reach(guest)
    # The first of a guest's own is its probe's.
    channels = COMMANDS.span if reach.channels is None else reach.channels[1:]
    taken = trial.commands.keys() | trial.guests.held()
    channel = next((each for each in channels if each not in taken), None)
    if channel is None:
        what = f"{len(channels)} commands run in {guest}, and no more can at once"
        trial.note(timeline, f"{action.id}.failed", trial.site.now())
        trial.reasons.append(f"timeline.{action.id}: {what}; let some end first, with '{WAIT.name}'")
        return
    command = trial.guests.command(guest, channel, action.argv)
    trial.control.listen(channel, command.take)  # what it writes may be here before the answer is
    try:
        command.start()
    except RefusedError as error:
        trial.control.listen(channel, None)
        trial.note(timeline, f"{action.id}.failed", trial.site.now())
        trial.reasons.append(f"timeline.{action.id}: {error.what}")
        return
    trial.commands[channel] = (action.id, command)
    trial.note(timeline, f"{action.id}.started", trial.site.now())


IMPLEMENTATION = ActionKind(begin)
