"""Migrations by their model: pause, blackout and total time of guests that move, and what would be enough.

The model is `virtlab-migration`'s (Rust; its first page has the theory and its sources); this file gives it its numbers
and types. All times are seconds, sizes bytes, rates byte/s; none of it is measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Mode = Literal["pre_copy", "post_copy", "hot", "cold"]
Rule = Literal["textbook", "qemu"]
Order = Literal["in_turn", "together"]
End = Literal["converged", "forced", "never"]
DOWNTIME_LIMIT_S = 0.3  # QEMU's own default
WINDOW_S = 0.1  # QEMU 7.2: BUFFER_DELAY


@dataclass(frozen=True, slots=True)
class Fixed:
    """Times that memory does not explain, measured apart, in seconds.

    From the request to the first byte; of the pause, for the state of devices; after it, until clients reach the guest
    again; and of cold migration, until it is off, and from its start until it serves.
    """

    setup_s: float = 0.0
    device_state_s: float = 0.0
    reconvergence_s: float = 0.0
    shutdown_s: float = 0.0
    boot_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Moved:
    """A guest that moves: V, D and W, and what of its disk is copied before. `working_set_bytes` None: it writes to all
    of its memory.
    """

    memory_bytes: float
    dirty_byte_per_s: float = 0.0
    working_set_bytes: float | None = None
    fixed: Fixed = field(default_factory=Fixed)
    disk_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How guests move. After `rounds_limit` rounds a guest pauses, whatever is left; None: never so. With
    `auto_converge` it is slowed, as QEMU does, while it dirties more than half of what is sent.
    """

    mode: Mode = "pre_copy"
    rule: Rule = "textbook"
    downtime_limit_s: float = DOWNTIME_LIMIT_S
    window_s: float = WINDOW_S
    rounds_limit: int | None = None
    auto_converge: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """A round of pre-copy: what it sent, for how long, and what remained to be sent after it."""

    bytes: float
    seconds: float
    remaining_bytes: float


@dataclass(frozen=True, slots=True)
class Course:
    """One guest's migration; `begin_s` after the first request, all other times after its own.

    Where `end` is never, times and bytes are what had passed when that was known.
    """

    begin_s: float
    rounds: tuple[Round, ...]
    pause_at_s: float
    pause_s: float
    blackout_s: float
    total_s: float
    bytes: float
    end: End


@dataclass(frozen=True, slots=True)
class Least:
    """The smallest of each with which all guests arrive by their rule; None where even the largest is not enough."""

    bandwidth_byte_per_s: int | None
    downtime_limit_ns: int | None
    throttle_percent: int | None


def courses(
    guests: Sequence[Moved],
    bandwidth_byte_per_s: float,
    policy: Policy | None = None,
    order: Order = "in_turn",
) -> tuple[Course, ...]:
    """The course of each guest's migration, in their order. ValueError names what makes no sense.

    >>> half = courses([Moved(4 << 30, dirty_byte_per_s=64 << 20)], 128 << 20)[0]
    >>> len(half.rounds), half.total_s, half.pause_s
    (7, 63.75, 0.25)
    """
    from virtlab._native import migration_courses

    found = json.loads(migration_courses(_question(guests, bandwidth_byte_per_s, policy, order)))
    return tuple(Course(**each | {"rounds": tuple(Round(**one) for one in each["rounds"])}) for each in found)


def least(
    guests: Sequence[Moved],
    bandwidth_byte_per_s: float,
    policy: Policy | None = None,
    order: Order = "in_turn",
    *,
    within_s: float | None = None,
) -> Least:
    """What would be enough, each with everything else unchanged. `within_s`: of the first request, for all guests.

    >>> least([Moved(4 << 30, 160 << 20, working_set_bytes=512 << 20)], 128 << 20).downtime_limit_ns
    4000000000
    """
    from virtlab._native import migration_least

    return Least(
        **json.loads(migration_least(_question(guests, bandwidth_byte_per_s, policy, order), within_s))
    )


def _question(
    guests: Sequence[Moved], bandwidth_byte_per_s: float, policy: Policy | None, order: Order
) -> str:
    question: dict[str, Any] = {
        "guests": [asdict(guest) for guest in guests],
        "bandwidth_byte_per_s": bandwidth_byte_per_s,
        "policy": asdict(policy or Policy()),
        "order": order,
    }
    return json.dumps(question)
