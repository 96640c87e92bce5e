"""Commands in guests: of an `exec`, or the program of a role. A guest's leader starts them on a channel of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtlab.catalogue.actions import WAIT
from virtlab.testbed.leader.channels import COMMANDS
from virtlab.testbed.leader.control import RefusedError
from virtlab.testbed.leader.execution import OUTPUT_MAX_BYTES
from virtlab.testbed.play.actions.action import Playing
from virtlab.testbed.play.reasons import Reason
from virtlab.testbed.play.timeline import Timeline


def launch(
    trial: Playing, action: str, where: str, guest: str, argv: Sequence[str], timeline: Timeline,
    *, output_bytes: int = OUTPUT_MAX_BYTES, given: bytes = b"", **more: Any,
) -> int | None:  # fmt: skip
    """Starts a command of an action on a free channel, whose end is news of its leader's; None: it cannot be started,
    and the run has failed. `where` is its place in the file; `given` is what it reads; `more` is of `Guests.command`.
    """
    reach = trial.guests.reach(guest)
    # The first of a guest's own is its probe's.
    channels = COMMANDS.span if reach.channels is None else reach.channels[1:]
    taken = trial.commands.keys() | trial.guests.held()
    channel = next((each for each in channels if each not in taken), None)
    if channel is None:
        what = f"{len(channels)} commands run in {guest}, and no more can at once"
        trial.note(timeline, f"{action}.failed", trial.site.now())
        trial.reasons.append(Reason(where, f"{what}; let some end first, with '{WAIT.name}'"))
        return None
    command = trial.guests.command(guest, channel, argv, most_bytes=output_bytes, **more)
    trial.control.listen(channel, command.take)  # what it writes may be here before the answer is
    try:
        command.start()
    except RefusedError as error:
        trial.control.listen(channel, None)
        trial.note(timeline, f"{action}.failed", trial.site.now())
        trial.reasons.append(Reason(where, error.what))
        return None
    if given:
        trial.control.data(channel, given)
        trial.control.data(channel, b"")
    trial.commands[channel] = (action, command)
    trial.note(timeline, f"{action}.started", trial.site.now())
    return channel
