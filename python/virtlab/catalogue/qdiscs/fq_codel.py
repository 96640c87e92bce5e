"""`fq_codel`: CoDel per hashed flow, flows in turn (RFC 8290). Parameters by their tc-fq_codel(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import COUNT, FLAG, POSITIVE_DURATION, POSITIVE_SIZE
from virtlab.catalogue.qdiscs.codel import SAID, SILENT, beyond, time_spans
from virtlab.catalogue.qos import QosType
from virtlab.catalogue.queueing import Kernel, QueueDiscipline

if TYPE_CHECKING:
    from virtlab.plan import Queue

FLOWS_MAX = 65_536
QUANTUM_MIN_BYTES = 256


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    yield from beyond(queue)
    values = queue.parameters
    if values.get("flows", 1) > FLOWS_MAX:
        yield "parameters.flows", f"the kernel's {queue.kind} has {FLOWS_MAX} flows at most", "write fewer"
    if values.get("quantum_bytes", QUANTUM_MIN_BYTES) < QUANTUM_MIN_BYTES:
        reason = f"the kernel's {queue.kind} lets a flow send at least {QUANTUM_MIN_BYTES} B per turn"
        yield "parameters.quantum_bytes", reason, f"write '{QUANTUM_MIN_BYTES} B' or more"


FQ_CODEL = QueueDiscipline(
    name="fq_codel",
    meaning="CoDel in every hashed flow, flows in turn",
    limit=("packets",),
    default={"limit_packets": 10240},
    parameters=(
        Parameter("flows", COUNT, "flows", "number of separate flows", 1024),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a flow may send per turn", "1514 B"),
        Parameter("target", POSITIVE_DURATION, "target_ns", "acceptable standing wait", "5 ms"),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "how long the wait must exceed it", "100 ms"),
        Parameter("ecn", FLAG, "ecn", "marks instead of dropping", default=True),
        Parameter("memory_limit", POSITIVE_SIZE, "memory_limit_bytes", "bytes that may wait in all"),
        Parameter("drop_batch", COUNT, "drop_batch", "most packets dropped at once over the limit"),
    ),
    serves="any_order",
    calibrated="",
    calibrated_first=True,
    kernel=Kernel(spans=time_spans, beyond=_beyond),
    qos=QosType(
        "linux-fq_codel",
        said={**SAID, "flows": ("flows", 1), "quantum_bytes": ("quantum", 1)},
        silent={"limit_packets": 10_240, "flows": 1024, "quantum_bytes": 1514, **SILENT},
        unsaid={"ecn": True},
    ),
)
