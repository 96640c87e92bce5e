"""What a bound is made of: flows with what they may send, and the ports on their way.

A flow is held by an arrival curve sigma + rho t of bits on the wire. One that waits for answers before it sends
more (a window of TCP) has never more than its `window` between its two ends, as well. A role that nothing bounds
has an infinite sigma: full queues bound it all the same.

Frames: an IP packet of b bytes is b + 14 bytes to a queue discipline and b + 38 on the wire, 84 at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

NS = 1e9
IP_BYTES, UDP_BYTES = 20, 8
WIRE_EXTRA_BYTES = 38  # preamble 8, header 14, FCS 4, gap 12
WIRE_LEAST_BYTES = 84
COUNTED_LESS_BYTES = 24  # of the wire's bytes that a queue discipline does not count

# ("vnic" or "licence", guest/vnic), ("uplink", port), ("shaper", "NAME ab"), ("link", "NAME ab CLASS") or ("guest", its
# name).
Port = tuple[str, str]
Serves = Literal["in_order", "by_rank", "by_rounds", "by_rate", "by_curve", "guest", "any_order"]


@dataclass(frozen=True, slots=True)
class Curve:
    """Two slopes in bit/s as the discipline counts, the first for `first_s`."""

    m1: float
    first_s: float
    m2: float

    def bits(self, time_s: float) -> float:
        """Served in so long.

        >>> Curve(4.0, 2.0, 1.0).bits(1.0), Curve(4.0, 2.0, 1.0).bits(5.0)
        (4.0, 11.0)
        """
        return self.m1 * min(time_s, self.first_s) + self.m2 * max(time_s - self.first_s, 0.0)

    def time_s(self, bits: float) -> float:
        """The first time at which so many are.

        >>> Curve(4.0, 2.0, 1.0).time_s(11.0), Curve(0.0, 2.0, 1.0).time_s(3.0), Curve(4.0, 2.0, 0.0).time_s(9.0)
        (5.0, 5.0, inf)
        """
        first = self.m1 * self.first_s
        if bits <= 0:
            return 0.0
        if bits <= first:
            return bits / self.m1
        return self.first_s + (bits - first) / self.m2 if self.m2 > 0 else math.inf

    def scaled(self, by: float) -> Curve:
        """In other bits."""
        return Curve(by * self.m1, self.first_s, by * self.m2)


class NoBoundError(Exception):
    """No bound exists; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A port on the way, `rate` in bit/s of wire.

    `serves`: how it chooses among its classes; `any_order` is in whatever order, never idle while something waits;
    `guest` is one that forwards.
    """

    port: Port
    rate: float
    after_ns: int = 0  # propagation, and the switch behind it
    free: float = 0.0  # bits that go at once after a pause
    line: str = ""  # the direction of a link that its classes share
    serves: Serves = "in_order"
    rank: int = 0  # by_rank: of its class, 0 is served first
    quantum_bits: float = 0.0  # by_rounds: as the discipline counts
    sure: float = 0.0  # by_rate: bit/s that its class is sure of, as the discipline counts
    burst_bits: float = 0.0  # by_rate: as the discipline counts
    curve: Curve | None = None  # by_curve: the real-time curve of its class
    idles: bool = False  # by_curve: whether it may send nothing while something waits
    limit_packets: int | None = None  # of its queue; None: as long as it must be
    limit_bytes: int | None = None
    leaves: bool = False  # a link with a virtual switch behind it


@dataclass
class Flow:
    """Bits of wire: `sigma` at once, `rho` per second; `largest` and `smallest` of its frames. A reply follows
    `request`.

    `window`: bits that are between its ends at the most.
    """

    role: str
    hops: list[Hop]
    sigma: float
    rho: float
    largest: float
    smallest: float
    request: Flow | None = None
    window: float | None = None
    calls: float = 0.0  # frames at once, each maybe a call of a process; inf where nothing bounds them
    calls_per_s: float = 0.0
    lead_ns: float = 0.0  # what the platform may add in front of the first port
    tail_ns: float = 0.0  # and behind the last
    uneven_ns: float = 0.0  # between a vNIC's bucket and its link: so much more of one frame than of another
    late_ns: float = 0.0  # so between a link and the next one, behind a virtual switch
    arrives: dict[Port, float] = field(default_factory=dict)  # sigma in front of each port


def frames_bits(payload_bytes: int, mtu_bytes: int) -> list[int]:
    """Bits of wire of each frame of an IP payload, fragmented as IPv4 does.

    >>> frames_bits(1480, 1500), sum(frames_bits(1500, 1500))
    ([12304], 12976)
    """
    room = mtu_bytes - IP_BYTES
    sizes = []
    while payload_bytes > room:
        sizes.append(room // 8 * 8)
        payload_bytes -= sizes[-1]
    sizes.append(payload_bytes)
    return [wire_bits(size + IP_BYTES) for size in sizes]


def wire_bits(ip_packet_bytes: int) -> int:
    """What one packet takes on a wire, in bits.

    >>> wire_bits(1500), wire_bits(28)
    (12304, 672)
    """
    return 8 * max(ip_packet_bytes + WIRE_EXTRA_BYTES, WIRE_LEAST_BYTES)


def per_counted_bit(wire: float) -> float:
    """Bits of wire for each bit that a queue discipline counts of such a frame.

    >>> round(per_counted_bit(8 * 1538), 4), per_counted_bit(8 * 84)
    (1.0159, 1.4)
    """
    return wire / (wire - 8 * COUNTED_LESS_BYTES)


MOST_PER_COUNTED_BIT = per_counted_bit(8 * WIRE_LEAST_BYTES)


def times(rate: float, time: float) -> float:
    """`rate * time`, with 0 * inf = 0."""
    return 0.0 if rate == 0 or time == 0 else rate * time


def is_finite(value: float) -> bool:
    """Whether it is a number."""
    return not math.isinf(value)
