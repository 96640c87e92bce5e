"""A service in one of its guests: a command that is started, checked until it is ready, and ended.

Nothing here waits: each call does what can be done now. A check is a command, too; it is tried again every so often
until it holds, or until the service's time is over.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from virtlab.agents import Data
from virtlab.agents.requests.leader import Kill
from virtlab.catalogue.references import SERVICE_ENDS, referred, replaced
from virtlab.errors import GuestError
from virtlab.plan import Ready, Service
from virtlab.plan.seeds import service_seed
from virtlab.planner.topology.addresses import resolved
from virtlab.planner.topology.ends import interfaces
from virtlab.testbed.kinds.platform import Counted, Standstill
from virtlab.testbed.leader.control import RefusedError, outcome
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.services.files import GO_ON, HELD
from virtlab.testbed.services.lost_copies import Node
from virtlab.testbed.services.output import MOST_BYTES, Output
from virtlab.testbed.services.recovery_program import NUMBERS
from virtlab.testbed.services.service import OURSELVES, Invocation, services

WIPING_S = 30.0  # for what counts to look once more
PATIENCE_S = 3.0  # with a check that is under way where its service has ended
LOOK_S = 0.05
TRY_MS = 1000  # for which one try of a port waits for its answer
STOOD_STILL = "stood still, ns: "  # as the agent says it that serves
CHANNELS = 2  # its own, its check's
CURE_START = (
    "install it in that guest, or name it by its path; 'argv' is a list of words, not a line for a shell"
)
USER_REFUSED = re.compile(r"cannot become user|there is no user '")  # as the agent says it
CURE_USER = "name a user that /etc/passwd of that guest has; to change users there, run virtlab as root"
CURE_READY = (
    "see its output among the run's artefacts; check what 'ready' asks for, or give it a longer 'timeout'"
)
CURE_MEMORY = "give it, or its guest, more 'memory', or let it use less"
CURE_READ_ONLY = "a program sees its guest's files read-only: let it write below /tmp, which is its own"
CURE_FLOOD = "let it write less, or into a file of its own"


@dataclass(slots=True)
class Process:
    """One of a service's guests runs it on this channel; the next is its check's."""

    all_guests: Guests
    name: str
    guest: str
    service: Service
    channel: int
    output: Output
    begun_s: float = 0.0  # when it was started last
    ready_ns: int | None = None  # how long it took then until it was ready
    down: bool = False  # it was ended by the timeline, and may be
    lost_s: float | None = None  # when that was, the last time
    away: bool = False  # it failed as a node: what it misses until it is started again is counted
    recovers: bool = False  # it has lost something, and says when that is there again
    wiping: Output | None = (
        None  # of the command that has wiped it, or knows what is missing, and counts what comes back
    )
    next_try_s: float = 0.0
    check: Command | None = None  # under way
    stale: bool = False  # that check was begun before the last start
    said: str = ""  # what the last check said
    starved: int = 0  # processes that had been ended for want of memory when it was started last
    copies: Node | None = None  # what it tells of copies that were lost, if it does

    @property
    def where(self) -> str:
        """Its place in the Plan."""
        return f"services.{self.name}"

    @property
    def entity(self) -> str:
        """Its name among what is counted and bounded."""
        return f"{self.where}/{self.guest}"

    # Life

    def launch(self, *, emptied: bool = False) -> None:
        """Starts it, for the first time or again; `emptied`: with nothing that it had. GuestError where it cannot be
        executed.
        """
        invocation = self._invocation()
        environment = dict(
            zip(invocation.environment, self._resolved([*invocation.environment.values()]), strict=True)
        )
        argv, files = [*invocation.before, *self._resolved(invocation.argv)], invocation.files
        held = self.entity in self.all_guests.limits.held
        if files is not None or held:
            argv = (files.before(held=held) if files is not None else HELD) + argv
        if invocation.ours:
            seed = service_seed(self.all_guests.plan.seed, self.name, self.guest)
            argv += ["--seed", str(seed), "--work-per-s", str(self.all_guests.work_per_s(self.guest))]
            argv += ["--place", str(self.service.on.index(self.guest))]
        argv += self._peers(invocation)
        back = invocation.emptied if emptied else invocation.back
        if self.lost_s is not None and back:
            argv += back
        if invocation.active not in {None, self.guest}:
            argv += ["--active", self._address(str(invocation.active))]
        command = self.all_guests.command(
            self.guest,
            self.channel,
            argv,
            environment=environment,
            user=invocation.user,
            folder=invocation.folder,
            bounded=self.entity,
            trusted=invocation.trusted,
        )
        control = self.all_guests.control
        control.forget_end(self.channel)
        self.output.begin()
        if self.copies is not None:
            self.copies.begins(time.monotonic())
        control.listen(self.channel, self._hear)
        self.starved = self._ended_for_memory() + self._ended_inside()
        try:
            number = command.start()
        except RefusedError as error:
            cure = CURE_USER if USER_REFUSED.search(error.what) else CURE_START
            raise GuestError(self.where, f"in {self.guest}: {error.what}", cure) from error
        if held:
            assert self.all_guests.groups is not None, "only root's containers have bounded services"
            self.all_guests.groups.join(self.entity, number)
            control.data(self.channel, GO_ON)
        if files is not None:
            control.data(self.channel, files.content())
        control.data(self.channel, b"")  # it reads nothing more
        self.begun_s, self.ready_ns, self.down, self.said = time.monotonic(), None, False, ""
        self.next_try_s, self.stale = 0.0, self.check is not None

    def _invocation(self) -> Invocation:
        guest = self.all_guests.plan.world.guests[self.guest]
        return services.of(self.service.kind).invocation(self.name, self.service, guest)

    def _peers(self, invocation: Invocation) -> list[str]:
        """The addresses that it is told, and its own place among them."""
        if not invocation.peers:
            return []
        other = next((peer for peer in invocation.peers if peer != self.guest), None)
        words = [word for peer in invocation.peers for word in ("--peer", self._address(peer, other))]
        return [*words, "--place", str(invocation.peers.index(self.guest))]

    def _address(self, guest: str, towards: str | None = None) -> str:
        """The address of another guest, as its own reaches it, or its own, towards another. GuestError where it does
        not.
        """
        try:
            return resolved(self.all_guests.plan, [guest], self.guest, {"to": towards})[guest]
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise GuestError(self.where, what, cure) from None

    def _resolved(self, words: Sequence[str]) -> list[str]:
        """Words with what they refer to. GuestError where its guest reaches no such address."""
        plan = self.all_guests.plan
        references = [reference for _, reference in referred(words, SERVICE_ENDS)]
        try:
            found = resolved(plan, references, self.guest, {"on": self.guest})
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise GuestError(self.where, what, cure) from None
        return [replaced(word, found) for word in words]

    def _hear(self, data: Data) -> None:
        self.output.take(data.content)
        if self.copies is not None:
            self.copies.take(data.content, time.monotonic())

    def lose(self) -> None:
        """Kills it as the timeline wants, unless that was done before: its end is no failure."""
        now_s = time.monotonic()
        if self.copies is not None:
            self.copies.lost(now_s)
        if not self.down:
            self.down, self.ready_ns, self.lost_s = True, None, now_s
            self.end()

    def end(self) -> None:
        """Kills it; that it has ended is news of its leader's."""
        leader = self.all_guests.reach(self.guest).leader
        try:
            self.all_guests.control.call(Kill(self.channel, 9), channel=leader)
        except RefusedError:
            return  # it has just ended by itself

    @property
    def ended(self) -> str | None:
        """How it ended; None while it runs."""
        return self.all_guests.control.ended(self.channel)

    def death(self, how: str) -> GuestError:
        """The error that it ended by itself, or wrote without end, with what it wrote last."""
        flooded = self.output.flooded
        cure = CURE_FLOOD if flooded else services.of(self.service.kind).cure
        did = f"wrote more than {MOST_BYTES >> 20} MiB" if flooded else f"ended with {outcome(how)}"
        if not flooded and os.strerror(errno.EROFS) in self._quoted():
            cure = CURE_READ_ONLY
        if self.starves or self._ended_inside() > self.starved:
            did, cure = f"{did}, since the memory that it may use was used up", CURE_MEMORY
        return GuestError(self.where, f"in {self.guest} it {did}{self._quoted()}", cure)

    @property
    def starves(self) -> bool:
        """Whether the kernel ended it, or something that it started, since its memory was used up."""
        return self._ended_for_memory() > self.starved

    def _ended_for_memory(self) -> int:
        return self.all_guests.ended_for_memory(self.entity)

    def _ended_inside(self) -> int:
        """The same, of a machine, whose kernel is asked on the channel of the check once that is over."""
        if not self.all_guests.limits.inside(self.entity):
            return 0
        control, channel = self.all_guests.control, self.channel + 1
        until_s = time.monotonic() + PATIENCE_S
        while self.check is not None and control.ended(channel) is None:
            if time.monotonic() > until_s:
                return 0  # a check of the file that takes so long: then the end alone is told
            control.await_news(LOOK_S)
        self.check = None
        return self.all_guests.limits.ended_for_memory(self.entity, channel)

    def throttled_inside(self) -> Iterator[Counted]:
        """How long its share held it back, where a machine's kernel knows it and no check is under way."""
        limits = self.all_guests.limits
        if limits.inside(self.entity) and self.check is None:
            yield from limits.counters(self.entity, self.channel + 1)

    # Readiness

    def advance(self) -> bool:
        """Whether it is ready by now; begins a check where one is due. GuestError once its time is over."""
        if self.ready_ns is not None:
            return True
        ready, now_s = self.service.ready, time.monotonic()
        if ready is None or self.holds(ready, ready.every_ns):
            self.ready_ns = round((now_s - self.begun_s) * 1e9)
        elif now_s > self.begun_s + ready.timeout_ns / 1e9:
            raise self._never_ready(ready)
        return self.ready_ns is not None

    def holds(self, ready: Ready, every_ns: int) -> bool:
        """Whether a check came to its end and held; begins the next where one is due."""
        if ready.line is not None or services.of(self.service.kind).ready_line is not None:
            return self.output.arrived
        channel, now_s = self.channel + 1, time.monotonic()
        control = self.all_guests.control
        if self.check is None:
            if now_s >= self.next_try_s:
                self.next_try_s = now_s + every_ns / 1e9
                self.check = self._try(ready, channel)
            return False
        how = control.ended(channel)
        if how is None:
            return False
        said = Output(content=self.check.output + self.check.errors).end()
        self.check, self.said = None, f"{outcome(how)}: {said}" if said else str(outcome(how))
        control.listen(channel, None)
        control.forget_end(channel)
        stale, self.stale = self.stale, False
        return outcome(how) == "code 0" and not stale

    def _try(self, ready: Ready, channel: int) -> Command | None:
        """Starts a check; None where that is refused."""
        user = self._invocation().user if ready.argv else None
        words = self._resolved(ready.argv) or self._question(ready)
        command = self.all_guests.command(self.guest, channel, words, user=user)
        control = self.all_guests.control
        control.listen(channel, command.take)
        try:
            command.start()
        except RefusedError as error:
            control.listen(channel, None)
            self.said = error.what
            return None
        control.data(channel, b"")
        return command

    # Questions of ours

    def ask(self, question: Invocation, hear: Callable[[Data], None] | None = None) -> Command:
        """Starts a command beside it, on the channel of its check, which is free; `hear` takes what it writes.
        GuestError where it cannot be executed.
        """
        files, channel = question.files, self.channel + 1
        argv = [*(files.before() if files is not None else ()), *question.before, *self._peers(question)]
        command = self.all_guests.command(
            self.guest, channel, argv, user=question.user, trusted=question.trusted
        )
        control = self.all_guests.control
        control.forget_end(channel)
        control.listen(channel, hear or command.take)
        try:
            command.start()
        except RefusedError as error:
            raise GuestError(self.where, f"in {self.guest}: {error.what}", CURE_START) from error
        if files is not None:
            control.data(channel, files.content())
        control.data(channel, b"")
        return command

    def answer(self, command: Command, does: str = "lists what the node has") -> Any:
        """What such a command, which `does` something, wrote, as JSON. GuestError where it did not end, or failed."""
        how = self.all_guests.control.ended(command.channel)
        self._hear_no_more()
        if outcome(how) == "code 0":
            with suppress(ValueError):  # it was cut, or is other than JSON
                return json.loads(bytes(command.output))
        raise self._failure(does, how, Output(content=command.errors))

    def standstill(self) -> Standstill | None:
        """How often it stood still since the trial began; None where it does not say that."""
        kind = services.of(self.service.kind)
        if not kind.tells_standstills:
            return None
        found = self.output.numbers(STOOD_STILL)
        return Standstill(self.entity, self.guest, len(found), max(found, default=0), kind.contends)

    def _hear_no_more(self) -> None:
        """The command on the channel of its check is over."""
        self.all_guests.control.listen(self.channel + 1, None)
        self.all_guests.control.forget_end(self.channel + 1)

    def _failure(self, does: str, how: str | None, output: Output) -> GuestError:
        did = f"ended with {outcome(how)}" if how is not None else "did not end"
        what = f"in {self.guest} the command that {does} {did}: {output.end() or 'it wrote nothing'}"
        return GuestError(self.where, what, services.of(self.service.kind).cure)

    def wiped(self) -> bool:
        """Whether the server, which runs on, has nothing of what it held; begins to take it away. GuestError where that
        fails.
        """
        if self.wiping is None:
            kind = services.of(self.service.kind)
            assert kind.wipe is not None, self.service.kind
            self.count(kind.wipe(self.name, self.service))
        return self.counts("empties the node")

    def count(self, command: Invocation) -> None:
        """Starts a command beside it that counts what comes back, to it or to another node."""
        said = self.wiping = Output(NUMBERS, services.of(self.service.kind).recovered)
        self.ask(command, lambda data: said.take(data.content))
        self.recovers = True

    def counts(self, does: str) -> bool:
        """Whether that command has told numbers. GuestError where it failed before, with what it `does`."""
        assert self.wiping is not None, self.where
        how = self.all_guests.control.ended(self.channel + 1)
        if not self.wiping.arrived and how is not None:
            raise self._failure(does, how, self.wiping)
        return self.wiping.arrived

    @property
    def recovered(self) -> bool:
        """Whether what counts what comes back has said that all is there."""
        return self.wiping is not None and self.wiping.recovered

    def came_back(self) -> dict[str, int]:
        """Numbers of what has come back after it was wiped; ends what counts it. GuestError where that failed."""
        if self.wiping is None:
            return {}
        self._end_wiping()
        how = self.all_guests.control.ended(self.channel + 1)
        self._hear_no_more()
        if outcome(how) != "code 0" and not self.wiping.recovered:
            raise self._failure("counts what comes back", how, self.wiping)
        numbers: dict[str, int] = json.loads(self.wiping.last(NUMBERS) or "{}")
        return numbers

    def _end_wiping(self) -> None:
        """Asks what counts to look once more and to end; it is killed where it does not."""
        control, channel = self.all_guests.control, self.channel + 1
        leader = self.all_guests.reach(self.guest).leader
        for number in (signal.SIGTERM, signal.SIGKILL):
            until_s = time.monotonic() + WIPING_S
            if control.ended(channel) is not None:
                return
            with suppress(RefusedError):  # it has just ended by itself
                control.call(Kill(channel, int(number)), channel=leader)
            while control.ended(channel) is None and time.monotonic() < until_s:
                control.await_news(LOOK_S)

    def renew(self) -> None:
        """Nothing was taken from it."""
        if self.wiping is not None:
            self._end_wiping()
            self._hear_no_more()
        self.wiping, self.recovers, self.away = None, False, False
        if self.copies is not None:
            self.copies.renew()
        self.output.skip()

    def _question(self, ready: Ready) -> Sequence[str]:
        """The agent itself as the command that asks a port, at each address that clients may use."""
        addresses = [str(each.ip) for _, _, each in interfaces(self.all_guests.plan.world.guests[self.guest])]
        path = ["--path", ready.http] if ready.http is not None else []
        asked = [word for each in addresses or ["127.0.0.1"] for word in ("--address", each)]
        return [OURSELVES, "answers", *asked, "--port", str(ready.port), *path, "--patience-ms", str(TRY_MS)]

    def _never_ready(self, ready: Ready) -> GuestError:
        what = f"in {self.guest} it was not ready within {ready.timeout_ns / 1e9:g} s"
        if ready.line is None:
            what += f"; the last check ended with {self.said}" if self.said else "; no check ended"
        return GuestError(self.where, what + self._quoted(), CURE_READY)

    def _quoted(self) -> str:
        said = self.output.end()
        return f"; its output ends with: {said}" if said else "; it wrote nothing"
