"""Requests to a probe, which plays roles in a guest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.agents.replies import Armed, Collected, Instant, Live, Taken, ToldObjects
from virtlab.agents.requests.request import Anything, Request


@dataclass(frozen=True, slots=True)
class Arm(Request[Armed]):
    """Opens the sockets of one end of a role; a server answers from now on."""

    do = "arm"
    role: str
    side: str
    workload: str
    parameters: Mapping[str, Any]
    local: Mapping[str, Any]
    peer: Mapping[str, Any]
    seed: int
    fifo_priority: int | None = None


@dataclass(frozen=True, slots=True)
class StartRole(Request[Instant]):
    """Begins at an instant of the probe's clock, or at once."""

    do = "start"
    role: str
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SetParameter(Request[Instant]):
    """Changes a tunable parameter of a role that plays."""

    do = "set"
    role: str
    parameter: str
    value: Any


@dataclass(frozen=True, slots=True)
class StopRole(Request[Instant]):
    """Ends a role's traffic."""

    do = "stop"
    role: str


@dataclass(frozen=True, slots=True)
class Collect(Request[Collected]):
    """Sends the blocks of a role that has finished, and then the reply."""

    do = "collect"
    role: str


@dataclass(frozen=True, slots=True)
class Disarm(Request[Anything]):
    """Frees a role."""

    do = "disarm"
    role: str


@dataclass(frozen=True, slots=True)
class TellObjects(Request[ToldObjects]):
    """What a role that does not play knows of its objects, a page from that object on; after the last page a role of
    another guest has them.
    """

    do = "tell_objects"
    role: str
    first: int


@dataclass(frozen=True, slots=True)
class TakeObjects(Request[Taken]):
    """The next page, for a role that is armed; of files with the name of their folder."""

    do = "take_objects"
    role: str
    page: Mapping[str, Any]
    place: str | None = None


@dataclass(frozen=True, slots=True)
class RunningTotals(Request[Live]):
    """What roles that play have seen so far."""

    do = "live"
