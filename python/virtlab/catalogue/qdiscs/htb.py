"""`htb`: hierarchical token bucket with one class. Parameters by their tc-htb(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import CLASS_PRIORITY, POSITIVE_SIZE, RATE
from virtlab.catalogue.qos import QosClasses, QosQueue, QosType
from virtlab.catalogue.queueing import CLASS_PACKETS, Kernel, QueueDiscipline

if TYPE_CHECKING:
    from virtlab.plan import Queue

BURST_BYTES = 1600  # tc's least
PRIORITY_MAX = 7  # TC_HTB_NUMPRIO - 1


def class_options(values: Values) -> dict[str, int]:
    """A class as Linux gets it."""
    rate, burst_bytes = int(values["rate_bit_per_s"]), int(values.get("burst_bytes", BURST_BYTES))
    return {
        "rate_bit_per_s": rate,
        "ceil_bit_per_s": int(values.get("ceil_bit_per_s", rate)),
        "burst_bytes": burst_bytes,
        "cburst_bytes": int(values.get("cburst_bytes", burst_bytes)),
        "prio": int(values.get("prio", 0)),
        "quantum_bytes": int(values.get("quantum_bytes", min(200_000, max(1000, rate // 80)))),
        "overhead_bytes": 0,  # octets per frame beyond what the kernel counts
        "minimum_bytes": 0,  # least octets of a frame
    }


def _qos_queue(values: Values) -> QosQueue | None:
    if not {"rate_bit_per_s", "ceil_bit_per_s", "burst_bytes", "prio"} >= set(values):
        return None
    rate = int(values["rate_bit_per_s"])
    burst = values.get("burst_bytes")
    return QosQueue(
        rate,
        int(values.get("ceil_bit_per_s", rate)),
        None if burst is None else int(burst) * 8,
        values.get("prio"),
    )


def _of_qos_queue(queue: QosQueue) -> dict[str, int]:
    found = {
        "rate_bit_per_s": queue.minimum_bit_per_s,
        "ceil_bit_per_s": queue.maximum_bit_per_s,
        "prio": queue.priority or 0,
    }
    if queue.burst_bit is not None:
        found |= {"burst_bytes": queue.burst_bit // 8, "cburst_bytes": queue.burst_bit // 8}
    return found


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    for name, entry in queue.classes.items():
        if entry.parameters.get("prio", 0) > PRIORITY_MAX:
            path = f"classes.{name}.parameters.prio"
            yield (
                path,
                f"the kernel's htb has priorities 0 to {PRIORITY_MAX}",
                f"write at most {PRIORITY_MAX}",
            )


HTB = QueueDiscipline(
    name="htb",
    meaning="a class with a guaranteed and a ceiling rate",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("rate", RATE, "rate_bit_per_s", "guaranteed rate", required=True),
        Parameter("ceil", RATE, "ceil_bit_per_s", "ceiling; absent: the rate"),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "bytes sent at ceiling speed in excess of the rate"),
        Parameter(
            "cburst",
            POSITIVE_SIZE,
            "cburst_bytes",
            "bytes sent at once in excess of the ceiling; absent: burst",
        ),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a class may send per turn"),
    ),
    classes=(
        Parameter("rate", RATE, "rate_bit_per_s", "guaranteed rate", required=True),
        Parameter("ceil", RATE, "ceil_bit_per_s", "ceiling; absent: the rate"),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "bytes sent at once at rate"),
        Parameter("cburst", POSITIVE_SIZE, "cburst_bytes", "bytes sent at once at ceil"),
        Parameter("prio", CLASS_PRIORITY, "prio", "0 to 7: the smallest borrows first; absent: 0"),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes per turn among equals"),
    ),
    tree=True,
    guarantees=True,
    serves="shaped",
    shares="by_rate",
    calibrated=", rate: 1 Gbit/s",
    kernel=Kernel(
        options=lambda _, number: {"default_class": number, "direct_limit_packets": CLASS_PACKETS},
        class_options=class_options,
        only_class=lambda values: values,
        beyond=_beyond,
        purpose="pushback of access links",
        essential=True,
    ),
    qos=QosType(
        "linux-htb",
        classes=QosClasses(_qos_queue, _of_qos_queue, borrowing=True, least_is_mtu=True),
    ),
)
