"""Queue disciplines. One file each; the names here are what `queue: {kind: ...}` may say."""

from virtlab.catalogue.qdiscs.codel import CODEL
from virtlab.catalogue.qdiscs.drr import DRR
from virtlab.catalogue.qdiscs.fifo import BFIFO, FIFO, PFIFO, PFIFO_FAST
from virtlab.catalogue.qdiscs.fq_codel import FQ_CODEL
from virtlab.catalogue.qdiscs.hfsc import HFSC
from virtlab.catalogue.qdiscs.htb import HTB
from virtlab.catalogue.qdiscs.netem import NETEM
from virtlab.catalogue.qdiscs.pie import PIE
from virtlab.catalogue.qdiscs.prio import PRIO
from virtlab.catalogue.qdiscs.sfq import SFQ
from virtlab.catalogue.qdiscs.tbf import TBF
from virtlab.catalogue.queueing import QueueDiscipline

QDISCS: dict[str, QueueDiscipline] = {
    entry.name: entry
    for entry in (FIFO, PFIFO, BFIFO, PFIFO_FAST, SFQ, CODEL, FQ_CODEL, PIE, TBF, HTB, HFSC, PRIO, DRR, NETEM)
}

__all__ = ["FIFO", "HTB", "NETEM", "PFIFO", "QDISCS"]
