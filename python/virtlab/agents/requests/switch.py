"""Requests to the soft switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.agents.replies import Instant
from virtlab.agents.requests.request import Anything, Request


@dataclass(frozen=True, slots=True)
class Configure(Request[Anything]):
    """Opens ports and builds the model of links and switches."""

    do = "configure"
    ports: Mapping[str, Any]
    switches: Mapping[str, Any]
    links: Mapping[str, Any]
    mtu_bytes: int
    spin: str
    forwarding: Mapping[str, Mapping[str, str]] | None = None
    cpu: int | None = None
    fifo_priority: int | None = None


@dataclass(frozen=True, slots=True)
class Forward(Request[Instant]):
    """Forwards from now on, with nothing inside."""

    do = "start"


@dataclass(frozen=True, slots=True)
class Stats(Request[Instant]):
    """What it has counted."""

    do = "stats"


@dataclass(frozen=True, slots=True)
class MoveStations(Request[Instant]):
    """Stations are behind other ports from now on."""

    do = "move"
    forwarding: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SetRate(Request[Instant]):
    """A link sends at another rate from now on."""

    do = "rate"
    link: str
    bit_per_s: int


@dataclass(frozen=True, slots=True)
class SetState(Request[Instant]):
    """A link is cut from now on, or carries frames again."""

    do = "state"
    link: str
    up: bool


@dataclass(frozen=True, slots=True)
class ResetCounters(Request[Instant]):
    """Counters begin again at zero."""

    do = "reset"


@dataclass(frozen=True, slots=True)
class ForwardNoMore(Request[Instant]):
    """Stops forwarding."""

    do = "stop"
