"""A queue of the Plan in front of a link that the kernel shapes: HTB holds the link's rate, the discipline stands below.

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
from virtlab.plan import Queue, QueueClass
from virtlab.planner.licence import ETHERNET_OCTETS
from virtlab.testbed.build.operations import (
    Bfifo,
    ClassAdd,
    Codel,
    Discipline,
    Drr,
    DrrClassAdd,
    FqCodel,
    Hfsc,
    HfscClassAdd,
    Htb,
    Netem,
    Operation,
    Pfifo,
    PfifoFast,
    Prio,
    QdiscAdd,
    QueueLengthSet,
    Sfq,
    Tbf,
)
from virtlab.testbed.queues.applied import QUEUEING, SFQ_DEPTH, check_operations
from virtlab.testbed.queues.outputs import by_another, lacking
from virtlab.testbed.queues.pacing import shaper
from virtlab.testbed.queues.rules import filters, needs, unsaid

if TYPE_CHECKING:
    from virtlab.testbed.build.lower import Lowered

LINK_BURST_FRAMES = 2
MTU_BYTES = 1500
CLASS_PACKETS = 1000  # of a class that says nothing, as tc has it
HTB_BURST_BYTES = 1600  # tc's least
TBF_QUEUE_NS = 50_000_000
QUEUE = "10:"
BANDS_MAX = 16
HTB_PRIORITY_MAX = 7  # TC_HTB_NUMPRIO - 1
SFQ_DIVISOR_MAX = 65_536
SFQ_FLOWS_MAX = 65_408  # SFQ_MAX_FLOWS
FQ_CODEL_FLOWS_MAX = 65_536
FQ_CODEL_QUANTUM_MIN = 256
CODEL_STEP_NS = 1024
CODEL_LEAST_NS = 20_000  # of shorter times more than a twentieth may be lost
HFSC_TOO_FAST_BIT_PER_S = 8 << 32
FIFOS = ("fifo", "pfifo", "bfifo")
# The kernel's modules by kind: what has to be there for a queue of that kind.
KERNEL = {"fifo": ("pfifo", "bfifo"), "htb": ("htb", "pfifo"), "hfsc": ("hfsc", "pfifo")}


@dataclass(frozen=True, slots=True)
class PortQueue:
    """Where one direction of a link queues in the kernel; `classes`: name to handle, `top`: what counts all frames."""

    namespace: str
    link: str
    classes: Mapping[str, str]
    top: str = "1:"


def class_handles(queue: Queue) -> dict[str, str]:
    """Handle of every class. `prio` has its bands in the order of their priorities, others by name."""
    names = list(queue.classes)
    if queue.kind == "prio":
        names.sort(key=lambda name: (queue.classes[name].parameters.get("prio", 0), name))
    else:
        names.sort()
    return {name: f"{QUEUE}{number:x}" for number, name in enumerate(names, start=1)}


def at_port(namespace: str, link: str, rate_bit_per_s: int | None, queue: Queue) -> Iterator[Operation]:
    """The operations at a port, in order; without a rate the queue's discipline stands alone."""
    parent = "root"
    if rate_bit_per_s is not None:
        parent = "1:1"
        burst = LINK_BURST_FRAMES * (MTU_BYTES + ETHERNET_OCTETS)
        yield from shaper(namespace, link, rate_bit_per_s, burst)
    if queue.kind == "pfifo_fast":
        yield QueueLengthSet(namespace, link, queue.limit_packets or CLASS_PACKETS)
    handles = class_handles(queue)
    yield QdiscAdd(namespace, link, _discipline(queue, handles), parent=parent, handle=QUEUE)
    classes = dict(queue.classes)
    if not classes and queue.kind in ("htb", "hfsc"):
        classes = {"all": _only(queue)}
        handles = {"all": f"{QUEUE}1"}
    for name in _downwards(classes):
        entry = classes[name]
        parent = handles[entry.parent] if entry.parent is not None else QUEUE
        yield from _class(queue.kind, namespace, link, parent, handles[name], entry.parameters)
        if not any(other.parent == name for other in classes.values()):
            number = int(handles[name].removeprefix(QUEUE), 16)
            leaf = Pfifo(entry.limit_packets or CLASS_PACKETS)
            yield QdiscAdd(namespace, link, leaf, parent=handles[name], handle=f"{0xFF + number:x}:")
    last = queue.default if queue.kind == "drr" else None
    yield from filters(namespace, link, QUEUE, queue.match, handles, last)


def _only(queue: Queue) -> QueueClass:
    """The one class of a discipline that stands without classes in the file."""
    values = queue.parameters
    if queue.kind == "hfsc":
        values = {
            f"{curve}_{key}": value for curve in ("rt", "ls") for key, value in queue.parameters.items()
        }
    return QueueClass(limit_packets=queue.limit_packets, parameters=values)


def _discipline(queue: Queue, handles: Mapping[str, str]) -> Discipline:
    values: dict[str, Any] = {key: value for key, value in queue.parameters.items() if key != "ideal"}
    default = int(handles[queue.default].removeprefix(QUEUE), 16) if queue.default is not None else 1
    packets = queue.limit_packets
    match queue.kind:
        case "htb":
            return Htb(default_class=default)
        case "hfsc":
            return Hfsc(default_class=default)
        case "prio":
            return Prio(bands=max(2, len(handles)), band=default - 1)
        case "drr":
            return Drr()
        case "pfifo_fast":
            return PfifoFast()
        case "codel":
            return Codel(limit_packets=packets, **values)
        case "fq_codel":
            return FqCodel(limit_packets=packets, **values)
        case "sfq":
            return Sfq(limit_packets=packets, **values)
        case "netem":
            lost = float(values.get("loss_ratio", 0.0)) or None
            return Netem(0, int(values.get("delay_ns", 0)), packets or CLASS_PACKETS, 0, lost)
        case "tbf":
            room = int(values["rate_bit_per_s"]) * TBF_QUEUE_NS // 8_000_000_000 + int(values["burst_bytes"])
            return Tbf(limit_bytes=queue.limit_bytes or room, overhead_bytes=0, minimum_bytes=0, **values)
        case _ if queue.limit_bytes is not None:
            return Bfifo(queue.limit_bytes)
        case _:
            return Pfifo(packets or CLASS_PACKETS)


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


def _class(
    kind: str, namespace: str, link: str, parent: str, handle: str, values: Mapping[str, Any]
) -> Iterator[Operation]:
    if kind == "htb":
        rate = int(values["rate_bit_per_s"])
        burst = int(values.get("burst_bytes", HTB_BURST_BYTES))
        yield ClassAdd(
            namespace,
            link,
            parent,
            handle,
            rate_bit_per_s=rate,
            ceil_bit_per_s=int(values.get("ceil_bit_per_s", rate)),
            burst_bytes=burst,
            cburst_bytes=int(values.get("cburst_bytes", burst)),
            prio=int(values.get("prio", 0)),
            quantum_bytes=int(values.get("quantum_bytes", min(200_000, max(1000, rate // 80)))),
            overhead_bytes=0,
            minimum_bytes=0,
        )
    elif kind == "hfsc":
        curves = [_curve(values, word) for word in ("rt", "ls", "ul")]
        yield HfscClassAdd(namespace, link, parent, handle, *curves)
    elif kind == "drr":
        yield DrrClassAdd(namespace, link, parent, handle, int(values.get("quantum_bytes", 1514)))


def _curve(values: Mapping[str, Any], word: str) -> tuple[int, int, int] | None:
    first, second = values.get(f"{word}_m1_bit_per_s"), values.get(f"{word}_m2_bit_per_s")
    if first is None and second is None:
        return None
    slope = int(second or 0)
    return int(slope if first is None else first), int(values.get(f"{word}_d_ns", 0)), slope


def missing(
    queue: Queue, kernel: Mapping[str, str | None], inside: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """What this kernel lacks for the queue, or cannot do: key, reason, cure. `kernel`: what was tried, None: works;
    `inside`: the laboratory machine whose kernel it is."""
    cure = by_another(queue.kind, inside)
    wanted = KERNEL.get(queue.kind, (queue.kind, "pfifo") if queue.classes else (queue.kind,))
    if queue.kind in QDISCS:
        for kind in wanted:
            why = kernel.get(kind, "not tried")
            if why is not None:
                ways = cure if kind in FIFOS else lacking(queue.kind, f"sch_{kind}", inside)
                yield "kind", f"this kernel has no {kind} ({why})", ways
    for classifier in sorted(needs(queue.match)) or (["cls_u32"] if queue.kind == "drr" else []):
        why = kernel.get(classifier, "not tried")
        if why is not None:
            reason = f"this kernel has no {classifier} to sort frames into classes with ({why})"
            yield "match", reason, lacking(queue.kind, classifier, inside)
    for position, rule in enumerate(queue.match):
        reason_of_rule = unsaid(rule)
        if reason_of_rule is not None:
            yield f"match.{position}", reason_of_rule, cure
    if queue.parameters.get("ideal"):
        yield "parameters.ideal", "the kernel has its own control law", f"{cure}, or remove it"
    for key, reason, instead in _beyond(queue):
        yield key, reason, f"{instead}, or {cure}"
    if queue.kind == "prio" and len(queue.classes) > BANDS_MAX:
        yield "classes", f"the kernel's prio has {BANDS_MAX} bands at most", cure


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    """Values that the kernel would put others in place of: key, reason, what to write instead."""
    values = queue.parameters
    if values.get("perturb_ns", 0) % 1_000_000_000:
        yield "parameters.perturb_ns", "the kernel counts whole seconds", "write seconds"
    if values.get("depth", 1) > SFQ_DEPTH:
        reason = f"the kernel holds at most {SFQ_DEPTH} packets of a flow"
        yield "parameters.depth", reason, f"write at most {SFQ_DEPTH}"
    divisor = values.get("divisor", 1)
    if divisor > SFQ_DIVISOR_MAX or divisor & (divisor - 1):
        reason = f"the kernel has a power of two of slots, at most {SFQ_DIVISOR_MAX}"
        yield "parameters.divisor", reason, "write e.g. 1024"
    flows_max = {"sfq": SFQ_FLOWS_MAX, "fq_codel": FQ_CODEL_FLOWS_MAX}.get(queue.kind)
    if flows_max is not None and values.get("flows", 1) > flows_max:
        yield "parameters.flows", f"the kernel's {queue.kind} has {flows_max} flows at most", "write fewer"
    if queue.kind == "fq_codel" and values.get("quantum_bytes", FQ_CODEL_QUANTUM_MIN) < FQ_CODEL_QUANTUM_MIN:
        reason = f"the kernel's fq_codel lets a flow send at least {FQ_CODEL_QUANTUM_MIN} B per turn"
        yield "parameters.quantum_bytes", reason, f"write '{FQ_CODEL_QUANTUM_MIN} B' or more"
    for key in ("target_ns", "interval_ns"):
        time_ns = values.get(key, CODEL_LEAST_NS)
        if 0 < time_ns < CODEL_LEAST_NS:
            reason = f"the kernel counts steps of {CODEL_STEP_NS} ns"
            yield f"parameters.{key}", reason, f"write '{CODEL_LEAST_NS // 1000} us' or more"
        elif time_ns % 1000:
            yield f"parameters.{key}", "the kernel is told whole microseconds", "write microseconds"
    for path, entry_values in _curves(queue):
        for key, value in entry_values.items():
            if key.endswith("_bit_per_s") and value >= HFSC_TOO_FAST_BIT_PER_S:
                yield (
                    f"{path}.{key}",
                    "the kernel's curves have 32 bits for bytes per second",
                    "write '34 Gbit/s' at most",
                )
    parents = {entry.parent for entry in queue.classes.values()}
    for name, entry in queue.classes.items() if queue.kind == "hfsc" else ():
        if name in parents and not any(key.startswith("ls_") for key in entry.parameters):
            reason = (
                "without a link-sharing curve newer kernels give a class that has classes one of their own"
            )
            yield f"classes.{name}.parameters", reason, "write ls_m2 there"
    for name, entry in queue.classes.items():
        if queue.kind == "htb" and entry.parameters.get("prio", 0) > HTB_PRIORITY_MAX:
            path = f"classes.{name}.parameters.prio"
            yield path, "the kernel's htb has priorities 0 to 7", f"write at most {HTB_PRIORITY_MAX}"


def _curves(queue: Queue) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where hfsc's curves stand, and their values."""
    if queue.kind == "hfsc":
        yield "parameters", queue.parameters
        for name, entry in queue.classes.items():
            yield f"classes.{name}.parameters", entry.parameters


def queueing(lowered: Lowered) -> dict[tuple[str, str], list[Operation]]:
    """What is done to the queues of each port: namespace and interface to operations, in order."""
    found: dict[tuple[str, str], list[Operation]] = {}
    inside = (step for guest in lowered.machines.values() for step in guest.steps)
    after = (op for bridge in lowered.vswitches.values() for op in bridge.afterwards)
    for op in (*(step.op for step in (*lowered.steps, *lowered.late, *inside)), *after):
        if isinstance(op, QUEUEING):
            found.setdefault((op.namespace, op.link), []).append(op)
    return found


def check_queues(
    link: str,
    lowered: Lowered,
    done: Mapping[tuple[str, str], list[Operation]],
    seen: Mapping[str, Any],
    where: str | None = None,
) -> None:
    """Compares disciplines, classes and filters of a link with what the kernel has. MachineError where they differ."""
    for (name, _), queue in lowered.queues.items():
        if name == link:
            has = seen[queue.namespace]["links"][queue.link]
            operations = done.get((queue.namespace, queue.link), [])
            check_operations(where or f"links.{link}", operations, queue.link, has)
