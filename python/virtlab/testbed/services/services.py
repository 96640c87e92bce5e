"""All services of one world: started in the order of what they need, ready by their checks, watched until the world ends.

A service is one process in each of its guests, started by the guest's leader as any command of a file is. What it writes
is kept up to a bound. It ends with its world, whatever happens; where it ends before, the run has failed, and its end is
the reason. A check is tried again until it holds or its time is over. None is made while a run plays, so it disturbs
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from virtlab.agents import Data, Notice
from virtlab.errors import GuestError
from virtlab.plan import Observer, Plan, Ready, Service
from virtlab.planner.ends import interfaces
from virtlab.testbed.kinds.platform import Counted, Running
from virtlab.testbed.leader.channels import SERVICES
from virtlab.testbed.leader.control import RefusedError, ending, outcome
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.services.output import MOST_BYTES, Output
from virtlab.testbed.services.service import ServiceImplementation, services

OURSELVES = "/proc/self/exe"  # of the child that a leader forks: the agent
POLL_S = 0.05
TRY_MS = 1000  # for which one try of a port waits for its answer
PER_SERVICE = 2  # channels: its process, its check
CURE_START = (
    "install it in that guest, or name it by its path; 'argv' is a list of words, not a line for a shell"
)
CURE_READY = (
    "see its output among the run's artefacts; check what 'ready' asks for, or give it a longer 'timeout'"
)
CURE_FLOOD = "let it write less, or into a file of its own"


@dataclass(slots=True)
class Process:
    """A service in one of its guests."""

    service: str
    guest: str
    channel: int
    output: Output
    begun_s: float | None = None  # when it was started
    ready_ns: int | None = None  # how long it took until it was ready
    next_try_s: float = 0.0
    check: Command | None = None  # under way
    said: str = ""  # what the last check said
    killed: bool = False  # for what it wrote

    @property
    def name(self) -> str:
        """As artefacts and counters call it."""
        return f"{self.service}-{self.guest}"


@dataclass(slots=True)
class Services(Running):
    """Those of one world."""

    all_guests: Guests
    plan: Plan
    processes: list[Process] = field(default_factory=list)

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
                for guest in wanted[name].on:
                    self._begin(name, guest)
            self.all_guests.control.await_news(POLL_S)
            self.attend()
            for death in self.deaths():
                raise death
            for process in self.processes:
                self._advance(process)

    def attend(self) -> None:
        """Ends those that write without end."""
        for process in self.processes:
            if process.output.flooded and not process.killed:
                process.killed = True
                self._kill(process.guest, process.channel)

    def held(self) -> Iterator[int]:
        """Channels of each process and of its check."""
        for process in self.processes:
            yield from range(process.channel, process.channel + PER_SERVICE)

    def ended(self, exited: Notice) -> str | None:
        """Which service ended, with the end of what it wrote."""
        channel = int(exited.details["channel"])
        process = next((each for each in self.processes if each.channel == channel), None)
        return str(self._death(process, ending(exited))) if process is not None else None

    def deaths(self) -> Iterator[GuestError]:
        """Of each that ended, heard of or not."""
        for process in self.processes:
            if (how := self.all_guests.control.ended(process.channel)) is not None:
                yield self._death(process, how)
            elif process.output.flooded:
                yield self._death(process, "code None")

    def counters(self) -> Iterator[Counted]:
        """How long each took until it was ready."""
        for process in self.processes:
            if process.ready_ns is not None:
                yield f"services.{process.service}/{process.guest}", "start_ns", process.ready_ns

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """What each wrote, where it wrote something."""
        for process in self.processes:
            if process.output.kept:
                yield f"service-{process.name}.log", bytes(process.output.kept)

    # Starting

    def _begin(self, name: str, guest: str) -> None:
        service = self.plan.world.services[name]
        invocation = _kind(service).invocation(service)
        output = Output(service.ready.line if service.ready is not None else None)
        process = Process(name, guest, self._channel(name, guest), output)
        command = self.all_guests.command(
            guest, process.channel, invocation.argv, environment=dict(invocation.environment)
        )

        def hear(data: Data) -> None:
            output.take(data.content)

        self.all_guests.control.listen(process.channel, hear)
        try:
            command.start()
        except RefusedError as error:
            raise GuestError(f"services.{name}", f"in {guest}: {error.what}", CURE_START) from error
        self.all_guests.control.data(process.channel, b"")  # it reads nothing
        process.begun_s = time.monotonic()
        self.processes.append(process)

    def _channel(self, name: str, guest: str) -> int:
        """Its channel; the next is its check's. In a guest with channels of its own the last ones, since commands of
        the timeline take the first.
        """
        channels = self.all_guests.reach(guest).channels
        if channels is None:
            return SERVICES.at(sum(self._shared(each) for each in self.processes))
        here = sum(each.guest == guest for each in self.processes)
        first = len(channels) - PER_SERVICE * (here + 1)
        if first < PER_SERVICE:  # one of the probe, one for a command
            raise GuestError(
                f"services.{name}", f"{guest} runs no more than {here} services", "use more guests"
            )
        return channels[first]

    def _shared(self, process: Process) -> bool:
        return self.all_guests.reach(process.guest).channels is None

    def _is_ready(self, name: str) -> bool:
        return all(each.ready_ns is not None for each in self.processes if each.service == name)

    # Checking

    def _advance(self, process: Process) -> None:
        """Sees whether a service is ready by now, or tries again. GuestError once its time is over."""
        ready = self.plan.world.services[process.service].ready
        now_s = time.monotonic()
        assert process.begun_s is not None, process
        if process.ready_ns is not None:
            return
        if ready is None or self._holds(process, ready, now_s):
            process.ready_ns = round((now_s - process.begun_s) * 1e9)
            return
        if now_s > process.begun_s + ready.timeout_ns / 1e9:
            raise self._never_ready(process, ready)

    def _holds(self, process: Process, ready: Ready, now_s: float) -> bool:
        """Whether the check holds; begins the next try where one is due."""
        if ready.line is not None:
            return process.output.found
        channel = process.channel + 1
        if process.check is None:
            if now_s >= process.next_try_s:
                process.next_try_s = now_s + ready.every_ns / 1e9
                process.check = self._try(process, ready, channel)
            return False
        how = self.all_guests.control.ended(channel)
        if how is None:
            return False
        said = Output(kept=process.check.output + process.check.errors).end()
        process.check, process.said = None, f"{outcome(how)}: {said}" if said else str(outcome(how))
        self.all_guests.control.listen(channel, None)
        self.all_guests.control.forget_end(channel)
        return outcome(how) == "code 0"

    def _try(self, process: Process, ready: Ready, channel: int) -> Command | None:
        """Starts a check; None where that is refused."""
        argv = ready.argv or self._question(process.guest, ready)
        command = self.all_guests.command(process.guest, channel, argv)
        self.all_guests.control.listen(channel, command.take)
        try:
            command.start()
        except RefusedError as error:
            self.all_guests.control.listen(channel, None)
            process.said = error.what
            return None
        self.all_guests.control.data(channel, b"")
        return command

    def _question(self, guest: str, ready: Ready) -> Sequence[str]:
        """The agent itself as the command that asks a port, at each address that clients may use."""
        addresses = [str(each.ip) for _, _, each in interfaces(self.all_guests.plan.world.guests[guest])]
        path = ["--path", ready.http] if ready.http is not None else []
        asked = [word for each in addresses or ["127.0.0.1"] for word in ("--address", each)]
        return [OURSELVES, "answers", *asked, "--port", str(ready.port), *path, "--patience-ms", str(TRY_MS)]

    # Ending

    def _kill(self, guest: str, channel: int) -> None:
        leader = self.all_guests.reach(guest).leader
        try:
            self.all_guests.control.call("kill", {"channel": channel, "signal": 9}, channel=leader)
        except RefusedError:
            return  # it has just ended by itself

    def _never_ready(self, process: Process, ready: Ready) -> GuestError:
        what = f"in {process.guest} it was not ready within {ready.timeout_ns / 1e9:g} s"
        if ready.line is None:
            what += f"; the last check ended with {process.said}" if process.said else "; no check ended"
        return GuestError(f"services.{process.service}", what + _quoted(process.output), CURE_READY)

    def _death(self, process: Process, how: str) -> GuestError:
        kind = _kind(self.plan.world.services[process.service])
        flooded = process.output.flooded
        cure = CURE_FLOOD if flooded else kind.cure
        did = f"wrote more than {MOST_BYTES >> 20} MiB" if flooded else f"ended with {outcome(how)}"
        what = f"in {process.guest} it {did}"
        return GuestError(f"services.{process.service}", what + _quoted(process.output), cure)


def _kind(service: Service) -> ServiceImplementation:
    return services.of(service.kind)


def _quoted(output: Output) -> str:
    said = output.end()
    return f"; its output ends with: {said}" if said else "; it wrote nothing"
