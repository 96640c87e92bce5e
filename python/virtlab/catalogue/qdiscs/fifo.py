"""`fifo`, and the kernel's forms of it: `pfifo`, `bfifo`, `pfifo_fast` (tc-pfifo(8), tc-pfifo_fast(8))."""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.catalogue.queueing import CLASS_PACKETS, PORT_PACKETS, Kernel, QueueDiscipline

if TYPE_CHECKING:
    from virtlab.plan import Queue

FULL_FRAME_BYTES = 1514  # as the kernel counts one: MTU and Ethernet header


def _kind(queue: Queue) -> str:
    return BFIFO.name if queue.limit_bytes is not None else PFIFO.name


def _limit(queue: Queue, _: int) -> dict[str, int]:
    if queue.limit_bytes is not None:
        return {"limit_bytes": queue.limit_bytes}
    return {"limit_packets": queue.limit_packets or CLASS_PACKETS}


_KERNEL = Kernel(kind=_kind, options=_limit, built_in=True)
FIFO = QueueDiscipline(
    name="fifo",
    meaning="first in, first out; drops at the tail",
    limit=("packets", "bytes"),
    default={"limit_packets": PORT_PACKETS},
    tail_drop=True,
    serves="in_order",
    kernel=_KERNEL._replace(needs=("pfifo", "bfifo")),
)
PFIFO = QueueDiscipline(
    name="pfifo",
    meaning="first in, first out, limited in packets",
    limit=("packets",),
    default={"limit_packets": PORT_PACKETS},
    tail_drop=True,
    serves="in_order",
    kernel=_KERNEL,
)
BFIFO = QueueDiscipline(
    name="bfifo",
    meaning="first in, first out, limited in bytes",
    limit=("bytes",),
    default={"limit_bytes": PORT_PACKETS * FULL_FRAME_BYTES},
    tail_drop=True,
    serves="in_order",
    kernel=_KERNEL,
)
PFIFO_FAST = QueueDiscipline(
    name="pfifo_fast",
    meaning="three bands by the type of service, the first served first; the limit is that of each band",
    limit=("packets",),
    default={"limit_packets": PORT_PACKETS},
    serves="any_order",
    kernel=Kernel(options=lambda *_: {}, length_of_interface=True, own_packets=True, built_in=True),
)
