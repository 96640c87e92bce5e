"""Queue disciplines at the ports of an Open vSwitch through its own database: Port -> QoS -> Queue.

Open vSwitch sets up tc itself and takes away what it did not set up, so at its ports there are two ways: a QoS
record, where it has a type that says the same (`linux-htb`, `linux-hfsc` with queues of minimum and maximum rate,
`linux-sfq`, `linux-codel`, `linux-fq_codel`, `linux-netem`), else tc by us, with the type `linux-noop` that has it
leave the port alone.

A record that is silent means Open vSwitch's own (SFQ's hash changes every 10 s, a quantum is the MTU), so it is
asked only for what it can be told in full.

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

from virtlab.plan import Match, Queue, QueueClass

TYPES = {
    "htb": "linux-htb",
    "hfsc": "linux-hfsc",
    "sfq": "linux-sfq",
    "codel": "linux-codel",
    "fq_codel": "linux-fq_codel",
    "netem": "linux-netem",
}
NOTHING_OF_OURS = "linux-noop"
ROOT = "1:"
# Plan's parameter -> key of the record, and how many of the Plan's units one of the record's is (loss: percent).
_SAID: Mapping[str, Mapping[str, tuple[str, float]]] = {
    "sfq": {"quantum_bytes": ("quantum", 1), "perturb_ns": ("perturb", 10**9)},
    "codel": {
        "limit_packets": ("limit", 1),
        "target_ns": ("target", 1000),
        "interval_ns": ("interval", 1000),
    },
    "fq_codel": {
        "limit_packets": ("limit", 1),
        "flows": ("flows", 1),
        "quantum_bytes": ("quantum", 1),
        "target_ns": ("target", 1000),
        "interval_ns": ("interval", 1000),
    },
    "netem": {"limit_packets": ("limit", 1), "delay_ns": ("latency", 1000), "loss_ratio": ("loss", 0.01)},
}
# What a record means that does not say it differs from the kernel's own (fq_codel's interval would be 1 s).
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "sfq": {},  # and a quantum of a full frame
    "codel": {"limit_packets": 1000, "target_ns": 5_000_000, "interval_ns": 100_000_000},
    "fq_codel": {
        "limit_packets": 10_240,
        "flows": 1024,
        "quantum_bytes": 1514,
        "target_ns": 5_000_000,
        "interval_ns": 100_000_000,
    },
    "netem": {"limit_packets": 1000},
}
# What a record has no word for and the kernel has of itself.
_KERNELS_OWN: Mapping[str, Mapping[str, bool]] = {
    "codel": {"ecn": False, "ideal": False},
    "fq_codel": {"ecn": True},
}
ETHERNET_HEADER_BYTES = 14
BURST_BEYOND_MTU_BYTES = (
    64  # the least burst of a queue of `linux-htb` is the MTU and this (lib/netdev-linux.c)
)
WHOLE = "1:fffe"  # the class above all queues
TOO_FAST_BIT_PER_S = 8 << 32  # it keeps bytes per second in 32 bits, and what does not fit wraps around


@dataclass(frozen=True, slots=True)
class OvsQueue:
    """A queue of a QoS record: rates in bit/s; `priority`: the smallest borrows first."""

    minimum_bit_per_s: int
    maximum_bit_per_s: int
    burst_bit: int | None = None
    priority: int | None = None

    def options(self, kind: str) -> dict[str, Any]:
        """Options of the kernel's class that it is."""
        least, most = self.minimum_bit_per_s, self.maximum_bit_per_s
        if kind == "hfsc":
            return {"real_time": (0, 0, least), "link_share": (0, 0, least), "upper_limit": (0, 0, most)}
        found = {"rate_bit_per_s": least, "ceil_bit_per_s": most, "prio": self.priority or 0}
        if self.burst_bit is not None:
            found |= {"burst_bytes": self.burst_bit // 8, "cburst_bytes": self.burst_bit // 8}
        return found

    @property
    def borrows(self) -> bool:
        """Whether it may send more than its own."""
        return self.maximum_bit_per_s != self.minimum_bit_per_s


@dataclass(frozen=True, slots=True)
class Qos:
    """A QoS record. `names`: class of the Plan to number of its queue; `config`: what `other_config` says.

    `match`: rules that OpenFlow obeys; `whole`: class of the Plan that 1:fffe is.
    """

    kind: str
    config: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[OvsQueue, ...] = ()
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
        known = _SAID[self.kind.removeprefix("linux-")]
        return {key: self.config[word] * unit for key, (word, unit) in known.items() if word in self.config}


LEFT_ALONE = Qos(NOTHING_OF_OURS)


def qos_of(queue: Queue, rate_bit_per_s: int | None, mtu_bytes: int = 1500) -> Qos | None:
    """The record that says what the queue says at a port of that MTU; None where Open vSwitch has no words for it.

    >>> qos_of(Queue(kind="htb", parameters={"rate_bit_per_s": 10**7}), None).queues
    (OvsQueue(minimum_bit_per_s=10000000, maximum_bit_per_s=10000000, burst_bit=None, priority=None),)
    >>> qos_of(Queue(kind="fifo"), None) is None
    True
    """
    if rate_bit_per_s is not None:
        return None
    if queue.kind in ("htb", "hfsc"):
        return _rated(queue, mtu_bytes)
    if queue.kind not in _SAID or queue.classes:
        return None
    said = {**_DEFAULTS[queue.kind], **queue.parameters}
    if queue.limit_packets is not None:
        said["limit_packets"] = queue.limit_packets
    words = _SAID[queue.kind]
    if queue.kind == "sfq":
        if said.get("limit_packets", 127) == 127:
            said.pop("limit_packets", None)  # the kernel's own, which it cannot say
        if not said.get("perturb_ns"):
            return None  # it cannot say 'never'
        said.setdefault("quantum_bytes", mtu_bytes + ETHERNET_HEADER_BYTES)
    config: dict[str, int] = {}
    for key, value in said.items():
        if _KERNELS_OWN.get(queue.kind, {}).get(key) is value:
            continue
        if key not in words:
            return None
        whole = round(value / words[key][1], 9)
        if whole != int(whole):
            return None  # a record has whole numbers only
        config[words[key][0]] = int(whole)
    return Qos(TYPES[queue.kind], config)


def _rated(queue: Queue, mtu_bytes: int) -> Qos | None:
    """Queues with a minimum and a maximum rate, the default first."""
    classes = dict(queue.classes) or {"all": QueueClass(parameters=queue.parameters)}
    default = queue.default if queue.classes else "all"
    above = _above(queue.kind, classes)
    leaves = {name: entry for name, entry in classes.items() if name != above}
    if any(entry.parent != above for entry in leaves.values()):
        return None  # it has one level
    names = [str(default), *sorted(name for name in leaves if name != default)]
    queues = [_queue(queue.kind, classes[name].parameters) for name in names]
    if any(entry is None for entry in queues):
        return None
    found = tuple(entry for entry in queues if entry is not None)
    if above is not None:
        whole = int(classes[above].parameters["rate_bit_per_s"])
    elif queue.kind == "htb" and any(entry.borrows for entry in found):
        return None
    else:
        whole = sum(entry.maximum_bit_per_s for entry in found)
    if not all(_exact(queue.kind, entry, whole, mtu_bytes) for entry in found):
        return None
    numbers = {name: number for number, name in enumerate(names)} if queue.classes else {}
    return Qos(TYPES[queue.kind], {"max-rate": whole}, found, numbers, whole=above)


def _above(kind: str, classes: Mapping[str, QueueClass]) -> str | None:
    """The class that all others borrow from, where a record has words for it: a rate, and nothing else."""
    first = [name for name, entry in classes.items() if entry.parent is None]
    if kind != "htb" or len(first) != 1 or len(classes) == 1:
        return None
    said = classes[first[0]].parameters
    plain = set(said) <= {"rate_bit_per_s", "ceil_bit_per_s"}
    return first[0] if plain and len(set(said.values())) == 1 else None


def _exact(kind: str, queue: OvsQueue, whole_bit_per_s: int, mtu_bytes: int) -> bool:
    """Whether Open vSwitch keeps a queue's values as they are.

    >>> [_exact("htb", OvsQueue(rate, rate), 10**7, 1500) for rate in (11_999, 12_000, 10**7, 10**7 + 8)]
    [False, True, True, False]
    """
    least = 8 * (mtu_bytes if kind == "htb" else 1)  # per second
    if (
        not least
        <= queue.minimum_bit_per_s
        <= queue.maximum_bit_per_s
        <= whole_bit_per_s
        < TOO_FAST_BIT_PER_S
    ):
        return False
    return queue.burst_bit is None or queue.burst_bit >= 8 * (mtu_bytes + BURST_BEYOND_MTU_BYTES)


def _queue(kind: str, values: Mapping[str, Any]) -> OvsQueue | None:
    if kind == "htb":
        if not {"rate_bit_per_s", "ceil_bit_per_s", "burst_bytes", "prio"} >= set(values):
            return None
        rate = int(values["rate_bit_per_s"])
        burst = values.get("burst_bytes")
        return OvsQueue(
            rate,
            int(values.get("ceil_bit_per_s", rate)),
            None if burst is None else int(burst) * 8,
            values.get("prio"),
        )
    # linux-hfsc gives a queue its minimum as real-time and link-share curve, its maximum as upper limit.
    if set(values) != {"rt_m2_bit_per_s", "ls_m2_bit_per_s", "ul_m2_bit_per_s"}:
        return None
    if values["rt_m2_bit_per_s"] != values["ls_m2_bit_per_s"]:
        return None
    return OvsQueue(int(values["rt_m2_bit_per_s"]), int(values["ul_m2_bit_per_s"]))


def words(link: str, number: int, qos: Qos) -> list[str]:
    """What `ovs-vsctl` gets as the QoS of a port, the `number`th of its transaction.

    >>> said = words("tap0", 1, Qos("linux-htb", {"max-rate": 10**7}, (OvsQueue(10**6, 10**7),)))
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
