"""What is known of a guest's move to another host, once it is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from virtlab.errors import GuestError


class LostGuestError(GuestError):
    """A guest runs nowhere any more, and all of its processes have ended or are ending: nothing of it can be waited
    for.
    """


@dataclass(frozen=True, slots=True)
class Look:
    """What the hypervisor said in mid-move, at an instant of the run's clock; bytes, byte/s, bit/s."""

    at_ns: int
    remaining_bytes: int
    sent_bytes: int
    dirty_byte_per_s: int | None  # None: it has not measured one yet
    rounds: int  # how often it has read which pages are dirty
    passed_bytes: int = 0  # of memory, whole pages as they are in the guest, whatever was sent of each
    throttled_ratio: float | None = None  # of its processors, to slow down what it writes; None: it is not


@dataclass(frozen=True, slots=True)
class Moved:
    """Instants by the run's clock. `pause_ns`: how long its processors stood still, from the last instruction at the
    source to the first at the destination; of one that boots again, from the request to shut down until it serves
    again.
    """

    began_ns: int
    paused_at_ns: int
    resumed_at_ns: int
    total_ns: int  # as the hypervisor counts it
    sent_bytes: int
    rounds: int
    setup_ns: int = 0  # of the total, before the first page
    looks: tuple[Look, ...] = field(default=())
    entries: tuple[tuple[int, str], ...] | None = None  # fixed entries that were changed, and when
    paused_bytes: int | None = (
        None  # of what was sent, while it was paused; None: its hypervisor does not tell
    )
    disk_bytes: int | None = None  # of its disk, what was copied; None: nothing had to be
    recovered: tuple[int, ...] = ()  # when its pages came again over a new connection
    boot: tuple[int, int] | None = None  # when it was off, and on again: of one that was not copied

    @property
    def pause_ns(self) -> int:
        """How long it was paused."""
        return self.resumed_at_ns - self.paused_at_ns

    def dirtied(self) -> Iterator[tuple[int, int]]:
        """When it was seen that the hypervisor had read again which pages are dirty, and how many bytes those are: what
        remains is more than it was by them, and less by the pages that were passed meanwhile.
        """
        for before, look in pairwise(self.looks):
            if before.rounds and look.rounds > before.rounds:
                passed_bytes = look.passed_bytes - before.passed_bytes
                yield look.at_ns, max(0, look.remaining_bytes + passed_bytes - before.remaining_bytes)
