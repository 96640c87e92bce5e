"""Queue disciplines. One file each; the names here are what `queue: {kind: ...}` may say."""

from virtlab.catalogue.named import Named
from virtlab.catalogue.qdiscs.fifo import FIFO
from virtlab.catalogue.queueing import QueueDiscipline

QDISCS: Named[QueueDiscipline] = Named(
    __name__,
    "FIFO fifo.PFIFO fifo.BFIFO fifo.PFIFO_FAST SFQ CODEL FQ_CODEL PIE TBF HTB HFSC PRIO DRR NETEM",
)

DEFAULT_QDISC = FIFO.name

__all__ = ["DEFAULT_QDISC", "FIFO", "QDISCS"]
