"""`pie`: drops with a probability that follows how long packets wait (RFC 8033). Parameters by their tc-pie(8)
names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import FLAG, POSITIVE_DURATION, Kind, shown
from virtlab.catalogue.queueing import TICK_NS, Kernel, QueueDiscipline, Spans

if TYPE_CHECKING:
    from virtlab.plan import Queue

TIMER_TICK_NS = 10_000_000  # the longest of any kernel, CONFIG_HZ=100
WEIGHT_MAX = 32


def _weight(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= WEIGHT_MAX:
        return value
    raise ValueError(f"'{shown(value)}' is not a weight; write a whole number, 0 to {WEIGHT_MAX}")


WEIGHT = Kind("weight", _weight, {"type": "integer", "minimum": 0, "maximum": WEIGHT_MAX}, "2")


def _spans(options: Values) -> Spans:
    """The target in ticks of 64 ns, told in whole microseconds; the time between updates in ticks of the kernel's
    timer.
    """
    found: Spans = {}
    if "target_ns" in options:
        target_ns = options["target_ns"]
        kept = target_ns // 1000 * 1000 // TICK_NS * TICK_NS // 1000 * 1000
        found["target_ns"] = target_ns, kept, kept
    if "tupdate_ns" in options:
        update_ns = options["tupdate_ns"]
        found["tupdate_ns"] = update_ns, update_ns, update_ns + TIMER_TICK_NS
    return found


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    for key in ("target_ns", "tupdate_ns"):
        if queue.parameters.get(key, 0) % 1000:
            yield f"parameters.{key}", "the kernel is told whole microseconds", "write microseconds"


PIE = QueueDiscipline(
    name="pie",
    meaning="drops as packets come, with a probability that follows how long they wait",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("target", POSITIVE_DURATION, "target_ns", "wait that is aimed at", "15 ms"),
        Parameter(
            "tupdate", POSITIVE_DURATION, "tupdate_ns", "time between updates of the probability", "15 ms"
        ),
        Parameter(
            "alpha", WEIGHT, "alpha", "weight of the wait's distance from the target, in sixteenths", 2
        ),
        Parameter("beta", WEIGHT, "beta", "weight of the wait's change, in sixteenths", 20),
        Parameter("ecn", FLAG, "ecn", "marks instead of dropping up to a probability of 10 %", default=False),
        Parameter("bytemode", FLAG, "bytemode", "drops short packets less often", default=False),
    ),
    draws=True,
    serves="in_order",
    calibrated="",
    kernel=Kernel(spans=_spans, beyond=_beyond),
)
