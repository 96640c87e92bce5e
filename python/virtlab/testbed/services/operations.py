"""What the timeline asks of services, under way: operations that end and start processes, and questions whether one
holds.

Nothing here waits: `step` does what can be done now, and says when all of it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from virtlab.errors import GuestError
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.services.lost_copies import is_recovered
from virtlab.testbed.services.missing import Missing
from virtlab.testbed.services.process import Process
from virtlab.testbed.services.service import Beside


class Pending(Protocol):
    """Something that comes to an end later."""

    def step(self) -> bool:
        """Whether it is done by now. GuestError where it has failed."""


@dataclass(slots=True)
class Operation:
    """Processes are ended (`ends`), started again and ready (`starts`), or both in this order; those that are only
    emptied run on.
    """

    processes: Sequence[Process]
    ends: bool = False
    starts: bool = False
    empties: bool = False  # they have nothing of what they held
    misses: bool = False  # what they miss until they are started again is counted
    all_processes: Sequence[Process] = ()  # of the service
    _missing: list[Missing] | None = None
    _killed: bool = False

    def step(self) -> bool:
        """Whether it is done by now. GuestError where one does not start, or is never ready."""
        if self.empties and not self.ends:
            wiped = [process.wiped() for process in self.processes]  # each gets on, whatever another does
            return all(wiped)
        if self.ends and not self._killed:
            self._killed = True
            for process in self.processes:
                if not process.down:
                    process.away = self.misses
                process.lose()
        if any(process.down and process.ended is None for process in self.processes):
            return False
        if not self.starts:
            return True
        if self._missing is None:
            self._missing = [Missing(each, self.all_processes) for each in self.processes if each.away]
        noted = [missing.noted() for missing in self._missing]  # each gets on, whatever another does
        if not all(noted):
            return False
        for process in self.processes:
            if process.down:
                process.launch(emptied=self.empties)
        for process in self.processes:
            if (how := process.ended) is not None:
                raise process.death(how)
        ready = [process.advance() for process in self.processes]  # each gets on, whatever another does
        return all(ready)


@dataclass(slots=True)
class Doing:
    """A command beside one of a service's processes does it."""

    processes: Sequence[Process]  # any of which will do
    operation: Beside
    _begun: tuple[Process, Command] | None = None

    def step(self) -> bool:
        """Whether the command has come to its end. GuestError where it fails, or none of the processes runs."""
        if self._begun is None:
            running = next((each for each in self.processes if not each.down and each.ended is None), None)
            if running is None:
                first = self.processes[0]
                what = f"no server runs in {', '.join(each.guest for each in self.processes)}"
                raise GuestError(first.where, what, "call 'heal' before")
            command = self.operation.command(running.name, running.service)
            self._begun = running, running.ask(command)
        process, begun = self._begun
        if process.all_guests.control.ended(begun.channel) is None:
            return False
        process.answer(begun, self.operation.does)
        return True


@dataclass(slots=True)
class Poll:
    """Whether every process of a service runs, and its check holds at this time."""

    processes: Sequence[Process]
    every_ns: int
    _held: set[int] = field(default_factory=set)  # channels

    def step(self) -> bool:
        """Whether it holds. A process that is down, or is being started, does not."""
        for process in self.processes:
            if process.down or process.ready_ns is None:
                self._held.discard(process.channel)
            elif process.channel not in self._held:
                ready = process.service.ready
                if ready is None or process.holds(ready, self.every_ns):
                    self._held.add(process.channel)
        return len(self._held) == len(self.processes)


@dataclass(slots=True)
class Recovery:
    """Whether all that a store lost is made again: by what its nodes tell of copies, or, where they do not, once every
    process runs and each beside which that is counted has what it lost.
    """

    processes: Sequence[Process]
    watch: bool = False  # nodes make copies for silent ones

    def step(self) -> bool:
        """Whether that is so."""
        if nodes := [process.copies for process in self.processes if process.copies is not None]:
            return is_recovered(nodes, watch=self.watch)
        return all(
            not process.down and (not process.recovers or process.recovered) for process in self.processes
        )
