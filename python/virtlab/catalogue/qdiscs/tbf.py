"""`tbf`: token bucket filter. Parameters by their tc-tbf(8) names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import POSITIVE_SIZE, RATE
from virtlab.catalogue.queueing import Kernel, QueueDiscipline

if TYPE_CHECKING:
    from virtlab.plan import Queue

QUEUE_NS = 50_000_000  # for which a queue without a limit has room


def _options(queue: Queue, _: int) -> dict[str, int]:
    rate, burst_bytes = int(queue.parameters["rate_bit_per_s"]), int(queue.parameters["burst_bytes"])
    room = rate * QUEUE_NS // 8_000_000_000 + burst_bytes
    return {
        "rate_bit_per_s": rate, "burst_bytes": burst_bytes, "limit_bytes": queue.limit_bytes or room,
        "overhead_bytes": 0, "minimum_bytes": 0,
    }  # fmt: skip


TBF = QueueDiscipline(
    name="tbf",
    meaning="holds packets to a rate with a bucket of tokens",
    limit=("bytes",),
    parameters=(
        Parameter("rate", RATE, "rate_bit_per_s", "rate of the tokens", required=True),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "size of the bucket", required=True),
    ),
    bucket="burst_bytes",
    serves="shaped",
    calibrated=", rate: 1 Gbit/s, burst: 1 MB, limit: 10 MB",
    kernel=Kernel(options=_options),
)
