"""All moves of a session's machines: those under way, those that wait, and where each machine is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from virtlab.plan import Action
from virtlab.testbed.kinds.moved import Moved
from virtlab.testbed.kinds.platform import Relocating
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu.cold import ColdMove
from virtlab.testbed.platforms.qemu.itinerary import Itinerary
from virtlab.testbed.platforms.qemu.moving import Destination, Move


@dataclass(slots=True)
class Moving:
    """All moves of a session."""

    control: Control
    now: Callable[[], int]
    destinations: dict[str, Destination] = field(default_factory=dict)
    under_way: dict[str, Move] = field(default_factory=dict)  # by action
    cold: dict[str, ColdMove] = field(default_factory=dict)  # by action: those that are not copied
    moved: dict[str, Moved] = field(default_factory=dict)  # by action
    waiting: dict[str, tuple[Action, int]] = field(default_factory=dict)  # for their machine, since when
    itineraries: dict[str, Itinerary] = field(default_factory=dict)  # by guest
    switches: Mapping[str, Relocating] = field(default_factory=dict)  # those that are programs

    def ended(self, channel: int) -> str | None:
        """The guest whose destination has a channel."""
        return next((name for name, each in self.destinations.items() if each.process == channel), None)

    def due(self) -> Iterator[Move]:
        """Moves at which to look now."""
        now_ns = self.now()
        for move in list(self.under_way.values()):
            if now_ns >= move.next_look_ns:
                move.next_look_ns = now_ns + move.look_ns
                yield move
