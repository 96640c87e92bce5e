"""Where a world is built: on this machine, or inside another kernel that was booted for it.

A site starts the leader of a world and knows what the session cannot see from here: the clock that all agents of that
world share (the run's clock), how slow it is, what it runs on, and what else has to live for the world to live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from virtlab.agents.replies import Introduction
from virtlab.errors import GuestError
from virtlab.testbed.build import idle
from virtlab.testbed.build.machine import versions
from virtlab.testbed.kinds.container_home import Home
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.groups import Bounds, Groups
from virtlab.testbed.leader.process import Leader
from virtlab.testbed.leader.run_clock import raw_ns

LEAD_NS = 50_000_000  # starts are sent this long before their instant, which the agent keeps


class WorldLeader(Protocol):
    """The leader of one world."""

    control: Control
    hello: Introduction
    rootless: bool
    number: int  # of its process on this machine; 0: it is on another one

    def tail(self) -> str:
        """The end of what it wrote as errors."""

    def end(self) -> None:
        """Ends the world; a second call does nothing."""


class Site(Protocol):
    """A machine that builds worlds, one at a time."""

    patience: int  # how many times longer than here things may take
    lead_ns: int  # how long before their instant starts are sent
    emulated: bool  # its processor is a program: when it gets to run is no mistake of a run
    asks: bool  # files of the world's kernel are read by processes that are started there

    def start(self, *, cpus: Sequence[int], keep: bool) -> WorldLeader:
        """The leader of a new, empty world."""

    def now(self) -> int:
        """The clock of the world's agents, ns."""

    def bound_ns(self) -> int:
        """The largest error of `now` against that clock."""

    def compare_clocks(self) -> None:
        """Looks how far that clock is from ours, as a trial begins and ends."""

    def clocks(self) -> Mapping[str, Any]:
        """The state of the clocks, for the run's record."""

    def conditions(self, hello: Mapping[str, Any]) -> dict[str, str]:
        """Versions and state of what carries the world."""

    def running(self) -> list[Running]:
        """Processes that have to live as long as the world."""

    def bounds(self, control: Control) -> Bounds:
        """The maker of control groups on the world's machine."""

    def container_home(self, bounds: Bounds) -> Home | None:
        """The folder in which containers are made; None: as on this machine."""

    def death(self) -> GuestError | None:
        """The error that what carries the world ended; None while it lives."""

    def carrier(self, channel: int) -> str:
        """The name of what carries the world, where it is what runs on a channel; else empty."""

    def silent(self) -> str:
        """Takes note of the missing answer: the name of the machine that carries the world; empty for this one."""


class Here:
    """This machine."""

    patience = 1
    lead_ns = LEAD_NS
    emulated = False
    asks = False

    def start(self, *, cpus: Sequence[int], keep: bool) -> WorldLeader:
        """A leader as a child of this process."""
        return Leader.start(cpus=cpus, keep=keep)

    def now(self) -> int:
        """All agents share this machine's clock."""
        return raw_ns()

    def bound_ns(self) -> int:
        """Nothing: it is our clock."""
        return 0

    def compare_clocks(self) -> None:
        """Nothing to compare."""

    def clocks(self) -> Mapping[str, Any]:
        """Nothing beside the run's clock."""
        return {}

    def conditions(self, hello: Mapping[str, Any]) -> dict[str, str]:
        """Versions, and what the machine does while nothing happens."""
        return {**versions(hello), **idle.conditions()}

    def running(self) -> list[Running]:
        """Nothing but the leader."""
        return []

    def bounds(self, control: Control) -> Bounds:
        """This machine's control groups, wherever the leader is."""
        del control
        return Groups()

    def container_home(self, bounds: Bounds) -> Home | None:
        """This machine, looked at when the first container is made."""
        del bounds
        return None

    def death(self) -> GuestError | None:
        """The leader speaks for itself."""
        return None

    def carrier(self, channel: int) -> str:
        """Nothing that could be stopped by itself."""
        del channel
        return ""

    def silent(self) -> str:
        """Guests speak for themselves."""
        return ""


HERE: Site = Here()
