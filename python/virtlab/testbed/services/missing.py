"""What a node missed while it was away: noted before its servers are started again, and counted from then on.

The other nodes list what they have, where their store needs that; then one command, beside the node's own server or
another's, knows what is missing, and counts what comes back. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.testbed.leader.execution import Command
from virtlab.testbed.services.process import Process
from virtlab.testbed.services.service import services

DOES = "notes what the node missed"


@dataclass(slots=True)
class Missing:
    """What one node missed while it was down."""

    process: Process
    all_processes: Sequence[Process]  # of its service
    _listings: list[tuple[Process, Command]] | None = None
    _counts: Process | None = None  # beside which it is counted

    def noted(self) -> bool:
        """Whether it is known by now. GuestError where a command fails."""
        process, service = self.process, self.process.service
        missed = services.of(service.kind).missed
        if missed is None or process.lost_s is None or not process.away:
            return True
        if self._counts is None:
            if self._listings is None:
                others = [each for each in self.all_processes if each.guest in service.on and not each.down]
                listing = missed.listing(process.name, service) if missed.listing is not None else None
                self._listings = [(each, each.ask(listing)) for each in others] if listing is not None else []
            control = process.all_guests.control
            if any(control.ended(command.channel) is None for _, command in self._listings):
                return False
            lists = [each.answer(command) for each, command in self._listings]
            guest = missed.guest(service, process.guest)
            self._counts = next(each for each in self.all_processes if each.guest == guest)
            self._counts.count(missed.counting(process.name, service, process.lost_s, lists))
        if not self._counts.counts(DOES):
            return False
        process.away = False
        return True
