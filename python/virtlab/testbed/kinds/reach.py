"""What the testbed asks of a guest, whatever its platform: who leads its network, by which channels, and by which
clock.

A namespace is led by the leader of the private world (channel 0) and lives by our clock. A guest with a kernel of its
own has a leader inside, which the world's leader passes frames to: it owns a range of channels, the first its own, and
what it starts (a probe, commands) has the others. All channels are counted from the control plane.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.testbed.kinds.clock import Clock, OurClock

OUR_CLOCK = OurClock()


@dataclass(frozen=True, slots=True)
class Reach:
    """How to talk to a guest. `channels` are those that what runs inside may take; None: any that are free."""

    leader: int = 0
    channels: range | None = None
    clock: Clock = OUR_CLOCK


OURS = Reach()
