"""The control stream to a leader: a socket, a conversation, and a call that waits for its reply.

Channels are those of the control plane throughout. A leader inside a guest, reached through the world's own, counts the
channels of what it starts from its own: requests and events are translated here. One thread. What arrives while a call
waits (events, blocks, logs, output) is kept in the order of its arrival.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from virtlab.agents import Conversation, Data, Message, Notice, Reply
from virtlab.agents.conversation import PROTOCOL
from virtlab.errors import AgentError

CALL_TIMEOUT_S = 30.0
_CHUNK = 1 << 18


class RefusedError(AgentError):
    """An agent answered a request with an error; `error` holds all it said."""

    def __init__(self, where: str, error: Mapping[str, Any]) -> None:
        kernel = f" ({error['kernel']})" if error.get("kernel") else ""
        super().__init__(where, f"{error.get('what', 'refused')}{kernel}", str(error.get("cure") or ""))
        self.error = dict(error)


def ending(exited: Notice) -> str:
    """How a child ended, from the leader's event: 'signal 9', or 'code 1: ' and the end of its errors."""
    code, signal, tail = (exited.details.get(key) for key in ("code", "signal", "tail"))
    how = f"signal {signal}" if signal is not None else f"code {code}"
    return f"{how}: {tail}" if tail else how


class Control:
    """Frames over a connected stream socket. Channel 0 is the leader of the world.

    `at`: the channel that the agent at the other end has here; below 0 where it only carries the world's leader.
    """

    def __init__(self, stream: socket.socket, *, at: int = 0) -> None:
        self._stream = stream
        self.at = at
        self._stream.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self._conversation = Conversation()
        self._inbox: deque[Message] = deque()
        self._replies: dict[int, Reply] = {}
        self._awaited: dict[int, int] = {}  # number -> channel
        self._ended: dict[int, str] = {}  # channel -> how what ran there ended
        self._listeners: dict[int, Callable[[Data], None]] = {}  # channel -> who takes its bytes
        self.open = True

    def fileno(self) -> int:
        """For `select`."""
        return self._stream.fileno()

    def send(self, do: str, fields: Mapping[str, Any] | None = None, *, channel: int = 0) -> int:
        """Sends a request; its number is for `wait`. A `channel` among the fields is one of the leader asked."""
        if fields is not None and "channel" in fields:
            if do in {"spawn", "exec"}:
                self._ended.pop(int(fields["channel"]), None)
            fields = {**fields, "channel": int(fields["channel"]) - channel}
        number, frame = self._conversation.request(do, fields, channel=channel - self.at)
        self._awaited[number] = channel
        self._write(frame)
        return number

    def tell(self, do: str, fields: Mapping[str, Any] | None = None, *, channel: int = 0) -> None:
        """Sends a request that has no reply, or whose reply does not matter."""
        _, frame = self._conversation.request(do, fields, channel=channel - self.at)
        self._write(frame)

    def answered(self, number: int) -> bool:
        """Whether the reply to a request is there."""
        return number in self._replies

    def wait(self, number: int, *, do: str = "request", timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
        """The reply to a request. RefusedError when it is an error; AgentError when none comes or the stream ends."""
        end = time.monotonic() + timeout_s
        while number not in self._replies:
            left = end - time.monotonic()
            if left <= 0:
                raise AgentError(do, f"no answer within {timeout_s:g} s")
            if (how := self.ended(self._awaited.get(number, 0))) is not None:
                raise AgentError(do, f"the agent that was asked ended with {how}")
            if not self._read(left) and not self.open:
                raise AgentError(
                    do, "the leader is gone", "see its log; a run is repeated from its beginning"
                )
        reply = self._replies.pop(number)
        if reply.error is not None:
            raise RefusedError(do, reply.error)
        return dict(reply.ok or {})

    def call(
        self,
        do: str,
        fields: Mapping[str, Any] | None = None,
        *,
        channel: int = 0,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Request and reply."""
        return self.wait(self.send(do, fields, channel=channel), do=do, timeout_s=timeout_s)

    def call_all(
        self, requests: Sequence[tuple[str, Mapping[str, Any], int]], timeout_s: float = CALL_TIMEOUT_S
    ) -> list[dict[str, Any]]:
        """Several requests (do, fields, channel) on their way at once; replies in their order."""
        numbers = [self.send(do, fields, channel=channel) for do, fields, channel in requests]
        return [
            self.wait(number, do=do, timeout_s=timeout_s)
            for number, (do, _, _) in zip(numbers, requests, strict=True)
        ]

    def data(self, channel: int, content: bytes) -> None:
        """Input for a command; nothing is its end."""
        for at in range(0, max(len(content), 1), _CHUNK):
            self._write(self._conversation.data(channel - self.at, content[at : at + _CHUNK]))

    def messages(self, timeout_s: float) -> Iterable[Message]:
        """What has arrived beside replies; waits up to `timeout_s` for the first."""
        if not self._inbox and self.open:
            self._read(timeout_s)
        while self._inbox:
            yield self._inbox.popleft()

    def listen(self, channel: int, hear: Callable[[Data], None] | None) -> None:
        """Hands the bytes of a channel over as soon as they are read, instead of keeping them for `messages`."""
        if hear is None:
            self._listeners.pop(channel, None)
        else:
            self._listeners[channel] = hear

    def pump(self, timeout_s: float = 0.0) -> bool:
        """Reads what is there, waiting up to `timeout_s` for it; whether there was something."""
        return self.open and self._read(timeout_s)

    def ended(self, channel: int) -> str | None:
        """How what ran on a channel ended; None while it runs."""
        return self._ended.get(channel)

    def forget_end(self, channel: int) -> None:
        """Drops the news that a command ended: whoever waited for it knows."""
        self._inbox = deque(
            message
            for message in self._inbox
            if not (
                isinstance(message, Notice)
                and message.name == "exited"
                and message.details["channel"] == channel
            )
        )

    def renew(self, first: int) -> None:
        """Forgets all that was said on channels from `first` on, or of them: what spoke there is gone, and others begin."""

        def old(message: Message) -> bool:
            ended = isinstance(message, Notice) and message.name == "exited"
            return (int(message.details["channel"]) if ended else message.channel) >= first  # type: ignore[union-attr]

        self._inbox = deque(message for message in self._inbox if not old(message))
        self._ended = {channel: how for channel, how in self._ended.items() if channel < first}

    def greet(self, channel: int = 0) -> dict[str, Any]:
        """The handshake."""
        return self.call("hello", {"protocol": list(PROTOCOL)}, channel=channel)

    def close(self) -> None:
        """Closes the stream; an attached world ends with it."""
        self.open = False
        self._stream.close()

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._stream], [], [], max(timeout_s, 0))
        if not ready:
            return False
        return self._take()

    def _take(self) -> bool:
        try:
            content = self._stream.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            content = b""
        if not content:
            self.open = False
            return False
        for message in self._conversation.feed(content):
            if self.at:
                message = replace(message, channel=message.channel + self.at)  # noqa: PLW2901 - as it is counted here
            if isinstance(message, Reply):
                if message.number in self._awaited:
                    del self._awaited[message.number]
                    self._replies[message.number] = message
            elif isinstance(message, Data) and message.channel in self._listeners:
                self._listeners[message.channel](message)
            elif isinstance(message, Notice) and message.name == "exited":
                first = message.channel + int(message.details["channel"])
                exited = Notice(message.channel, message.name, {**message.details, "channel": first})
                # A guest with a leader of its own takes all its channels along.
                for channel in range(first, first + int(message.details.get("channels", 1))):
                    self._ended[channel] = ending(exited)
                self._inbox.append(exited)
            else:
                self._inbox.append(message)
        return True

    def _write(self, frame: bytes) -> None:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[self._stream.send(rest) :]
            except BlockingIOError:
                # The leader may be waiting to be read before it reads on.
                readable, _, _ = select.select([self._stream], [self._stream], [])
                if readable:
                    self._take()
                if not self.open:
                    raise AgentError("control stream", "the leader is gone") from None
            except OSError as error:
                self.open = False
                raise AgentError("control stream", f"the leader is gone ({error.strerror})") from error
