"""What the testbed asks of a guest, whatever its platform: who leads its network, by which channels, and by which clock.

A namespace is led by the leader of the private world (channel 0) and lives by our clock. A guest with a kernel of its own
has a leader inside, which the world's leader passes frames to: it owns a range of channels, the first its own, and what it
starts (a probe, commands) has the others. All channels are counted from the control plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from virtlab.agents import Notice
from virtlab.errors import VirtlabError
from virtlab.plan import Observer
from virtlab.testbed.platforms.clock import Clock, OurClock

OUR_CLOCK = OurClock()


@dataclass(frozen=True, slots=True)
class Reach:
    """How to talk to a guest. `channels` are those that what runs inside may take; None: any that are free."""

    leader: int = 0
    channels: range | None = None
    clock: Clock = OUR_CLOCK


OURS = Reach()


class Running(Protocol):
    """All guests of one platform in one session."""

    def start(self, observe: Observer) -> None:
        """Starts them side by side and returns when all are ready. GuestError that names the first that is not."""

    def guests(self) -> Mapping[str, Reach]:
        """Those that have started."""

    def ended(self, exited: Notice) -> str | None:
        """Whose process ended, and how, in words; None when it is none of theirs."""

    def deaths(self) -> Iterator[VirtlabError]:
        """Of each that ended, heard of or not."""

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was applied for a guest, and what was read back."""

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Files worth keeping, by name: consoles."""

    def close(self) -> None:
        """Lets go of what this process holds for them; they themselves end with their world."""
