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
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True)
class Branch:
    """A stream of its own to an agent that is not reached through the world's leader: it has channels from `first` on."""

    stream: socket.socket
    first: int
    channels: int
    death: Callable[[], str]
    conversation: Conversation = field(default_factory=Conversation)

    def holds(self, channel: int) -> bool:
        """Whether a channel is one of its."""
        return self.first <= channel < self.first + self.channels


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
        self._branches: list[Branch] = []
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
        number, frame = self._conversation.request(do, fields, channel=channel - self._base(channel))
        self._awaited[number] = channel
        self._write(frame, channel)
        return number

    def tell(self, do: str, fields: Mapping[str, Any] | None = None, *, channel: int = 0) -> None:
        """Sends a request that has no reply, or whose reply does not matter."""
        _, frame = self._conversation.request(do, fields, channel=channel - self._base(channel))
        self._write(frame, channel)

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
            frame = self._conversation.data(channel - self._base(channel), content[at : at + _CHUNK])
            self._write(frame, channel)

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

    def attach(self, stream: socket.socket, first: int, channels: int, death: Callable[[], str]) -> None:
        """An agent at the end of a stream of its own, its channel 0 here `first`. `death` says why the stream ended."""
        stream.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self._branches.append(Branch(stream, first, channels, death))

    def attached(self, channel: int) -> bool:
        """Whether a stream of its own leads to this channel."""
        return self._branch(channel) is not None

    def detach(self, first: int) -> None:
        """Forgets a stream, which stays its owner's."""
        self._branches = [branch for branch in self._branches if branch.first != first]

    def _branch(self, channel: int) -> Branch | None:
        return next((branch for branch in self._branches if branch.holds(channel)), None)

    def _base(self, channel: int) -> int:
        """Which of our channels is 0 to whoever is asked."""
        branch = self._branch(channel)
        return self.at if branch is None else branch.first

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
        streams = [self._stream, *(branch.stream for branch in self._branches)]
        ready, _, _ = select.select(streams, [], [], max(timeout_s, 0))
        # Each of them is read, not up to the first that has something.
        taken = [self._take_from(stream) for stream in ready]
        return any(taken)

    def _take_from(self, stream: socket.socket) -> bool:
        branch = next((each for each in self._branches if each.stream is stream), None)
        return self._take() if branch is None else self._take_branch(branch)

    def _take_branch(self, branch: Branch) -> bool:
        try:
            content = branch.stream.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            content = b""
        if not content:
            self._lose(branch)
            return True  # its end is news
        for message in branch.conversation.feed(content):
            self._sort(replace(message, channel=message.channel + branch.first))
        return True

    def _lose(self, branch: Branch) -> None:
        """A stream of its own ended, and all its channels with it."""
        self.detach(branch.first)
        how = branch.death()
        for channel in range(branch.first, branch.first + branch.channels):
            self._ended.setdefault(channel, how)
        details = {"event": "exited", "channel": branch.first, "channels": branch.channels, "tail": how}
        self._inbox.append(Notice(0, "exited", details))

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
            self._sort(message)
        return True

    def _sort(self, message: Message) -> None:
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

    def _write_branch(self, frame: bytes, branch: Branch) -> None:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[branch.stream.send(rest) :]
            except BlockingIOError:
                readable, _, _ = select.select([branch.stream], [branch.stream], [])
                if readable:
                    self._take_branch(branch)
                if branch not in self._branches:
                    return  # whoever waits for an answer is told how it ended
            except OSError:
                self._lose(branch)
                return

    def _write(self, frame: bytes, to: int) -> None:
        branch = self._branch(to)
        if branch is not None:
            self._write_branch(frame, branch)
            return
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
