"""`netem`: a distant network behind a port: every packet is held for a time, and some are lost at random.
tc-netem(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import DURATION, LOSS_RATIO
from virtlab.catalogue.qos import QosType
from virtlab.catalogue.queueing import CLASS_PACKETS, Kernel, QueueDiscipline, Spans, same, whole_bytes

if TYPE_CHECKING:
    from virtlab.plan import Queue

LOSS_STEP = 1 / (2**32 - 1)


def line(rate_bit_per_s: int, delay_ns: int, limit_packets: int, overhead_bytes: int) -> dict[str, Any]:
    """A link: each frame holds the port for its time at the rate (0: for none), and arrives `delay_ns` later."""
    return {
        "rate_bit_per_s": rate_bit_per_s, "delay_ns": delay_ns, "limit_packets": limit_packets,
        "overhead_bytes": overhead_bytes,
    }  # fmt: skip


def _options(queue: Queue, _: int) -> dict[str, Any]:
    values = queue.parameters
    lost = float(values.get("loss_ratio", 0.0))
    told = line(0, int(values.get("delay_ns", 0)), queue.limit_packets or CLASS_PACKETS, 0)
    return told | ({"loss_ratio": lost} if lost else {})


def _spans(options: Values) -> Spans:
    """A loss is a share of 2**32 - 1; a loss that is not requested is absent."""
    lost = options.get("loss_ratio", 0.0)
    return {
        "loss_ratio": (lost, lost - LOSS_STEP, lost + LOSS_STEP),
        "rate_bit_per_s": whole_bytes(options.get("rate_bit_per_s", 0)),
        "overhead_bytes": same(options.get("overhead_bytes", 0)),
    }


NETEM = QueueDiscipline(
    name="netem",
    meaning="holds each packet for a time and loses some at random, in the order in which they came",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("delay", DURATION, "delay_ns", "how long each packet is held", "0 s"),
        Parameter("loss", LOSS_RATIO, "loss_ratio", "share of packets lost at random", "0 %"),
    ),
    draws=True,
    far=True,
    kernel=Kernel(
        options=_options,
        spans=_spans,
        purpose="links by its rate mode; without it the soft switch plays them",
    ),
    qos=QosType(
        "linux-netem",
        said={
            "limit_packets": ("limit", 1),
            "delay_ns": ("latency", 1000),
            "loss_ratio": ("loss", 0.01),
        },
        silent={"limit_packets": 1000},
    ),
)
