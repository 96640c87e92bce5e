"""Guests that move several times in one run: where each is, and where it goes next.

Of such a guest two machines exist at a time, however often it moves. That of its first destination is built with the
world. The next one takes the channels of the machine that the guest has left, once that has ended, and the taps of its
host, which a machine that ended has let go: so nothing grows with the number of moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from virtlab.errors import GuestError
from virtlab.plan import Action
from virtlab.planner.mobility.moves import tries_again
from virtlab.testbed.leader.control import Control

OWN_CHANNELS = 2  # of a machine: its process and its monitor
CURE_MOVED = "where a search plays several trials in one world, let each end with the guest where it began"


@dataclass(slots=True)
class Itinerary:
    """The moves of one guest, in their order."""

    guest: str
    home: str  # the host where it begins
    actions: Sequence[Action]
    sources: Sequence[str]  # the host that it leaves by each
    spare: int  # the channel of the next machine
    over: int = 0  # moves that are, whatever came of them
    at: str = field(init=False)  # the host where it is
    _taken: bool = False  # a machine that it does not need any more is to end there first

    def __post_init__(self) -> None:
        self.at = self.home

    def next(self) -> Action | None:
        """The move that comes next; None after the last one, and where it is not from where it is."""
        place = self._place()
        if place == len(self.actions) or self.sources[place] != self.at:
            return None
        return self.actions[place]

    def _place(self) -> int:
        """The place of the next move: none tries again what has come about."""
        place = self.over
        while 0 < place < len(self.actions) and self.sources[place] != self.at:
            if not tries_again(self.actions[place], self.actions[place - 1]):
                break
            place += 1
        return place

    def check(self, action: Action) -> None:
        """GuestError where a move is not the next one."""
        if (following := self.next()) is not None and following.id == action.id:
            return
        where, place = f"guests.{self.guest}", [each.id for each in self.actions].index(action.id)
        if place < self.over:
            raise GuestError(where, "has moved already, and no machine waits at a destination", CURE_MOVED)
        what = f"is at {self.at}, and '{action.id}' expects it at {self.sources[place]}"
        cure = f"let '{action.id}' begin only after the moves before it have finished, or only after they have failed"
        raise GuestError(where, what, cure)

    def free(self, control: Control) -> bool:
        """Whether the next machine may be started."""
        if self._taken and control.ended(self.spare) is not None:
            control.begin_again(self.spare, OWN_CHANNELS)
            self._taken = False
        return not self._taken

    def arrived(self, left: int) -> None:
        """It is where the next move was to bring it; the channel of the machine that it left, which is ending."""
        place = self._place()
        self.stayed(left)
        self.at = str(self.actions[place].to)

    def stayed(self, ending: int) -> None:
        """The next move is over, and a machine is ending."""
        self.passed()
        self.spare, self._taken = ending, True

    def passed(self) -> None:
        """The next move is over."""
        self.over = self._place() + 1

    def begin_again(self) -> bool:
        """From the first move on, where the guest is where it began; whether it is."""
        if self.at == self.home:
            self.over = 0
        return self.at == self.home
