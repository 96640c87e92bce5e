"""One side of a control stream: requests become bytes, bytes become messages.

Frames carry a channel: 0 is the leader itself, others are the agents and commands behind it. Nothing here reads or
writes; the owner of the socket does. Who speaks may be a guest or a host of somebody else's: whatever the bytes
are, they are messages of the types below, or a `Breach` that names their channel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeGuard

from virtlab.errors import AgentError

PROTOCOL = (1, 0)
MOST_STRAY_BYTES = 1 << 20  # greetings of a login, noise of a console: what is more is no control stream
MOST_NOTICE_BYTES = 64 << 10
LONGEST_TEXT = 4096  # of what an agent says in its own words
LARGEST = 2**61  # of an instant or a sample: differences of two fit 64 bits, on any clock
# Events of a channel's process: stopped by a signal, and running again; with their fields.
STOPS = {"stopped": ("channel", "t_ns"), "stood_still": ("channel", "t_ns", "for_ns")}
_DEEPEST = 32
_U64 = 2**64


class Kind(IntEnum):
    """The kind of a frame's body."""

    CONTROL = 0
    BLOCK = 1
    DATA = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to request `number`: `ok`, or `error` with at least the key 'what'."""

    channel: int
    number: int
    ok: Mapping[str, Any] | None
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Notice:
    """An event that an agent reports unasked; `details` holds all of it.

    Of `exited` the channels are whole numbers, code and signal too or None, the tail a text; an instant `t_ns` is one.
    """

    channel: int
    name: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Log:
    """A line for the run's log."""

    channel: int
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """Samples, not decoded yet; see `decode_samples`."""

    channel: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a command: stream 1 = its output, 2 = its errors."""

    channel: int
    stream: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Breach:
    """The bytes on `channel` were not a valid message of the protocol. None: not even a frame could be read."""

    channel: int | None
    what: str


Message = Reply | Notice | Log | Block | Data


@dataclass(slots=True)
class Conversation:
    """Numbers requests, builds frames, and reads what comes back."""

    _decoder: Any = field(default=None)
    _next_number: int = 1

    def request(self, do: str, fields: Mapping[str, Any], *, channel: int = 0) -> tuple[int, bytes]:
        """A request's number and its frame."""
        number = self._next_number
        self._next_number += 1
        text = json.dumps({"id": number, "do": do, **fields}, separators=(",", ":"))
        return number, _encode(channel, Kind.CONTROL, text.encode())

    @staticmethod
    def data(channel: int, content: bytes) -> bytes:
        """A frame with input for a command; no content is the end of its input."""
        return _encode(channel, Kind.DATA, b"\0" + content)

    def feed(self, content: bytes) -> list[Message | Breach]:
        """Messages that are whole after these bytes, and what came in place of one."""
        if self._decoder is None:
            from virtlab._native import FrameDecoder

            self._decoder = FrameDecoder()
        self._decoder.feed(content)
        found: list[Message | Breach] = []
        while (frame := self._decoder.next_frame()) is not None:
            found.append(_message(*frame))
        if self._decoder.noise_bytes > MOST_STRAY_BYTES:
            found.append(Breach(None, f"more than {MOST_STRAY_BYTES >> 20} MiB came that is not a frame"))
        return found

    @property
    def stray_bytes(self) -> int:
        """Bytes so far that belonged to no valid frame."""
        return int(self._decoder.stray_bytes) if self._decoder is not None else 0


def _encode(channel: int, kind: Kind, body: bytes) -> bytes:
    from virtlab._native import encode_frame

    try:
        return bytes(encode_frame(channel, int(kind), body))
    except ValueError as error:
        raise AgentError("agent protocol", str(error)) from error


def _message(channel: int, kind: int, body: bytes) -> Message | Breach:
    if kind == Kind.BLOCK:
        return Block(channel, body)
    if kind == Kind.DATA:
        return Data(channel, body[0] if body else 1, body[1:])
    from pydantic_core import from_json

    try:
        values = from_json(body, allow_inf_nan=False)
        _bounded(values)
    except ValueError as error:
        return Breach(channel, f"a control frame is not JSON of the protocol: {error}")
    if isinstance(values, dict):
        number, ok, refusal = values.get("re"), values.get("ok"), values.get("error")
        if isinstance(refusal, dict) and isinstance(refusal.get("what"), str):
            return Reply(channel, number if _whole(number) else 0, None, _refusal(refusal))
        if _whole(number) and isinstance(ok, dict):
            return Reply(channel, number, ok, None)
        if len(body) > MOST_NOTICE_BYTES:
            return Breach(channel, f"an event or a line of a log has {len(body)} B")
        if isinstance(values.get("event"), str) and _tells(values):
            return Notice(channel, values["event"], values)
        if isinstance(values.get("log"), str):
            return Log(channel, values["log"][:LONGEST_TEXT], str(values.get("text", ""))[:LONGEST_TEXT])
    return Breach(channel, f"a control frame is neither reply nor event nor log: {body[:100]!r}")


def one_line(text: str) -> str:
    """Words of an agent for a message of ours: one line of bounded length.

    >>> one_line("first\\n  second\\n")
    'first | second'
    """
    return " | ".join(filter(None, map(str.strip, text[:LONGEST_TEXT].splitlines())))


def _whole(value: object, least: int = 0) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < LARGEST


def _tells(event: Mapping[str, Any]) -> bool:
    """Whether what is read of an event is what it has to be."""
    if not _whole(event.get("t_ns", 0)) or not isinstance(event.get("tail") or "", str):
        return False
    if event["event"] in STOPS:
        return all(_whole(event.get(key)) for key in STOPS[event["event"]])
    if event["event"] != "exited":
        return True
    numbers = (event.get("code"), event.get("signal"))
    return (
        _whole(event.get("channel"))
        and _whole(event.get("channels", 1), 1)
        and all(number is None or _whole(number, -(2**31)) for number in numbers)
    )


def _refusal(error: dict[str, Any]) -> dict[str, Any]:
    """Its words, bounded; what is said beside them in another form than text says nothing."""
    texts = {
        key: one_line(value)
        for key in ("what", "kernel", "cure", "path")
        if isinstance(value := error.get(key), str)
    }
    index = error.get("index")
    return {**texts, "index": index} if _whole(index) else texts


def _bounded(value: Any, deep: int = 0) -> None:
    """ValueError where a number is infinite or longer than 64 bits, or the whole is nested beyond any message."""
    if deep > _DEEPEST:
        raise ValueError("it is nested too deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is infinite")
    if type(value) is int and not -_U64 < value < _U64:
        raise ValueError("a number has more than 64 bits")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if type(each) is not str:
            _bounded(each, deep + 1)
