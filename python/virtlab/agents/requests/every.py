"""Requests to every agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.agents.conversation import PROTOCOL
from virtlab.agents.replies import Clocks, Introduction
from virtlab.agents.requests.request import Anything, Request


@dataclass(frozen=True, slots=True)
class Hello(Request[Introduction]):
    """The handshake. With `heartbeat_ns` a probe stops its traffic when it hears nothing for so long."""

    do = "hello"
    protocol: Sequence[int] = PROTOCOL
    heartbeat_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ReadClock(Request[Clocks]):
    """What its clocks show."""

    do = "clock"


@dataclass(frozen=True, slots=True)
class Ack(Request[Anything]):
    """A block is held here; no reply."""

    do = "ack"
    stream: str
    schema: str
    number: int


@dataclass(frozen=True, slots=True)
class Bye(Request[Anything]):
    """It shall exit."""

    do = "bye"
