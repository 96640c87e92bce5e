"""A stream of its own to an agent that is not reached through the world's leader, and how it outlives a cut.

Where somebody can connect again (`Renewal`), the stream carries a line: frames that were not received are sent
again over the next connection, each arrives once, and a caller that waits for an answer notices only the delay. For
how long that is tried is bounded; then the agent is gone.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from virtlab.agents import Breach, Conversation, Message

PATIENCE_S = 10.0  # the agent waits a little longer
AGAIN_S = 0.5
SETTLE_S = 1.0  # what carried a stream may end so long after it, and says then why
LOOK_S = 0.02
MOST_OUT_BYTES = 16 << 20  # beyond the longest request, and all notes of a line
_CHUNK = 1 << 18


class Renewal(Protocol):
    """Connects again to the same agent."""

    def again(self, process: int) -> socket.socket:
        """A new connection to the process that carries the agent's line. It may still be asking its way."""

    def settled(self) -> bool:
        """Whether what carried the connection that just ended has ended too. Does not wait."""

    def hopeless(self) -> bool:
        """Whether the connection that just ended was not cut: what it had started there ended. Does not wait."""


@dataclass(slots=True)
class Branch:
    """It has channels from `first` on. `death` says why the stream ended."""

    stream: socket.socket | None
    first: int
    channels: int
    death: Callable[[], str]
    renewal: Renewal | None = None
    conversation: Conversation = field(default_factory=Conversation)
    cut_s: float | None = None  # when the line was cut that is not whole again
    why: str = ""  # it was cut
    _again_s: float = 0.0
    _unjudged_s: float | None = None  # until when the last end may still explain itself
    _untold: bool = False
    _line: Any = None
    _out: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        """Begins the line."""
        if self.renewal is not None:
            from virtlab._native import FrameLine

            self._line = FrameLine()
            self.conversation = Conversation(self._line)
            self._line.connect()
            self._write()
        if self.stream is not None:
            self.stream.setblocking(False)  # noqa: FBT003 - the standard library's own signature

    def holds(self, channel: int) -> bool:
        """Whether a channel is one of its."""
        return self.first <= channel < self.first + self.channels

    @property
    def waits_to_write(self) -> bool:
        """Whether something is left that the stream did not take."""
        return bool(self._out) and self.stream is not None

    def send(self, frame: bytes) -> None:
        """Gives a frame to the stream, or keeps it for the next one."""
        if self._line is None:
            self._out += frame
        else:
            self._line.send(frame)
        self._write()

    def take(self) -> tuple[list[Message | Breach], bool]:
        """What has arrived, and whether the stream still holds."""
        messages: list[Message | Breach] = []
        try:
            content = self.stream.recv(_CHUNK) if self.stream is not None else b""
        except BlockingIOError:
            return messages, True
        except OSError:
            content = b""
        if not content:
            return messages, False
        try:
            messages = self.conversation.feed(content)
        except ValueError:  # of the line: somebody else answered
            return messages, False
        self._write()
        if len(self._out) > MOST_OUT_BYTES:
            messages.append(Breach(0, f"it reads nothing while {MOST_OUT_BYTES >> 20} MiB wait for it"))
        return messages, True

    def close(self) -> None:
        """Closes the stream, if there is one: a late connection finds no listener."""
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    def flush(self) -> None:
        """Writes what is left, as much as the stream takes."""
        self._write()

    @property
    def joined(self) -> bool:
        """Whether both sides of the line know what the other has."""
        return self._line is None or bool(self._line.joined)

    def cut(self) -> bool:
        """The stream ended; whether that may be mended, on which `mend` decides. The reason is not waited for here."""
        self.close()
        self._out.clear()
        now = time.monotonic()
        first = self.cut_s is None
        if first:
            self.cut_s = now
        if self.renewal is None:
            self.why = self.why or self.death()
            return False
        self._untold |= first
        self._unjudged_s = now + SETTLE_S
        self._again_s = now if first else now + AGAIN_S
        self._line.disconnect()
        return True

    def mend(self) -> bool:
        """Connects again when it is time to; False when that is hopeless, or was tried for long enough."""
        if self.cut_s is None or self.renewal is None or (self.stream is not None and self.joined):
            return True
        now = time.monotonic()
        if self._unjudged_s is not None:
            if now < self._unjudged_s and not self.renewal.settled():
                return True
            self._unjudged_s = None
            if self._untold:
                self.why = self.death()
            if self._line.far_process is None or self.renewal.hopeless():
                return False
        if now - self.cut_s >= PATIENCE_S:
            return False
        if self.stream is None and now >= self._again_s:
            self.stream = self.renewal.again(self._line.far_process)
            self.stream.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            self._line.connect()
            self._write()
        return True

    def reason_of_cut(self) -> str | None:
        """Why the stream was cut, once for each cut, when that is known."""
        if not self._untold or self._unjudged_s is not None:
            return None
        self._untold = False
        return self.why

    def mended(self) -> float | None:
        """Seconds that a cut took, once, when both sides know again what the other has."""
        if self.cut_s is None or not self.joined:
            return None
        took_s, self.cut_s = time.monotonic() - self.cut_s, None
        return took_s

    def due_s(self) -> float | None:
        """When `mend` has something to do, on the clock of `time.monotonic`."""
        if self.cut_s is None:
            return None
        if self._unjudged_s is not None:
            return min(self._unjudged_s, time.monotonic() + LOOK_S)
        return self.cut_s + PATIENCE_S if self.stream is not None else self._again_s

    def _write(self) -> None:
        if self._line is not None:
            self._out += self._line.take_out()
        if self.stream is None:
            self._out.clear()  # a line has it all; without one it is lost
            return
        with contextlib.suppress(BlockingIOError, OSError):  # its end is read, too
            while self._out:
                del self._out[: self.stream.send(self._out)]


def ready(
    stream: socket.socket | None, branches: Sequence[Branch], timeout_s: float
) -> tuple[bool, list[Branch]]:
    """Waits until `stream` or a branch has something; whether `stream` has, and which branches. Writes on meanwhile."""
    of = {each.stream: each for each in branches if each.stream is not None}
    readable = [*of] if stream is None else [stream, *of]
    writable = [one for one, each in of.items() if each.waits_to_write]
    can_read, can_write, _ = select.select(readable, writable, [], max(timeout_s, 0))
    for one in can_write:
        of[one].flush()
    return stream in can_read, [of[one] for one in can_read if one is not stream]


def broken(branches: Sequence[Branch]) -> Iterator[tuple[Branch, str]]:
    """Branches that were cut and are being mended, and why each was."""
    for branch in branches:
        why = branch.reason_of_cut()
        if why is not None:
            yield branch, why


def whole(branches: Sequence[Branch]) -> Iterator[tuple[Branch, float]]:
    """Branches that were cut and are connected again, and for how many seconds each was cut."""
    for branch in branches:
        took_s = branch.mended()
        if took_s is not None:
            yield branch, took_s
