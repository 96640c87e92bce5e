"""What a queue discipline is declared with: its parameters, what it does to packets, and how Linux has it.

Names of Linux's options are the agent's; `crates/virtlab-qdisc` has their layout. Two values of an option are the
same where only Linux's own units lie between them (`by_units`); a discipline that rounds in another way says so
(`Kernel.spans`).

- Rates and slopes are whole bytes per second (`struct tc_ratespec`, `struct tc_service_curve`).
- A curve's first piece is whole microseconds long, and without a length there is no first piece.
- A burst is the time that it lasts at its rate, in ticks of 64 ns (`PSCHED_SHIFT`, include/net/pkt_sched.h), which tbf
  finds by multiplying and shifting: it comes back smaller by what a tick holds, and a byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from virtlab.catalogue.declaration import ALL_ARMS, Arms, Parameter, Values
from virtlab.catalogue.qos import QosType

if TYPE_CHECKING:
    from virtlab.plan import Queue

TICK_NS = 64
PORT_PACKETS = 100  # of a common switch port, where the file says nothing
CLASS_PACKETS = 1000  # that wait in a class that says nothing, as tc has it
TWO_CLASSES = ", classes: {first: {}, rest: {}}, default: rest"  # as a file adds them
Span = tuple[Any, Any, Any]  # what was planned; the least and the most that is the same to the kernel
Spans = dict[str, Span]
Beyond = Iterable[
    tuple[str, str, str]
]  # key, why Linux puts another value in its place, what to write instead
Rates = {"burst_bytes": "rate_bit_per_s", "cburst_bytes": "ceil_bit_per_s"}


def same(value: Any) -> Span:
    """Nothing else will do."""
    return value, value, value


def whole_bytes(rate_bit_per_s: int) -> Span:
    """A rate, which the kernel counts in whole bytes per second."""
    kept = rate_bit_per_s // 8 * 8
    return rate_bit_per_s, kept, kept


def burst(burst_bytes: int, rate_bit_per_s: int) -> Span:
    """A burst, which the kernel counts in ticks of its rate.

    >>> burst(15_380, 100_000_000)
    (15380, 15378, 15380)
    """
    tick = TICK_NS + 1  # and the time itself is in whole nanoseconds
    lasts = burst_bytes * 8_000_000_000 - tick * rate_bit_per_s  # in 1/rate ns
    least = lasts * (rate_bit_per_s // 8) // (rate_bit_per_s * 1_000_000_000) - 1
    return burst_bytes, max(0, least), burst_bytes


def curve(given: Iterable[int] | None) -> tuple[int, int, int]:
    """A service curve as the kernel keeps it; none is one without slopes.

    >>> curve((8, 2500, 15)), curve((0, 900, 16)), curve(None)
    ((8, 2000, 8), (16, 0, 16), (0, 0, 0))
    """
    first, length_ns, second = given or (0, 0, 0)
    first, length_ns, second = first // 8 * 8, length_ns // 1000 * 1000, second // 8 * 8
    return (first if length_ns else second), length_ns, second


def by_units(options: Values) -> Spans:
    """What the kernel has to tell of options, by its units alone."""
    found: Spans = {}
    for key, value in options.items():
        if key in Rates.values():
            found[key] = whole_bytes(value)
        elif key in Rates:
            found[key] = burst(value, options[Rates[key]])
        else:
            found[key] = same(value)
    return found


def as_written(queue: Queue, _: int) -> dict[str, Any]:
    """The limit in packets and all parameters, under their own names."""
    return {"limit_packets": queue.limit_packets, **queue.parameters}


class Kernel(NamedTuple):
    """A discipline and its classes as Linux has them."""

    kind: Callable[[Queue], str] | None = None  # its name there; None: its own
    needs: tuple[str, ...] = ()  # what has to be there for it; empty: its own name
    # Options of a queue and the number of its default class; those of a class's values (None: Linux takes none).
    options: Callable[[Queue, int], Mapping[str, Any]] = as_written
    class_options: Callable[[Values], Mapping[str, Any]] | None = None
    # Values of its one class, of a queue's values: of a discipline that is nothing without a class.
    only_class: Callable[[Values], Values] | None = None
    # Of options, what Linux does not keep by its units alone.
    spans: Callable[[Values], Spans] = lambda _: {}
    class_spans: Callable[[Values], Spans] = lambda _: {}
    beyond: Callable[[Queue], Beyond] = lambda _: ()
    length_of_interface: bool = False  # its limit is the interface's own queue length
    own_packets: bool = False  # it sorts by a priority that only packets of the kernel's own stack have
    catch_all: bool = False  # what matches no rule reaches its default class by a filter
    purpose: str = ""  # what virtlab itself needs it for
    essential: bool = False  # without it a machine is no testbed
    built_in: bool = False  # it is no module


class QueueDiscipline(NamedTuple):
    """A queue discipline; parameters carry their tc names. `limit` says whether a limit can be given, and in what."""

    name: str
    meaning: str
    limit: tuple[str, ...]  # 'packets', 'bytes'
    parameters: tuple[Parameter, ...] = ()
    classes: tuple[Parameter, ...] = ()  # of each class; empty: it has no classes
    tree: bool = False  # classes can have parents
    bare: bool = True  # it can also stand without classes
    default: Mapping[str, int] = {}  # the limit where the file gives none
    ranked_by: str | None = None  # parameter that puts its classes in order
    guarantees: bool = (
        False  # classes have a rate and a ceiling, and no more together than the class above them
    )
    draws: bool = False  # it draws at random: where virtlab plays it, it is given a seed
    far: bool = False  # what is far away: the kernel's in a testbed, played by virtlab in virtual time alone
    tail_drop: bool = False  # first in, first out, and nothing but a limit
    bucket: str | None = None  # parameter without which no packet as long passes at all
    # As a bound has it without classes, and among classes; None: it has no curve.
    serves: Literal["in_order", "any_order", "shaped"] | None = None
    shares: Literal["by_rank", "by_rounds", "by_rate", "by_curve"] | None = None
    calibrated: str | None = (
        None  # what a file adds to it where its cost is measured; None: it has no cost of its own
    )
    calibrated_first: bool = False  # also where calibration has to be quick
    kernel: Kernel = Kernel()
    qos: QosType | None = None  # in a record of Open vSwitch; None: it has no words for it
    arms: Arms = ALL_ARMS

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that file name, or None."""
        return next((entry for entry in self.parameters if entry.name == name), None)

    def ranks(self, queue: Queue) -> list[str]:
        """Names of the queue's classes in their order: the smallest of what ranks them first, then by name."""
        key = self.ranked_by
        rank = {name: entry.parameters.get(key, 0) if key else 0 for name, entry in queue.classes.items()}
        return sorted(queue.classes, key=lambda name: (rank[name], name))

    def kernel_kind(self, queue: Queue) -> str:
        """Linux's name for it."""
        return self.kernel.kind(queue) if self.kernel.kind is not None else self.name

    def kernel_needs(self, queue: Queue) -> tuple[str, ...]:
        """Linux's disciplines that a queue of it takes; in classes wait FIFOs."""
        leaves = ("pfifo",) if queue.classes or self.kernel.only_class is not None else ()
        return (*(self.kernel.needs or (self.name,)), *leaves)
