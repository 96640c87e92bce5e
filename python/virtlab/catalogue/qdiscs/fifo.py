"""`fifo`, and the kernel's forms of it: `pfifo`, `bfifo`, `pfifo_fast` (tc-pfifo(8), tc-pfifo_fast(8))."""

from virtlab.catalogue.declaration import QueueDiscipline

PORT_PACKETS = 100  # of a common switch port, where the file says nothing
FULL_FRAME_BYTES = 1514  # as the kernel counts one: MTU and Ethernet header

FIFO = QueueDiscipline(
    name="fifo",
    meaning="first in, first out; drops at the tail",
    limit=("packets", "bytes"),
    default={"limit_packets": PORT_PACKETS},
)
PFIFO = QueueDiscipline(
    name="pfifo",
    meaning="first in, first out, limited in packets",
    limit=("packets",),
    default={"limit_packets": PORT_PACKETS},
)
BFIFO = QueueDiscipline(
    name="bfifo",
    meaning="first in, first out, limited in bytes",
    limit=("bytes",),
    default={"limit_bytes": PORT_PACKETS * FULL_FRAME_BYTES},
)
PFIFO_FAST = QueueDiscipline(
    name="pfifo_fast",
    meaning="three bands by the type of service, the first served first; the limit is that of each band",
    limit=("packets",),
    default={"limit_packets": PORT_PACKETS},
)
