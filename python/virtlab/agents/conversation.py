"""One side of a control stream: requests become bytes, bytes become messages.

Frames carry a channel: 0 is the leader itself, others are the agents and commands behind it. Nothing here reads or
writes; the owner of the socket does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from virtlab.errors import AgentError

PROTOCOL = (1, 0)


class Kind(IntEnum):
    """What a frame's body holds."""

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
    """An event that an agent tells of its own accord; `details` holds all of it."""

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


Message = Reply | Notice | Log | Block | Data


@dataclass(slots=True)
class Conversation:
    """Numbers requests, builds frames, and reads what comes back."""

    _decoder: Any = field(default=None)
    _next_number: int = 1

    def request(
        self, do: str, fields: Mapping[str, Any] | None = None, *, channel: int = 0
    ) -> tuple[int, bytes]:
        """A request's number and its frame. Names of fields are the protocol's own."""
        number = self._next_number
        self._next_number += 1
        text = json.dumps({"id": number, "do": do, **(fields or {})}, separators=(",", ":"))
        return number, _encode(channel, Kind.CONTROL, text.encode())

    @staticmethod
    def data(channel: int, content: bytes) -> bytes:
        """A frame with input for a command; no content is the end of its input."""
        return _encode(channel, Kind.DATA, b"\0" + content)

    def feed(self, content: bytes) -> list[Message]:
        """Messages that are whole after these bytes. AgentError when a control frame is not JSON of the protocol."""
        if self._decoder is None:
            from virtlab._native import FrameDecoder

            self._decoder = FrameDecoder()
        self._decoder.feed(content)
        found: list[Message] = []
        while (frame := self._decoder.next_frame()) is not None:
            found.append(_message(*frame))
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


def _message(channel: int, kind: int, body: bytes) -> Message:
    if kind == Kind.BLOCK:
        return Block(channel, body)
    if kind == Kind.DATA:
        return Data(channel, body[0] if body else 1, body[1:])
    try:
        values = json.loads(body)
    except ValueError as error:
        raise AgentError("agent protocol", f"a control frame is not JSON: {error}") from error
    if isinstance(values, dict):
        if isinstance(values.get("event"), str):
            return Notice(channel, values["event"], values)
        if "log" in values:
            return Log(channel, str(values["log"]), str(values.get("text", "")))
        number, ok, refusal = values.get("re"), values.get("ok"), values.get("error")
        if isinstance(refusal, dict):
            return Reply(channel, number if isinstance(number, int) else 0, None, refusal)
        if isinstance(number, int) and isinstance(ok, dict):
            return Reply(channel, number, ok, None)
    raise AgentError("agent protocol", f"a control frame is neither reply nor event nor log: {body[:200]!r}")
