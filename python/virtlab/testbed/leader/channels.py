"""The owner of each channel: every number by which the control plane addresses something in a world, in one place.

A channel is 16 bits. Those of a run's world are 0, its leader, and above; what carries a laboratory machine lies
below 0 and is in `lab.vm`. Each owner has a range, in places of one or several channels; a Plan that needs more
places than there are is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.errors import MachineError

SWITCH = 1  # the soft switch
TERMINAL = 1  # a person's command in a kept world, over a stream of its own, on which no soft switch speaks


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of one owner: from `first` on, `places` of `each` channels."""

    whose: str
    first: int
    places: int
    each: int = 1

    @property
    def span(self) -> range:
        """Every channel of the owner."""
        return range(self.first, self.first + self.places * self.each)

    def at(self, number: int) -> int:
        """The first channel of a place, counted from 0. MachineError beyond the last."""
        if not 0 <= number < self.places:
            what = f"a world has channels for {self.places} {self.whose}, not for {number + 1}"
            raise MachineError("world", what, "use fewer of them")
        return self.first + number * self.each


PROBES = Channels("probes of guests", 2, 9_998)
COMMANDS = Channels("commands of a timeline", 10_000, 3_000)  # in guests without channels of their own
ASKING = Channels(
    "questions to a laboratory's world", 13_000, 1
)  # this and the next two: one after the other
OVS_COMMAND = Channels("commands of Open vSwitch", 13_001, 1)
BUNDLES = Channels("commands that prepare containers", 13_002, 1)
SERVICES = Channels(
    "processes of services", 13_100, 400, 2
)  # in guests without channels of their own; each: its process, the check whether it is ready
ROUTING = Channels("routing daemons", 14_000, 2_000)
PINNING = Channels("guests that are pinned", 16_000, 2_000)
OVS = Channels("daemons of Open vSwitch", 18_000, 1_000)
XENTOP = Channels("readers of xentop", 19_000, 1_000)
APPLIANCES = Channels("appliances", 20_000, 1_000, 2)  # each: its process, its monitor
CONTAINERS = Channels("containers", 22_000, 800, 16)  # each: its runtime, the leader inside, what that starts
MACHINES = Channels(
    "virtual machines", 35_000, 345, 64
)  # each: process, monitor, leader inside, its children
EXISTING = Channels("existing hosts", 57_100, 130, 64)  # each: the leader there, its probe, commands

OF_A_WORLD = (
    PROBES, COMMANDS, ASKING, OVS_COMMAND, BUNDLES, SERVICES, ROUTING, PINNING, OVS, XENTOP, APPLIANCES, CONTAINERS,
    MACHINES, EXISTING,
)  # fmt: skip
LAST = 2**16 - 1

# Inside a laboratory machine there are no existing hosts: what a world has there ends before them.
OF_A_WORLD_INSIDE = 60_000
INSIDE_COMMAND = Channels("commands of what carries a laboratory's world", 60_000, 1)
OF_A_LABORATORY = 62_000  # that its leader has, counted from two below the world's


def place_of(channel: int) -> tuple[Channels, int] | None:
    """The owner of a channel, and the number of its place there."""
    for owner in OF_A_WORLD:
        if channel in owner.span:
            return owner, (channel - owner.first) // owner.each
    return None
