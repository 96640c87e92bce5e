"""What a QoS record of Open vSwitch can say of a queue discipline: its type, and words for the discipline's values.

A record has whole numbers only. One that is silent means Open vSwitch's own values, which are not always the
kernel's, so a discipline lists them. The names are those of ovs-vswitchd.conf.db(5), tables QoS and Queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from virtlab.catalogue.declaration import Values


class QosQueue(NamedTuple):
    """A queue of a record: rates in bit/s; `priority`: the smallest borrows first."""

    minimum_bit_per_s: int
    maximum_bit_per_s: int
    burst_bit: int | None = None
    priority: int | None = None

    @property
    def borrows(self) -> bool:
        """Whether it may send more than its own."""
        return self.maximum_bit_per_s != self.minimum_bit_per_s


class QosClasses(NamedTuple):
    """How a record has the classes of a discipline: as queues."""

    queue: Callable[[Values], QosQueue | None]  # of a class's values; None: a queue has no words for them
    class_options: Callable[[QosQueue], Mapping[str, Any]]  # of the kernel's class that a queue is
    borrowing: bool = False  # queues borrow from the class above all queues, and from no other
    least_is_mtu: bool = False  # a queue has at least its port's MTU each second, else a byte


class QosType(NamedTuple):
    """A discipline as a QoS record of Open vSwitch."""

    name: str
    # Plan's parameter -> key of the record, and how many of the Plan's units one of the record's is (loss: percent).
    said: Mapping[str, tuple[str, float]] = {}
    silent: Mapping[str, int] = {}  # what a record means that says nothing
    unsaid: Mapping[str, bool] = {}  # what it has no word for and the kernel has
    # Values with those that the record has to say in full at a port of that MTU; None: it cannot.
    complete: Callable[[dict[str, Any], int], dict[str, Any] | None] = lambda values, _: values
    classes: QosClasses | None = None  # its classes are queues, and it says nothing else
