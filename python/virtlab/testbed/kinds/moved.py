"""What is known of a guest's move to another host, once it is over."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Look:
    """What the hypervisor said in mid-move, at an instant of the run's clock; bytes, byte/s, bit/s."""

    at_ns: int
    remaining_bytes: int
    sent_bytes: int
    dirty_byte_per_s: int | None  # None: it has not measured one yet
    rounds: int
    throttled_ratio: float | None = None  # of its processors, to slow down what it writes; None: it is not


@dataclass(frozen=True, slots=True)
class Moved:
    """Instants by the run's clock. `pause_ns`: how long its processors stood still, from the last instruction at the source
    to the first at the destination; of one that boots again, from the request to shut down until it serves again.
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
    disk_bytes: int | None = None  # of its disk, what was copied; None: nothing had to be
    recovered: tuple[int, ...] = ()  # when its pages came again over a new connection
    boot: tuple[int, int] | None = None  # when it was off, and on again: of one that was not copied

    @property
    def pause_ns(self) -> int:
        """How long it was paused."""
        return self.resumed_at_ns - self.paused_at_ns
