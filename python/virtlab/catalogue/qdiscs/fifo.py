"""`fifo`: first in, first out, dropping at the tail (tc pfifo, bfifo)."""

from virtlab.catalogue.declaration import QueueDiscipline

FIFO = QueueDiscipline(
    name="fifo", meaning="first in, first out; drops at the tail", limit=("packets", "bytes")
)
