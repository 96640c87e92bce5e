"""`codel`: drops by how long packets waited (RFC 8289). Parameters by their tc-codel(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import FLAG, POSITIVE_DURATION
from virtlab.catalogue.qos import QosType
from virtlab.catalogue.queueing import Kernel, QueueDiscipline, Span, Spans, as_written

if TYPE_CHECKING:
    from virtlab.plan import Queue

TIMES = ("target_ns", "interval_ns")
STEP_NS = 1024
LEAST_NS = 20_000  # of shorter times more than a twentieth may be lost
# What a record of Open vSwitch says, and what it means where it does not (fq_codel's interval would be 1 s).
SAID = {"limit_packets": ("limit", 1), "target_ns": ("target", 1000), "interval_ns": ("interval", 1000)}
SILENT = {"target_ns": 5_000_000, "interval_ns": 100_000_000}


def codel_time(time_ns: int) -> Span:
    """A time of CoDel as the kernel reports it: whole microseconds on the wire, steps of 1024 ns inside
    (`CODEL_SHIFT`).

    >>> codel_time(5_000_000)
    (5000000, 4999000, 4999000)
    """
    kept = (time_ns // 1000 * 1000 >> 10 << 10) // 1000 * 1000
    return time_ns, kept, kept


def time_spans(options: Values) -> Spans:
    """Target and interval of the kernel's."""
    return {key: codel_time(options[key]) for key in TIMES if key in options}


def beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    """Times that the kernel cannot count, and a control law that it does not have."""
    for key in TIMES:
        time_ns = queue.parameters.get(key, LEAST_NS)
        if 0 < time_ns < LEAST_NS:
            reason = f"the kernel counts steps of {STEP_NS} ns"
            yield f"parameters.{key}", reason, f"write '{LEAST_NS // 1000} us' or more"
        elif time_ns % 1000:
            yield f"parameters.{key}", "the kernel is told whole microseconds", "write microseconds"


def _options(queue: Queue, number: int) -> dict[str, Any]:
    return {key: value for key, value in as_written(queue, number).items() if key != "ideal"}


CODEL = QueueDiscipline(
    name="codel",
    meaning="drops packets once their wait stayed above a target for an interval",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("target", POSITIVE_DURATION, "target_ns", "acceptable standing wait", "5 ms"),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "how long the wait must exceed it", "100 ms"),
        Parameter("ecn", FLAG, "ecn", "marks instead of dropping", default=False),
        Parameter("ideal", FLAG, "ideal", "drops by RFC 8289's control law, not Linux's approximation"),
    ),
    serves="in_order",
    calibrated="",
    calibrated_first=True,
    kernel=Kernel(options=_options, spans=time_spans, beyond=beyond),
    qos=QosType(
        "linux-codel",
        said=SAID,
        silent={"limit_packets": 1000, **SILENT},
        unsaid={"ecn": False, "ideal": False},
    ),
)
