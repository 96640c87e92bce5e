"""Queue disciplines at the ports of an Open vSwitch through its own database: Port -> QoS -> Queue.

Open vSwitch sets up tc itself and takes away what it did not set up, so at its ports there are two ways: a QoS
record, where it has a type that says the same (`linux-htb`, `linux-hfsc` with queues of minimum and maximum rate,
`linux-sfq`, `linux-codel`, `linux-fq_codel`, `linux-netem`), else tc by us, with the type `linux-noop` that has it
leave the port alone.

A record that is silent means Open vSwitch's own (SFQ's hash changes every 10 s, a quantum is the MTU), so it is
asked only for what it can be given in full.

Queue 0 is the default queue. tc has queue n of a QoS as class 1:(n+1) below 1:fffe, which holds the whole rate.
Rules of a queue are OpenFlow's (`set_queue`) with the kernel's datapath, which hands a frame to tc with the queue
as its priority. A datapath in user space forgets the queue on the way, so there they are tc filters at 1:, as where
addresses are learned.

Rates and bursts of a queue that Open vSwitch would put others in place of (`*_parse_class_details__` in its
lib/netdev-linux.c) are tc's: below the least that a queue has, above the rate of the whole, or of more than 32 bits.

What a queue means is what it means at any other port. Queues of `linux-htb` borrow from 1:fffe, a class of ours
from its parent alone: so 1:fffe is that parent, where all classes have one of a rate and nothing else, and without
a parent only classes that borrow nothing are queues. `linux-hfsc` never gives all queues together more than 1:fffe
has, so without a class above them that is as much as all have. A port's rate counts what a wire adds to a frame,
which no record can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qos import QosClasses, QosQueue, QosType
from virtlab.plan import Match, Queue, QueueClass

NOTHING_OF_OURS = "linux-noop"
ROOT = "1:"
BURST_BEYOND_MTU_BYTES = (
    64  # the least burst of a queue of `linux-htb` is the MTU and this (lib/netdev-linux.c)
)
WHOLE = "1:fffe"  # the class above all queues
TOO_FAST_BIT_PER_S = 8 << 32  # it keeps bytes per second in 32 bits, and what does not fit wraps around


@dataclass(frozen=True, slots=True)
class Qos:
    """A QoS record. `names`: class of the Plan to number of its queue; `config`: what `other_config` says.

    `match`: rules that OpenFlow obeys; `whole`: class of the Plan that 1:fffe is.
    """

    kind: str
    config: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[QosQueue, ...] = ()
    names: Mapping[str, int] = field(default_factory=dict)
    match: tuple[Match, ...] = ()
    whole: str | None = None

    def handle(self, number: int) -> str:
        """The class of tc that a queue is.

        >>> Qos("linux-htb").handle(0)
        '1:1'
        """
        return f"{ROOT}{number + 1:x}"

    def handles(self) -> dict[str, str]:
        """Class of the Plan to the class of tc that it is.

        >>> Qos("linux-htb", names={"voice": 1}, whole="all").handles()
        {'all': '1:fffe', 'voice': '1:2'}
        """
        above = {} if self.whole is None else {self.whole: WHOLE}
        return above | {own: self.handle(number) for own, number in self.names.items()}

    def said(self) -> dict[str, Any]:
        """What `config` says of a discipline without queues, as the Plan's parameters.

        >>> Qos("linux-codel", {"target": 5000}).said()
        {'target_ns': 5000000}
        """
        said = _type_of(self.discipline).said
        return {key: self.config[word] * unit for key, (word, unit) in said.items() if word in self.config}

    @property
    def discipline(self) -> str:
        """The discipline that the record stands for."""
        return next(name for name, entry in QDISCS.items() if entry.qos and entry.qos.name == self.kind)


LEFT_ALONE = Qos(NOTHING_OF_OURS)


def qos_of(queue: Queue, rate_bit_per_s: int | None, mtu_bytes: int = 1500) -> Qos | None:
    """The record that says what the queue says at a port of that MTU; None where Open vSwitch has no words for it.

    >>> from virtlab.catalogue.qdiscs.fifo import FIFO
    >>> from virtlab.catalogue.qdiscs.htb import HTB
    >>> qos_of(Queue(kind=HTB.name, parameters={"rate_bit_per_s": 10**7}), None).queues
    (QosQueue(minimum_bit_per_s=10000000, maximum_bit_per_s=10000000, burst_bit=None, priority=None),)
    >>> qos_of(Queue(kind=FIFO.name), None) is None
    True
    """
    if rate_bit_per_s is not None:
        return None
    record = QDISCS[queue.kind].qos
    if record is None:
        return None
    if record.classes is not None:
        return _rated(queue, record, record.classes, mtu_bytes)
    if queue.classes:
        return None
    own = {**record.silent, **queue.parameters}
    if queue.limit_packets is not None:
        own["limit_packets"] = queue.limit_packets
    said = record.complete(own, mtu_bytes)
    if said is None:
        return None
    config: dict[str, int] = {}
    for key, value in said.items():
        if record.unsaid.get(key) is value:
            continue
        if key not in record.said:
            return None
        word, unit = record.said[key]
        whole = round(value / unit, 9)
        if whole != int(whole):
            return None  # a record has whole numbers only
        config[word] = int(whole)
    return Qos(record.name, config)


def _type_of(discipline: str) -> QosType:
    """The record of a discipline that has one."""
    record = QDISCS[discipline].qos
    assert record is not None, discipline
    return record


def _rated(queue: Queue, record: QosType, how: QosClasses, mtu_bytes: int) -> Qos | None:
    """Queues with a minimum and a maximum rate, the default first."""
    classes = dict(queue.classes) or {"all": QueueClass(parameters=queue.parameters)}
    default = queue.default if queue.classes else "all"
    above = _above(classes) if how.borrowing else None
    leaves = {name: entry for name, entry in classes.items() if name != above}
    if any(entry.parent != above for entry in leaves.values()):
        return None  # it has one level
    names = [str(default), *sorted(name for name in leaves if name != default)]
    queues = [how.queue(classes[name].parameters) for name in names]
    if any(entry is None for entry in queues):
        return None
    found = tuple(entry for entry in queues if entry is not None)
    if above is not None:
        whole = int(classes[above].parameters["rate_bit_per_s"])
    elif how.borrowing and any(entry.borrows for entry in found):
        return None
    else:
        whole = sum(entry.maximum_bit_per_s for entry in found)
    if not all(_exact(entry, whole, mtu_bytes if how.least_is_mtu else 1, mtu_bytes) for entry in found):
        return None
    numbers = {name: number for number, name in enumerate(names)} if queue.classes else {}
    return Qos(record.name, {"max-rate": whole}, found, numbers, whole=above)


def _above(classes: Mapping[str, QueueClass]) -> str | None:
    """The class that all others borrow from, where a record has words for it: a rate, and nothing else."""
    first = [name for name, entry in classes.items() if entry.parent is None]
    if len(first) != 1 or len(classes) == 1:
        return None
    said = classes[first[0]].parameters
    plain = set(said) <= {"rate_bit_per_s", "ceil_bit_per_s"}
    return first[0] if plain and len(set(said.values())) == 1 else None


def _exact(queue: QosQueue, whole_bit_per_s: int, least_bytes: int, mtu_bytes: int) -> bool:
    """Whether Open vSwitch keeps a queue's values as they are. `least_bytes`: of a queue, per second.

    >>> [_exact(QosQueue(rate, rate), 10**7, 1500, 1500) for rate in (11_999, 12_000, 10**7, 10**7 + 8)]
    [False, True, True, False]
    """
    if (
        not 8 * least_bytes
        <= queue.minimum_bit_per_s
        <= queue.maximum_bit_per_s
        <= whole_bit_per_s
        < TOO_FAST_BIT_PER_S
    ):
        return False
    return queue.burst_bit is None or queue.burst_bit >= 8 * (mtu_bytes + BURST_BEYOND_MTU_BYTES)


def words(link: str, number: int, qos: Qos) -> list[str]:
    """What `ovs-vsctl` gets as the QoS of a port, the `number`th of its transaction.

    >>> said = words("tap0", 1, Qos("linux-htb", {"max-rate": 10**7}, (QosQueue(10**6, 10**7),)))
    >>> " ".join(said[:8])
    '-- set port tap0 qos=@qos1 -- --id=@qos1 create'
    >>> " ".join(said[-5:])
    '--id=@queue1.0 create queue other_config:min-rate=1000000 other_config:max-rate=10000000'
    """
    out = [
        "--",
        "set",
        "port",
        link,
        f"qos=@qos{number}",
        "--",
        f"--id=@qos{number}",
        "create",
        "qos",
        f"type={qos.kind}",
    ]
    out += [f"other_config:{key}={value}" for key, value in qos.config.items()]
    out += [f"queues:{place}=@queue{number}.{place}" for place in range(len(qos.queues))]
    for place, entry in enumerate(qos.queues):
        out += ["--", f"--id=@queue{number}.{place}", "create", "queue"]
        said = {
            "min-rate": entry.minimum_bit_per_s, "max-rate": entry.maximum_bit_per_s,
            "burst": entry.burst_bit, "priority": entry.priority,
        }  # fmt: skip
        out += [f"other_config:{key}={value}" for key, value in said.items() if value is not None]
    return out
