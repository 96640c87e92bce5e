"""`hfsc`: hierarchical fair service curve with one class. Parameters by their tc-hfsc(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import POSITIVE_DURATION, RATE
from virtlab.catalogue.qos import QosClasses, QosQueue, QosType
from virtlab.catalogue.queueing import Kernel, QueueDiscipline, curve, same

if TYPE_CHECKING:
    from virtlab.plan import Queue

CURVES = {"real_time": "rt", "link_share": "ls", "upper_limit": "ul"}
TOO_FAST_BIT_PER_S = 8 << 32


def _class_options(values: Values) -> dict[str, tuple[int, int, int]]:
    """Curves of a class by the agent's names: first slope in bit/s, length of the first piece in ns, second slope."""
    found = {}
    for name, word in CURVES.items():
        first, second = values.get(f"{word}_m1_bit_per_s"), values.get(f"{word}_m2_bit_per_s")
        if first is not None or second is not None:
            slope = int(second or 0)
            found[name] = int(slope if first is None else first), int(values.get(f"{word}_d_ns", 0)), slope
    return found


def _qos_queue(values: Values) -> QosQueue | None:
    """A queue has its minimum as real-time and link-share curve, its maximum as upper limit."""
    if set(values) != {"rt_m2_bit_per_s", "ls_m2_bit_per_s", "ul_m2_bit_per_s"}:
        return None
    if values["rt_m2_bit_per_s"] != values["ls_m2_bit_per_s"]:
        return None
    return QosQueue(int(values["rt_m2_bit_per_s"]), int(values["ul_m2_bit_per_s"]))


def _of_qos_queue(queue: QosQueue) -> dict[str, tuple[int, int, int]]:
    least, most = (0, 0, queue.minimum_bit_per_s), (0, 0, queue.maximum_bit_per_s)
    return {"real_time": least, "link_share": least, "upper_limit": most}


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    places = {"parameters": queue.parameters}
    places |= {f"classes.{name}.parameters": entry.parameters for name, entry in queue.classes.items()}
    for path, values in places.items():
        for key, value in values.items():
            if key.endswith("_bit_per_s") and value >= TOO_FAST_BIT_PER_S:
                reason = "the kernel's curves have 32 bits for bytes per second"
                yield f"{path}.{key}", reason, "write '34 Gbit/s' at most"
    parents = {entry.parent for entry in queue.classes.values()}
    for name, entry in queue.classes.items():
        if name in parents and not any(key.startswith("ls_") for key in entry.parameters):
            reason = (
                "without a link-sharing curve newer kernels give a class that has classes one of their own"
            )
            yield f"classes.{name}.parameters", reason, "write ls_m2 there"


HFSC = QueueDiscipline(
    name="hfsc",
    meaning="a class served by a two-piece curve",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("m1", RATE, "m1_bit_per_s", "slope of the first piece; absent: one piece"),
        Parameter("d", POSITIVE_DURATION, "d_ns", "length of the first piece"),
        Parameter("m2", RATE, "m2_bit_per_s", "slope of the second piece", required=True),
    ),
    classes=(
        Parameter("rt_m1", RATE, "rt_m1_bit_per_s", "first slope of the real-time curve"),
        Parameter("rt_d", POSITIVE_DURATION, "rt_d_ns", "length of the first piece of the real-time curve"),
        Parameter("rt_m2", RATE, "rt_m2_bit_per_s", "second slope of the real-time curve"),
        Parameter("ls_m1", RATE, "ls_m1_bit_per_s", "first slope of the link-share curve"),
        Parameter("ls_d", POSITIVE_DURATION, "ls_d_ns", "length of the first piece of the link-share curve"),
        Parameter("ls_m2", RATE, "ls_m2_bit_per_s", "second slope of the link-share curve"),
        Parameter("ul_m1", RATE, "ul_m1_bit_per_s", "first slope of the upper-limit curve"),
        Parameter("ul_d", POSITIVE_DURATION, "ul_d_ns", "length of the first piece of the upper-limit curve"),
        Parameter("ul_m2", RATE, "ul_m2_bit_per_s", "second slope of the upper-limit curve"),
    ),
    tree=True,
    serves="in_order",
    shares="by_curve",
    calibrated=", m2: 1 Gbit/s",
    kernel=Kernel(
        options=lambda _, number: {"default_class": number},
        class_options=_class_options,
        only_class=lambda values: {f"{word}_{key}": values[key] for word in ("rt", "ls") for key in values},
        class_spans=lambda options: {name: same(curve(options.get(name))) for name in CURVES},
        beyond=_beyond,
    ),
    qos=QosType("linux-hfsc", classes=QosClasses(_qos_queue, _of_qos_queue)),
)
