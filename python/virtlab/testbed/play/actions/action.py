"""What an action of a timeline is to this testbed: how it begins, and what ends with its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from virtlab.plan import Action, Observer, Plan, Sink
from virtlab.testbed.kinds.clock import Clock
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.reach import OURS
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.counters import Counting
from virtlab.testbed.play.probes import Probes, Side
from virtlab.testbed.play.reasons import Reason
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.site import Site


class RolePrograms(Protocol):
    """Programs of roles, of which actions start some and wait for what others print."""

    def begin(self, name: str, action: str, timeline: Timeline) -> None:
        """Starts a role's program."""

    def latest(self, name: str, key: str) -> float | None:
        """The last value of a metric that it has printed."""


class Waits(Protocol):
    """Waits until a metric reaches a bound."""

    def begin(self, action: Action) -> None:
        """Looks from now on."""


class Playing(Protocol):
    """The trial under way, as its actions see it."""

    control: Control
    plan: Plan
    lowered: Lowered
    guests: Guests
    site: Site
    observe: Observer
    counting: Counting
    probes: Probes
    sides: dict[str, list[Side]]  # by role
    reasons: list[Reason]  # why it failed
    taints: list[Reason]
    sink: Sink
    commands: dict[int, tuple[str, Command]]  # channel -> name of the action, and what runs there

    @property
    def programs(self) -> RolePrograms:
        """The programs of its roles."""

    @property
    def polling(self) -> Waits:
        """The polls of its actions."""

    def clock(self, channel: int) -> Clock:
        """The clock of the speaker on a channel."""

    def note(self, timeline: Timeline, name: str, t_ns: int, clock: Clock = OURS.clock) -> None:
        """An event happened."""

    def tell(self, name: str, t_ns: int, details: Mapping[str, Any] | None = None) -> None:
        """Has an event in the record that nothing waits for."""

    def stop_role(self, name: str, timeline: Timeline) -> None:
        """Ends a role's traffic."""

    def kill(self, channel: int, number: int) -> None:
        """Sends a signal to what runs on a channel of `commands`."""

    def lose_commands(self, guest: str, timeline: Timeline) -> None:
        """Gives up the commands that ran in a guest, which are gone."""


def _nothing_ends(_: Playing, __: Action) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class ActionKind:
    """The functions by which a trial plays an action, and what a trial has to heed of it."""

    begin: Callable[
        [Playing, Action, int, Timeline], None
    ]  # at an instant of the run's clock, or soon after it
    # Once the time that it takes is over, what it took away comes back: the instant at which that was done. None: the
    # action is over when its time is.
    end: Callable[[Playing, Action], int | None] = _nothing_ends
    moves_processes: bool = (
        False  # starts or moves some, which then must be on the processors of their guests
    )
    failure_is_outcome: bool = False  # where another action begins with it; else it fails the run
