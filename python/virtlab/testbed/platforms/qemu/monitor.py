"""A machine's monitor: QMP by `qemu.qmp`, over a channel of the control stream.

The library speaks to a socket and lives in an event loop; our control stream belongs to one thread that waits for
it now and then. So the library gets one end of a socket pair, and while a command is under way the loop also
carries bytes between the other end and the machine's channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from qemu.qmp import QMPClient, QMPError

from virtlab.agents import Data
from virtlab.errors import AgentError, GuestError
from virtlab.testbed.leader.control import Control

CALL_TIMEOUT_S = 30.0
CURE = "see its console; where this machine is busy, start fewer guests at once"
MOST_WAITING_BYTES = 4 << 20  # of events that were not read yet; QEMU sends a few hundred bytes each
_CHUNK = 1 << 16
_GLANCE_S = 0.002

T = TypeVar("T")
Answer = asyncio.Task[Any]  # a question under way


class Monitor:
    """The monitor of one machine; `where` names the guest in errors, `tail` gives the end of its console for them."""

    def __init__(self, control: Control, channel: int, where: str, tail: Callable[[], str]) -> None:
        self._control = control
        self._channel = channel
        self._where = where
        self._tail = tail
        self._loop = asyncio.new_event_loop()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self._waiting = bytearray()
        self._flooded = False
        self._greeting: asyncio.Task[None] | None = None
        self._client = QMPClient(where)
        # From the start: a machine greets as soon as it runs.
        control.listen(channel, self._from_machine)

    def connect(self) -> None:
        """Exchanges greetings. GuestError when the machine does not."""
        self._run(self._client.connect(self._theirs), "greeting", CALL_TIMEOUT_S)

    def connected(self) -> bool:
        """Goes on exchanging greetings and waits for nothing; whether that is over. GuestError when it failed."""
        return self._run(self._greet(), "greeting", CALL_TIMEOUT_S)

    async def _greet(self) -> bool:
        if self._greeting is None:
            self._greeting = asyncio.ensure_future(self._client.connect(self._theirs))
        done, _ = await asyncio.wait({self._greeting}, timeout=_GLANCE_S)
        if done:
            await self._greeting
        return bool(done)

    def execute(
        self,
        command: str,
        arguments: Mapping[str, object] | None = None,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Any:
        """What QEMU returns. GuestError with its words when it refuses, or says nothing in time."""
        return self._run(self._client.execute(command, arguments), command, timeout_s)

    def execute_at_once(self, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """Executes a command that QEMU obeys out of band, though it obeys no other one meanwhile."""
        return self._run(self._client.execute(command, arguments, oob=True), command, CALL_TIMEOUT_S)

    def ask(self, command: str) -> Answer:
        """Asks QEMU; `heard` has the answer, which may take long: QEMU's threads wait for each other."""
        answer = self._loop.create_task(self._client.execute(command), name=command)
        answer.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # a leave may end it unheard
        return answer

    def heard(self, answer: Answer, within_s: float) -> bool:
        """Whether the answer is there, which `answer.result()` returns then. GuestError when it will never be."""
        done = self._run(
            asyncio.wait({answer}, timeout=within_s), answer.get_name(), within_s + CALL_TIMEOUT_S
        )[0]
        if done and (error := answer.exception()) is not None:
            raise self._failed(f"its monitor: {answer.get_name()}: {error}") from error
        return bool(done)

    def execute_until(self, command: str, event: str, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Executes a command that only asks for something, and waits for the event that says it was done."""
        self._run(self._until(command, event), command, timeout_s)

    async def _until(self, command: str, event: str) -> None:
        with self._client.listener(event) as told:
            await self._client.execute(command)
            await told.get()

    def events(self) -> list[Any]:
        """What QEMU told unasked, up to its last answer."""
        return [*self._client.events.history]

    def close(self) -> None:
        """Takes leave; the machine runs on."""
        with contextlib.suppress(GuestError, EOFError):
            self._run(self._leave(), "disconnect", 1.0, heeds=False)
        self._theirs.close()
        self._control.listen(self._channel, None)
        self._ours.close()
        self._loop.close()

    async def _leave(self) -> None:
        if self._greeting is not None and not self._greeting.done():
            self._greeting.cancel()
            with contextlib.suppress(asyncio.CancelledError, QMPError, OSError):
                await self._greeting
        await self._client.disconnect()

    def _run(self, awaitable: Awaitable[T], command: str, timeout_s: float, *, heeds: bool = True) -> T:
        """`heeds`: whether it is over when the machine ends, or what carries it."""
        try:
            return self._loop.run_until_complete(self._carrying(awaitable, timeout_s, heeds=heeds))
        except TimeoutError:
            raise self._failed(f"its monitor did not answer {command} within {timeout_s:g} s") from None
        except (QMPError, OSError, EOFError) as error:
            raise self._failed(f"its monitor: {command}: {error}") from error

    def _failed(self, what: str) -> GuestError:
        return GuestError(self._where, f"{what}; its console ends with: {self._tail()}", CURE)

    async def _carrying(self, awaitable: Awaitable[T], timeout_s: float, *, heeds: bool) -> T:
        loop = asyncio.get_running_loop()
        answer = asyncio.ensure_future(awaitable)
        over: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            if self._control.open:
                self._control.pump()
            if heeds and not over.done() and self._gone() is not None:
                over.set_result(None)

        loop.add_reader(self._control.fileno(), look)
        loop.add_reader(self._ours.fileno(), self._to_machine)
        try:
            self._flush()
            look()
            await asyncio.wait((answer, over), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if over.done():
                raise EOFError(self._gone())
            raise TimeoutError
        finally:
            if not answer.done():
                answer.cancel()
                with contextlib.suppress(asyncio.CancelledError, QMPError, OSError, EOFError):
                    await answer
            if self._control.fileno() >= 0:
                loop.remove_reader(self._control.fileno())
            loop.remove_reader(self._ours.fileno())
            loop.remove_writer(self._ours.fileno())

    def _gone(self) -> str | None:
        """Why no answer will come any more."""
        if self._flooded:
            return f"its monitor sent over {MOST_WAITING_BYTES >> 20} MiB unasked"
        if not self._control.open:
            return "the leader is gone"
        how = self._control.ended(self._channel)
        return f"it ended with {how}" if how is not None else None

    def _to_machine(self) -> None:
        try:
            content = self._ours.recv(_CHUNK)
        except ConnectionError:  # the library took leave with some of what the machine said unread
            content = b""
        if content:
            with contextlib.suppress(AgentError):  # the leader is gone, which `look` finds
                self._control.data(self._channel, content)
        else:
            self._loop.remove_reader(self._ours.fileno())

    def _from_machine(self, data: Data) -> None:
        if len(self._waiting) + len(data.content) > MOST_WAITING_BYTES:
            self._flooded = True
        if not self._flooded:
            self._waiting += data.content
            self._flush()

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._waiting:
                del self._waiting[: self._ours.send(self._waiting)]
        if self._loop.is_running():
            if self._waiting:
                self._loop.add_writer(self._ours.fileno(), self._flush)
            else:
                self._loop.remove_writer(self._ours.fileno())
