"""All services of one world: started in the order of what they need, watched until the world ends.

A service is one process in each of its guests, started by the guest's leader as any command of a file is. What it
writes is kept up to a bound. It ends with its world, whatever happens; where it ends before, and the timeline did not
want it, the run has failed, and its end is the reason. No check is made while a run plays, but those that its timeline
wants.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents import Notice
from virtlab.catalogue import SERVICES
from virtlab.catalogue.services import RECOVERED
from virtlab.errors import GuestError
from virtlab.plan import Action, Observer, Plan
from virtlab.planner.guests.stores import client_roles, guests_of, nodes_behind
from virtlab.testbed.kinds.platform import Counted, News, Running, Standstill
from virtlab.testbed.leader.channels import SERVICES as RANGE
from virtlab.testbed.leader.control import ending
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.services.lost_copies import Node, counted
from virtlab.testbed.services.operations import Doing, Operation, Pending, Poll, Recovery
from virtlab.testbed.services.output import Output
from virtlab.testbed.services.process import CHANNELS, Process
from virtlab.testbed.services.service import Invocation, services

POLL_S = 0.05
LISTS_S = 60.0  # for nodes that list what they have


@dataclass(slots=True)
class Services(Running):
    """The services of one world."""

    all_guests: Guests
    plan: Plan
    processes: list[Process] = field(default_factory=list)
    pending: dict[str, Pending] = field(default_factory=dict)  # by the action that waits for it

    def start(self, observe: Observer) -> None:
        """Starts all, each once what it needs is ready, and returns when all are. GuestError with the end of the output
        of the first that is not.
        """
        wanted = self.plan.world.services
        begun: set[str] = set()
        while not (ready := {name for name in begun if self._is_ready(name)}).issuperset(wanted):
            for name in [
                each for each in wanted if each not in begun and ready.issuperset(wanted[each].needs)
            ]:
                observe.progress(f"start {name}")
                begun.add(name)
                for guest in guests_of(wanted[name]):
                    self._begin(name, guest)
            self._get_on()

    def renew(self, observe: Observer) -> None:
        """Starts again what a trial before left ended."""
        self.pending.clear()
        for process in self.processes:
            process.renew()
        left = Operation([each for each in self.processes if each.down or each.ready_ns is None], starts=True)
        if left.processes:
            observe.progress("start services again")
        while left.processes and not left.step():
            self._get_on()

    def _get_on(self) -> None:
        self.all_guests.control.await_news(POLL_S)
        self._end_excesses()
        for death in self.deaths():
            raise death
        for process in self.processes:
            if not process.down:
                process.advance()

    def held(self) -> Iterator[int]:
        """Channels of each process and of its check."""
        for process in self.processes:
            yield from range(process.channel, process.channel + CHANNELS)

    def call(self, action: Action) -> None:
        """Begins an operation, or a question that is repeated until it holds; `attend` has its end."""
        if action.until is not None and action.until.call is not None:
            name, _, progress = action.until.call.partition(".")
            found = [each for each in self.processes if each.name == name]
            recovers = progress == RECOVERED
            poll = Poll(found, action.until.every_ns)
            self.pending[action.id] = Recovery(found, self._watches(name)) if recovers else poll
            return
        own = [each for each in self.processes if each.name == action.service]
        beside = services.of(own[0].service.kind).besides.get(str(action.op))
        if beside is not None:
            guests = beside.guests(own[0].service)
            self.pending[action.id] = Doing([each for each in own if each.guest in guests], beside)
            return
        only = action.args.get("guest")
        found = [
            each for each in self.processes if each.name == action.service and only in {None, each.guest}
        ]
        operation = SERVICES[found[0].service.kind].operations[str(action.op)]
        misses = operation.of_one and operation.ends and not operation.starts
        self.pending[action.id] = Operation(
            found, operation.ends, operation.starts, operation.empties, misses, own
        )

    def change_link(self, link: str, *, up: bool) -> None:
        """A link was cut, or is whole again: of stores whose nodes watch each other, those behind it are lost till
        then.
        """
        now_s = time.monotonic()
        for name in filter(self._watches, self.plan.world.services):
            for place in nodes_behind(self.plan, name).get(link, ()):
                guest = self.plan.world.services[name].on[place]
                for process in self.processes:
                    if (process.name, process.guest) == (name, guest) and process.copies is not None:
                        process.copies.changes(now_s, reached=up)

    def give_up(self, action: str) -> None:
        """What is under way for an action is waited for no more."""
        self.pending.pop(action, None)

    def busy(self) -> bool:
        """Whether something is under way that `attend` moves forward."""
        return bool(self.pending)

    def attend(self) -> Iterator[News]:
        """Ends those that write without end, or have no memory left; which actions of the timeline are done by that."""
        self._end_excesses()
        for action, pending in list(self.pending.items()):
            try:
                if not pending.step():
                    continue
                failure = None
            except GuestError as error:
                failure = error
            del self.pending[action]
            yield action, failure

    def ended(self, exited: Notice) -> GuestError | None:
        """Which service ended by itself, with the end of what it wrote."""
        channel = int(exited.details["channel"])
        process = next((each for each in self.processes if each.channel == channel and not each.down), None)
        return process.death(ending(exited)) if process is not None else None

    def deaths(self) -> Iterator[GuestError]:
        """The death of each process that ended by itself, heard of or not."""
        for process in self.processes:
            if process.output.flooded:
                yield process.death(process.ended or "code None")
            elif not process.down and (how := process.ended) is not None:
                yield process.death(how)

    def counters(self) -> Iterator[Counted]:
        """How long each took until it was ready."""
        for process in self.processes:
            if process.ready_ns is not None:
                yield process.entity, "start_ns", process.ready_ns

    def counters_inside(self) -> Iterator[Counted]:
        """How long their shares held back those in machines."""
        for process in self.processes:
            yield from process.throttled_inside()

    def standstills(self) -> Iterator[Standstill]:
        """The standstills of those processes that say how often they stood still."""
        for process in self.processes:
            if (found := process.standstill()) is not None:
                yield found

    def role_counts(self) -> Iterator[Counted]:
        """Counters of roles whose objects are in a store: what came back to a node that was wiped, and which copies are
        there.
        """
        for name, service in self.plan.world.services.items():
            nodes = [each.copies for each in self.processes if each.name == name and each.copies is not None]
            if nodes:
                recovery = counted(nodes, watch=self._watches(name))
                for role in client_roles(self.plan, name):
                    yield from ((f"{role}/{name}", counter, value) for counter, value in recovery.items())
            copies = services.of(service.kind).copies
            if copies is None or not (roles := copies.roles(self.plan, name)):
                continue
            own = [each for each in self.processes if each.name == name]
            back = {counter: value for each in own for counter, value in each.came_back().items()}  # of one
            lists = self._lists(
                copies.listing(name, service), [each for each in own if each.guest in service.on]
            )
            for role, folder in roles.items():
                own_counts = copies.counted(service, folder, lists) if lists is not None else {}
                counters = {**back, **own_counts}
                yield from ((f"{role}/{name}", counter, int(value)) for counter, value in counters.items())

    def _watches(self, name: str) -> bool:
        """Whether nodes of a store make copies for silent ones."""
        service = self.plan.world.services[name]
        watches = services.of(service.kind).watches
        return watches is not None and watches(service)

    def _lists(self, listing: Invocation, nodes: list[Process]) -> list[Any] | None:
        """What each node says that it has; None where one does not."""
        if any(each.down or each.ended is not None for each in nodes):
            return None
        commands = [each.ask(listing) for each in nodes]
        control, until_s = self.all_guests.control, time.monotonic() + LISTS_S
        while time.monotonic() < until_s and any(control.ended(each.channel) is None for each in commands):
            control.await_news(POLL_S)
        return [each.answer(command) for each, command in zip(nodes, commands, strict=True)]

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """What each wrote, where it wrote something."""
        for process in self.processes:
            if process.output.content:
                yield f"service-{process.name}-{process.guest}.log", bytes(process.output.content)
            if process.wiping is not None and process.wiping.content:
                yield f"service-{process.name}-{process.guest}-wiped.log", bytes(process.wiping.content)

    def _end_excesses(self) -> None:
        away = self.all_guests.away()
        for process in self.processes:
            if process.guest in away:
                continue  # it is ended once it can be
            # Where it is a process beneath it that the kernel ended, nothing else would tell.
            runs = not process.down and process.ended is None
            if runs and (process.output.flooded or process.starves):
                process.end()

    def _begin(self, name: str, guest: str) -> None:
        service = self.plan.world.services[name]
        line, kind = service.ready.line if service.ready is not None else None, services.of(service.kind)
        output = Output(line or kind.ready_line)
        tells = kind.watches is not None and guest in service.on
        process = Process(
            self.all_guests, name, guest, service, self._channel(name, guest), output,
            copies=Node() if tells else None,
        )  # fmt: skip
        self.processes.append(process)
        process.launch()

    def _channel(self, name: str, guest: str) -> int:
        """The first of its channels. In a guest with channels of its own they are the last ones, since commands of the
        timeline take the first.
        """
        channels = self.all_guests.reach(guest).channels
        if channels is None:
            shared = sum(self.all_guests.reach(each.guest).channels is None for each in self.processes)
            return RANGE.at(shared)
        here = sum(each.guest == guest for each in self.processes)
        first = len(channels) - CHANNELS * (here + 1)
        if first < CHANNELS:  # one of the probe, one for a command
            raise GuestError(
                f"services.{name}", f"{guest} runs no more than {here} services", "use more guests"
            )
        return channels[first]

    def _is_ready(self, name: str) -> bool:
        return all(each.ready_ns is not None for each in self.processes if each.name == name)
