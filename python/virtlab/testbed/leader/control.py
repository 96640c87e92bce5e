"""The control stream to a leader: a socket, a conversation, and a call that waits for its reply.

Channels are those of the control plane throughout. A leader inside a guest, reached through the world's own, counts
the channels of what it starts from its own: requests and events are translated here. One thread. What arrives while
a call waits (events, blocks, logs, output) is kept in the order of its arrival. An agent that expects to hear from us
regularly (`beat`) does, as long as a call waits here.

Who breaks the protocol is heard no more, and its channels have ended (`speakers`). Who was asked and kept silent
for as long as an answer may take is not asked again: each question after it would cost a run that time again.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from virtlab.agents import STOPS, Breach, Conversation, Data, Message, Notice, Reply
from virtlab.agents.conversation import one_line
from virtlab.agents.replies import Introduction
from virtlab.agents.requests.descriptors import AgentDescriptor
from virtlab.agents.requests.every import Hello, ReadClock
from virtlab.agents.requests.leader import Exec, HandOver, Kill, Resize, Spawn, WorkRate
from virtlab.agents.requests.request import Request
from virtlab.errors import AgentError, MachineError
from virtlab.testbed.leader import branch as branches
from virtlab.testbed.leader.branch import Branch, Renewal
from virtlab.testbed.leader.shortage import cure_of
from virtlab.testbed.leader.speakers import Speakers

CALL_TIMEOUT_S = 30.0
BEAT_S = 10.0
HEARTBEAT_NS = 60 * 10**9  # without a beat for this time, an agent that expects one stops its traffic
CURE_GONE = "see its log; a run is repeated from its beginning"
BREACH = "breach"  # of the news of an end: it is a breach of the protocol, and no end of a process
CURE_BREACH = "see who else controls that guest or host: no agent of virtlab sends this"
OUR_EVENTS = frozenset({"cut", "mended"})  # of connections, reported by who has them
_CHUNK = 1 << 18
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Pending(Generic[R]):
    """A request that was sent on a channel, for `wait`."""

    number: int
    channel: int
    request: Request[R]


class RefusedError(AgentError):
    """An agent answered a request with an error; `error` holds all it said."""

    def __init__(self, where: str, error: Mapping[str, Any]) -> None:
        kernel = f" ({error['kernel']})" if error.get("kernel") else ""
        super().__init__(where, f"{error['what']}{kernel}", str(error.get("cure") or ""))
        self.error = dict(error)


class SilenceError(AgentError):
    """An agent was asked on a channel, and did not answer in time."""

    def __init__(self, do: str, timeout_s: float, channel: int) -> None:
        super().__init__(do, f"no answer within {timeout_s:g} s")
        self.channel = channel


class BreachError(AgentError):
    """What an agent said on a channel breaks the protocol."""

    def __init__(self, do: str, what: str, channel: int) -> None:
        super().__init__(do, _breach(what), CURE_BREACH)
        self.channel = channel


class End(NamedTuple):
    """How what ran on a channel ended; whether that is a breach of the protocol, and no end of a process."""

    how: str
    breach: bool = False


def _breach(text: str) -> str:
    return f"a breach of the protocol: {text}"


def ending(exited: Notice) -> str:
    """How a child ended, from the leader's event: 'signal 9', or 'code 1: ' and the end of its errors."""
    code, signal, tail = (exited.details.get(key) for key in ("code", "signal", "tail"))
    how = f"signal {signal}" if signal is not None else f"code {code}"
    return f"{how}: {one_line(tail)}" if tail else how


def outcome(how: str | None) -> str | None:
    """Code or signal alone: a command that succeeded may have warned. None: it has not ended.

    >>> outcome("code 0: poll interval of 1141 ms"), outcome("code 0"), outcome("signal 9"), outcome(None)
    ('code 0', 'code 0', 'signal 9', None)
    """
    return how.partition(":")[0] if how is not None else None


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
        self._silent: dict[int, float] = {}  # channel -> for how long it was waited for, s
        self._speakers = Speakers(at)
        self._ended: dict[int, End] = {}  # by channel, of what ran there
        self._listeners: dict[int, Callable[[Data], None]] = {}  # channel -> who takes its bytes
        self._branches: list[Branch] = []
        self._beats: dict[int, None] = {}  # channels
        self._next_beat_s = 0.0
        self._confined: dict[
            str, list[int]
        ] = {}  # network of the world -> processors of what is started there
        self._at: dict[tuple[str, str], list[int]] = {}  # network and host -> processors of a machine there
        self._work_per_s: dict[int, int] = {}  # by the channel of the leader that measured it
        self.heard = at  # the channel whose words were handed out last
        self.open = True

    def fileno(self) -> int:
        """For `select`."""
        return self._stream.fileno()

    def send(self, request: Request[R], *, channel: int = 0) -> Pending[R]:
        """Sends a request, for `wait`. A channel among its fields is one of ours."""
        number, frame = self._frame(self._begun(request, channel), channel)
        if channel not in self._silent:
            self._awaited[number] = channel
            self._write(frame, channel)
        return Pending(number, channel, request)

    def _frame(self, request: Request[Any], channel: int) -> tuple[int, bytes]:
        if isinstance(request, (Spawn, Exec, Resize, Kill, HandOver)):
            request = replace(request, channel=request.channel - channel)
        at = channel - self._base(channel)
        return self._conversation.request(request.do, request.wire(), channel=at)

    def confine(
        self, processors: Mapping[str, list[int]], *, at: Mapping[tuple[str, str], list[int]] | None = None
    ) -> None:
        """Whatever the world's leader starts in these networks from now on runs on these processors alone.

        `at`: network and host -> processors of a guest's machine while it is at that host.
        """
        self._confined |= processors
        self._at |= at or {}

    def confined_at(self, network: str, host: str) -> list[int]:
        """Processors of a guest's machine at this host; none: it may run on any."""
        return self._at.get((network, host), [])

    def _begun(self, request: Request[Any], leader: int) -> Request[Any]:
        """Where something is started on a channel: who speaks there, and behind it, from now on. The request with the
        processors that it is confined to.
        """
        if not isinstance(request, (Spawn, Exec)):
            return request
        self._ended.pop(request.channel, None)
        if isinstance(request, Spawn):
            self.begin(request.channel, 1, leads=False)
        else:
            for each in request.descriptors or ():
                if isinstance(each, AgentDescriptor):
                    self.begin(leader + each.channel, each.channels)
        cpus = self._confined.get(request.namespace) if leader == 0 else None
        return replace(request, cpus=cpus) if cpus is not None and not request.cpus else request

    def begin(self, first: int, channels: int, *, leads: bool = True) -> None:
        """An agent speaks on so many channels from now on, and for no others."""
        self._speakers.begin(first, channels, leads=leads)
        self._silent = {each: s for each, s in self._silent.items() if not first <= each < first + channels}

    def tell(self, request: Request[Any], *, channel: int = 0) -> None:
        """Sends a request that has no reply, or whose reply does not matter."""
        _, frame = self._frame(request, channel)
        self._write(frame, channel)

    def answered(self, pending: Pending[Any]) -> bool:
        """Whether the reply to a request is there."""
        return pending.number in self._replies

    def wait(self, pending: Pending[R], *, timeout_s: float = CALL_TIMEOUT_S) -> R:
        """The reply to a request. RefusedError when it is an error, MachineError when that is of a machine that ran
        out of something; SilenceError when none comes; AgentError at the end.

        BreachError when it is no answer to what was asked.
        """
        end = time.monotonic() + timeout_s
        number, channel, do = pending.number, pending.channel, pending.request.do
        try:
            self._await(number, channel, do, end, timeout_s)
        finally:
            self._awaited.pop(number, None)
        reply = self._replies.pop(number)
        self.heard = channel
        if reply.error is not None:
            refused = RefusedError(do, reply.error)
            if self._speakers.local(channel) and (cure := cure_of(refused.what)) is not None:
                raise MachineError(do, refused.what, cure)
            raise refused
        try:
            return pending.request.read(reply.ok or {})
        except ValueError as error:
            raise self.breach(channel, str(error), do) from error

    def _await(self, number: int, channel: int, do: str, end: float, timeout_s: float) -> None:
        while number not in self._replies:
            if number not in self._awaited:
                raise SilenceError(do, self._silent.get(channel, timeout_s), channel)
            left = end - time.monotonic()
            if left <= 0:
                raise self.silence(channel, do, timeout_s)
            if (how := self.ended(channel)) is not None:
                raise AgentError(do, f"the agent that was asked ended with {how}")
            if not self._read(left) and not self.open:
                raise AgentError(do, "the leader is gone", CURE_GONE)

    def silence(self, channel: int, do: str, timeout_s: float) -> SilenceError:
        """No answer came from there in all that time: it is not asked again."""
        self._silent.setdefault(channel, timeout_s)
        return SilenceError(do, timeout_s, channel)

    def silent(self, channel: int) -> bool:
        """Whether who has a channel was asked, and did not answer."""
        return channel in self._silent

    def breach(self, channel: int, what: str, do: str = "agent protocol") -> BreachError:
        """The speaker on a channel broke the protocol: it is ignored from now on."""
        speaker = self._speakers.of(channel)
        what = one_line(what)
        if speaker.breach is None:
            speaker.breach = what
            how = _breach(what)
            for each in speaker.span:
                self._ended.setdefault(each, End(how, breach=True))
            self._inbox = deque(one for one in self._inbox if self._speakers.of(one.channel) is not speaker)
            speaker.unheard_bytes = 0
            told = {
                "event": "exited",
                "channel": speaker.first,
                "channels": speaker.channels,
                "tail": how,
                BREACH: True,
            }
            self._keep(Notice(self.at, "exited", told))
        return BreachError(do, what, channel)

    def work_per_s(self, leader: int) -> int:
        """Units of counted work that a processor of a leader's does in a second, measured at the first question."""
        if leader not in self._work_per_s:
            self._work_per_s[leader] = self.call(WorkRate(), channel=leader)["per_s"]
        return self._work_per_s[leader]

    def call(self, request: Request[R], *, channel: int = 0, timeout_s: float = CALL_TIMEOUT_S) -> R:
        """Request and reply."""
        return self.wait(self.send(request, channel=channel), timeout_s=timeout_s)

    def call_all(
        self, requests: Sequence[tuple[Request[R], int]], timeout_s: float = CALL_TIMEOUT_S
    ) -> list[R]:
        """Several requests, each to a channel, on their way at once; replies in their order."""
        pending = [self.send(request, channel=channel) for request, channel in requests]
        return [self.wait(each, timeout_s=timeout_s) for each in pending]

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
            message = self._inbox.popleft()
            self._speakers.heard(message)
            self.heard = message.channel
            yield message

    def listen(self, channel: int, hear: Callable[[Data], None] | None) -> None:
        """Hands the bytes of a channel over as soon as they are read, instead of keeping them for `messages`."""
        if hear is None:
            self._listeners.pop(channel, None)
        else:
            self._listeners[channel] = hear

    def pump(self, timeout_s: float = 0.0) -> bool:
        """Reads what is there, waiting up to `timeout_s` for it; whether there was something."""
        return self.open and self._read(timeout_s)

    def await_news(self, timeout_s: float) -> None:
        """Reads what comes within that time. AgentError where the leader is gone: a caller that waits for more
        waits in vain.
        """
        if not self.pump(timeout_s) and not self.open:
            raise AgentError("control stream", "the leader is gone", CURE_GONE)

    def ended(self, channel: int) -> str | None:
        """How what ran on a channel ended; None while it runs."""
        end = self._ended.get(channel)
        return None if end is None else end.how

    def broke(self, channel: int) -> bool:
        """Whether what ran on a channel is heard no more because it broke the protocol."""
        end = self._ended.get(channel)
        return end is not None and end.breach

    def forget_end(self, channel: int) -> None:
        """Drops the news that a command ended: its caller knows."""
        self._drop(
            lambda message: (
                isinstance(message, Notice)
                and message.name == "exited"
                and message.details["channel"] == channel
            )
        )

    def _drop(self, old: Callable[[Message], bool]) -> None:
        """Drops what waits to be heard and is of no use any more."""
        kept: deque[Message] = deque()
        for message in self._inbox:
            if old(message):
                self._speakers.heard(message)
            else:
                kept.append(message)
        self._inbox = kept

    def begin_again(self, first: int, channels: int) -> None:
        """Forgets that what had these channels ended: it is about to be started again."""
        for channel in range(first, first + channels):
            if self._ended.pop(channel, None) is not None:
                self.forget_end(channel)
            self._silent.pop(channel, None)

    def attach(
        self,
        stream: socket.socket,
        first: int,
        channels: int,
        death: Callable[[], str],
        renewal: Renewal | None = None,
    ) -> None:
        """An agent at the end of a stream of its own, its channel 0 here `first`. `death` says why the stream ended.

        With `renewal` the stream is a line, which is mended when it is cut: events 'cut' and 'mended' report it.
        """
        self._branches.append(Branch(stream, first, channels, death, renewal))
        self.begin(first, channels)

    def beat(self, channel: int) -> None:
        """From now on the agent of a channel hears from us at least every `BEAT_S`, until it ends."""
        if not self._beats:
            self._next_beat_s = time.monotonic() + BEAT_S
        self._beats[channel] = None

    def rest(self, channel: int) -> None:
        """The agent of a channel expects to hear from us no more: it was ended."""
        self._beats.pop(channel, None)

    def attached(self, channel: int) -> bool:
        """Whether a stream of its own leads to this channel."""
        return self._branch(channel) is not None

    def detach(self, first: int) -> None:
        """Forgets a stream, which stays its owner's."""
        self._branches = [branch for branch in self._branches if branch.first != first]

    def _branch(self, channel: int) -> Branch | None:
        return next((branch for branch in self._branches if branch.holds(channel)), None)

    def _base(self, channel: int) -> int:
        """Which of our channels is channel 0 of the agent that is asked."""
        branch = self._branch(channel)
        return self.at if branch is None else branch.first

    def renew(self, first: int) -> None:
        """Forgets all that was said on channels from `first` on, or of them: what spoke there is gone, and others
        begin.
        """

        def old(message: Message) -> bool:
            ended = isinstance(message, Notice) and message.name == "exited"
            return (int(message.details["channel"]) if ended else message.channel) >= first  # type: ignore[union-attr]

        self._drop(old)
        self._ended = {channel: end for channel, end in self._ended.items() if channel < first}
        self._silent = {channel: s for channel, s in self._silent.items() if channel < first}

    def greet(self, channel: int = 0, *, heartbeat_ns: int | None = None) -> Introduction:
        """The handshake. With `heartbeat_ns` a probe stops its traffic when it hears nothing for so long."""
        return self.call(Hello(heartbeat_ns=heartbeat_ns), channel=channel)

    def close(self) -> None:
        """Closes the stream; an attached world ends with it."""
        self.open = False
        self._stream.close()

    def _read(self, timeout_s: float) -> bool:
        self._beat()
        end_s = time.monotonic() + max(timeout_s, 0)
        dues = [due_s for each in self._branches if (due_s := each.due_s()) is not None]
        if self._beats:
            dues.append(self._next_beat_s)
        wait_s = min([end_s, *dues]) - time.monotonic()
        own, others = branches.ready(self._stream, self._branches, wait_s)
        # Each of them is read, not up to the first that has something.
        taken = [self._take_branch(branch) for branch in others]
        if own:
            taken.append(self._take())
        for branch in list(self._branches):
            if not branch.mend():
                self._lose(branch)
        for branch, why in branches.broken(self._branches):
            self._tell_of(branch, "cut", tail=why)
        for branch, took_s in branches.whole(self._branches):
            self._tell_of(branch, "mended", took_s=round(took_s, 3))
        return any(taken)

    def _beat(self) -> None:
        now_s = time.monotonic()
        if self._beats and now_s >= self._next_beat_s:
            self._next_beat_s = now_s + BEAT_S
            for channel in [each for each in self._beats if self.ended(each) is not None]:
                del self._beats[channel]
            with contextlib.suppress(AgentError):  # the leader is gone: the reader is told
                for channel in self._beats:
                    self.tell(ReadClock(), channel=channel)

    def _take_branch(self, branch: Branch) -> bool:
        messages, holds = branch.take()
        for message in messages:
            channel = message.channel or 0
            if channel >= branch.channels:
                message = Breach(0, f"it speaks on channel {channel}, and has {branch.channels}")  # noqa: PLW2901
            self._sort(replace(message, channel=(message.channel or 0) + branch.first))
        if (what := self._speakers.of(branch.first).breach) is not None:
            branch.why = _breach(what)
            self._lose(branch, breach=True)
            return True
        if holds:
            return bool(messages)
        if not branch.cut():
            self._lose(branch)
        return True  # its end is news

    def _tell_of(self, branch: Branch, event: str, **details: Any) -> None:
        told = {"event": event, "channel": branch.first, **details}
        self._keep(Notice(branch.first, event, told))

    def _lose(self, branch: Branch, *, breach: bool = False) -> None:
        """A stream of its own ended, and all its channels with it."""
        self.detach(branch.first)
        branch.close()
        how = branch.why or branch.death()
        for channel in range(branch.first, branch.first + branch.channels):
            self._ended.setdefault(channel, End(how, breach=breach))
        details = {"event": "exited", "channel": branch.first, "channels": branch.channels, "tail": how}
        details |= {BREACH: True} if breach else {}
        self._keep(Notice(self.at, "exited", details))

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
            self._sort(replace(message, channel=(message.channel or 0) + self.at) if self.at else message)
        return True

    def _sort(self, message: Message | Breach) -> None:
        channel = message.channel or 0
        speaker = self._speakers.of(channel)
        if speaker.breach is not None:
            return
        if isinstance(message, Breach):
            self.breach(channel, message.what)
        elif isinstance(message, Reply):
            self._take_reply(message)
        elif isinstance(message, Data) and message.channel in self._listeners:
            self._listeners[message.channel](message)
        elif isinstance(message, Notice) and message.name == "exited":
            self._take_end(message)
        elif isinstance(message, Notice) and message.name in STOPS:
            told = {**message.details, "channel": channel + int(message.details["channel"])}
            self._keep(Notice(channel, message.name, told))
        elif isinstance(message, Notice) and message.name in OUR_EVENTS:
            self.breach(channel, f"it reports '{message.name}', which is seen from here")
        else:
            self._keep(message)

    def _take_reply(self, reply: Reply) -> None:
        awaited = self._awaited.get(reply.number)
        if awaited is None:
            return  # no call waits for it, or no longer
        if awaited != reply.channel:
            self.breach(reply.channel, f"it answers request {reply.number}, which it was not asked")
            return
        del self._awaited[reply.number]
        self._replies[reply.number] = reply

    def _take_end(self, notice: Notice) -> None:
        first = notice.channel + int(notice.details["channel"])
        channels = int(notice.details.get("channels", 1))
        speaker = self._speakers.of(notice.channel)
        if notice.channel != speaker.first or not speaker.ends(first, channels):
            what = f"it reports that {channels} channels from {notice.details['channel']} on ended, which are not its own"
            self.breach(notice.channel, what)
            return
        exited = Notice(notice.channel, notice.name, {**notice.details, "channel": first})
        # A guest with a leader of its own takes all its channels along.
        for channel in range(first, first + channels):
            self._ended[channel] = End(ending(exited))
        self._keep(exited)

    def _keep(self, message: Message) -> None:
        """Until somebody hears it."""
        if self._speakers.keep(message):
            self._inbox.append(message)
        else:
            self.breach(message.channel, "it says more than anybody hears")

    def _write_branch(self, frame: bytes, branch: Branch) -> None:
        branch.send(frame)
        end = time.monotonic() + CALL_TIMEOUT_S
        while branch.waits_to_write and branch in self._branches:
            _, others = branches.ready(None, [branch], BEAT_S)
            if others:
                self._take_branch(branch)
            if time.monotonic() >= end and branch in self._branches:
                branch.why = f"nothing read for {CALL_TIMEOUT_S:g} s"
                self._lose(branch)

    def _write(self, frame: bytes, to: int) -> None:
        if self.ended(to) is not None:
            return  # the channel has ended, and its carrier cannot use it
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
