"""A queue of the Plan in front of a link that the kernel shapes: HTB holds the link's rate, the discipline stands
below.

```text
1:   htb, class 1:1 at the link's rate        10: the queue's own discipline, inside 1:1
10:n its classes, by name                     filters of 10: are its rules
100: and on, a pfifo in every class without children
```
So the discipline decides whenever the link takes a frame, as in the soft switch. Lengths count as the kernel has them
(Ethernet header, no FCS); the link's own octets (FCS, preamble, gap) count at 1:1 only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qdiscs.fifo import PFIFO
from virtlab.catalogue.queueing import CLASS_PACKETS
from virtlab.plan import Queue, QueueClass
from virtlab.testbed.queues.outputs import by_another, lacking
from virtlab.testbed.queues.pacing import AT_RATE, shaper
from virtlab.testbed.queues.rules import filters, needs, unsaid
from virtlab.testbed.steps.operations import ClassAdd, Discipline, Operation, QdiscAdd, QueueLengthSet
from virtlab.units.ethernet import FULL_FRAME_WIRE_BYTES

if TYPE_CHECKING:
    pass

LINK_BURST_FRAMES = 2
QUEUE = "10:"


@dataclass(frozen=True, slots=True)
class PortQueue:
    """Where one direction of a link queues in the kernel; `classes`: name to handle, `top`: what counts all frames."""

    namespace: str
    link: str
    classes: Mapping[str, str]
    top: str = "1:"


def class_handles(queue: Queue) -> dict[str, str]:
    """Handle of every class, in the order that the discipline has them in."""
    ordered = enumerate(QDISCS[queue.kind].ranks(queue), start=1)
    return {name: f"{QUEUE}{number:x}" for number, name in ordered}


def at_port(namespace: str, link: str, rate_bit_per_s: int | None, queue: Queue) -> Iterator[Operation]:
    """The operations at a port, in order; without a rate the queue's discipline stands alone."""
    kernel, kind = QDISCS[queue.kind].kernel, QDISCS[queue.kind].kernel_kind(queue)
    parent = "root"
    if rate_bit_per_s is not None:
        parent = AT_RATE
        burst = LINK_BURST_FRAMES * FULL_FRAME_WIRE_BYTES
        yield from shaper(namespace, link, rate_bit_per_s, burst)
    if kernel.length_of_interface:
        yield QueueLengthSet(namespace, link, queue.limit_packets or CLASS_PACKETS)
    handles = class_handles(queue)
    default = int(handles[queue.default].removeprefix(QUEUE), 16) if queue.default is not None else 1
    told = _discipline(kind, kernel.options(queue, default))
    yield QdiscAdd(namespace, link, told, parent=parent, handle=QUEUE)
    classes = dict(queue.classes)
    if not classes and kernel.only_class is not None:
        values = dict(kernel.only_class(queue.parameters))
        classes = {"all": QueueClass(limit_packets=queue.limit_packets, parameters=values)}
        handles = {"all": f"{QUEUE}1"}
    for name in _downwards(classes):
        entry = classes[name]
        parent = handles[entry.parent] if entry.parent is not None else QUEUE
        if kernel.class_options is not None:
            told = _discipline(kind, kernel.class_options(entry.parameters))
            yield ClassAdd(namespace, link, parent, handles[name], told)
        if not any(other.parent == name for other in classes.values()):
            number = int(handles[name].removeprefix(QUEUE), 16)
            yield QdiscAdd(
                namespace,
                link,
                waiting(entry.limit_packets),
                parent=handles[name],
                handle=f"{0xFF + number:x}:",
            )
    last = queue.default if kernel.catch_all else None
    yield from filters(namespace, link, QUEUE, queue.match, handles, last)


def waiting(packets: int | None) -> Discipline:
    """The discipline in which packets of a class wait."""
    return Discipline(PFIFO.name, {"limit_packets": packets or CLASS_PACKETS})


def _discipline(kind: str, options: Mapping[str, Any]) -> Discipline:
    return Discipline(kind, {key: value for key, value in options.items() if value is not None})


def _downwards(classes: Mapping[str, QueueClass]) -> list[str]:
    """Names, parents before their children."""
    found: list[str] = []
    while len(found) < len(classes):
        found += [
            name
            for name, entry in classes.items()
            if name not in found and (entry.parent is None or entry.parent in found)
        ]
    return found


def missing(
    queue: Queue, kernel: Mapping[str, str | None], inside: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """What this kernel lacks for the queue, or cannot do: key, reason, cure. `kernel`: what was tried, None: works;
    `inside`: the laboratory machine whose kernel it is."""
    discipline = QDISCS[queue.kind]
    cure = by_another(discipline, inside)
    for kind in discipline.kernel_needs(queue):
        why = kernel.get(kind, "not tried")
        if why is not None:
            ways = cure if QDISCS[kind].kernel.built_in else lacking(discipline, f"sch_{kind}", inside)
            yield "kind", f"this kernel has no {kind} ({why})", ways
    for classifier in sorted(needs(queue.match)) or (["cls_u32"] if discipline.kernel.catch_all else []):
        why = kernel.get(classifier, "not tried")
        if why is not None:
            reason = f"this kernel has no {classifier} to sort frames into classes with ({why})"
            yield "match", reason, lacking(discipline, classifier, inside)
    for position, rule in enumerate(queue.match):
        reason_of_rule = unsaid(rule)
        if reason_of_rule is not None:
            yield f"match.{position}", reason_of_rule, cure
    if queue.parameters.get("ideal"):
        yield "parameters.ideal", "the kernel has its own control law", f"{cure}, or remove it"
    for key, reason, instead in discipline.kernel.beyond(queue):
        yield key, reason, f"{instead}, or {cure}"
