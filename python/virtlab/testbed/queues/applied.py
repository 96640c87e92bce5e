"""Disciplines, classes and filters at a port: what the kernel tells of them, compared with what it was told.

All that is read back is compared. Two values are the same where only the kernel's own units lie between them:

- rates and slopes are whole bytes per second (`struct tc_ratespec`, `struct tc_service_curve`);
- CoDel's times are whole microseconds on the wire and steps of 1024 ns inside (`CODEL_SHIFT`, include/net/codel.h);
- a curve's first piece is whole microseconds long, and without a length there is none;
- a burst is the time that it lasts at its rate, in ticks of 64 ns (`PSCHED_SHIFT`, include/net/pkt_sched.h), which tbf
  finds by multiplying and shifting: it comes back smaller by what a tick holds, and a byte;
- netem's loss is a share of 2**32 - 1;
- SFQ has no more flows than its divisor and limit have room for, and no more packets than its flows may hold
  (`sfq_change`, net/sched/sch_sfq.c); what it does is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from ipaddress import ip_network
from typing import Any

from virtlab.errors import MachineError
from virtlab.testbed.build.operations import (
    U32,
    Bfifo,
    ClassAdd,
    Codel,
    Discipline,
    DrrClassAdd,
    FilterAdd,
    Flower,
    FqCodel,
    Hfsc,
    HfscClassAdd,
    Htb,
    Netem,
    Operation,
    Pfifo,
    Prio,
    QdiscAdd,
    QueueLengthSet,
    Sfq,
    Tbf,
)

QUEUEING = (QdiscAdd, ClassAdd, HfscClassAdd, DrrClassAdd, FilterAdd, QueueLengthSet)
TICK_NS = 64
LOSS_STEP = 1 / (2**32 - 1)
SFQ_FLOWS, SFQ_DEPTH, SFQ_LIMIT = 128, 127, 127  # the kernel's own
CURVES = ("real_time", "link_share", "upper_limit")
NOT_TAKEN = (
    "write a value that this kernel keeps, or 'by: virtlab', or take the lab VM's kernel: "
    "'virtlab run FILE --in lab-vm'"
)
NOT_THERE = (
    "run it again; when it stays away, 'virtlab doctor' says what this kernel lacks, and "
    "'virtlab run FILE --in lab-vm' has a kernel with all of it"
)
Span = tuple[Any, Any, Any]  # what was planned; the least and the most that is the same to the kernel
Spans = dict[str, Span]


def same(value: Any) -> Span:
    """Nothing else will do."""
    return value, value, value


def whole_bytes(rate_bit_per_s: int) -> Span:
    """A rate, which the kernel counts in whole bytes per second."""
    kept = rate_bit_per_s // 8 * 8
    return rate_bit_per_s, kept, kept


def burst(burst_bytes: int, rate_bit_per_s: int, overhead_bytes: int = 0) -> Span:
    """A burst, which the kernel counts in ticks of its rate.

    >>> burst(15_380, 100_000_000)
    (15380, 15378, 15380)
    """
    tick = TICK_NS + 1  # and the time itself is in whole nanoseconds
    lasts = burst_bytes * 8_000_000_000 - tick * rate_bit_per_s  # in 1/rate ns
    least = lasts * (rate_bit_per_s // 8) // (rate_bit_per_s * 1_000_000_000) - 1
    return burst_bytes, max(0, least), burst_bytes + overhead_bytes


def codel_time(time_ns: int) -> Span:
    """A time of CoDel as the kernel tells it.

    >>> codel_time(5_000_000)
    (5000000, 4999000, 4999000)
    """
    kept = (time_ns // 1000 * 1000 >> 10 << 10) // 1000 * 1000
    return time_ns, kept, kept


def of_discipline(discipline: Discipline) -> Spans:
    """What the kernel has to tell of a discipline; what was left to the kernel is not in it."""
    found: Spans = {"kind": same(discipline.kind)}
    match discipline:
        case Pfifo(limit_packets=packets):
            found["limit_packets"] = same(packets)
        case Bfifo(limit_bytes=octets):
            found["limit_bytes"] = same(octets)
        case Htb():
            found["default_class"] = same(discipline.default_class)
            found["direct_limit_packets"] = same(discipline.direct_limit_packets)
        case Hfsc():
            found["default_class"] = same(discipline.default_class)
        case Prio():
            found |= {"bands": same(discipline.bands), "band": same(discipline.band)}
        case Tbf(rate_bit_per_s=rate):
            found["rate_bit_per_s"] = whole_bytes(rate)
            found["burst_bytes"] = burst(discipline.burst_bytes, rate, discipline.overhead_bytes)
            for key in ("limit_bytes", "overhead_bytes", "minimum_bytes"):
                found[key] = same(getattr(discipline, key))
        case Netem():
            lost = discipline.loss_ratio or 0.0
            found["loss_ratio"] = lost, lost - LOSS_STEP, lost + LOSS_STEP
            found["rate_bit_per_s"] = whole_bytes(discipline.rate_bit_per_s)
            for key in ("limit_packets", "delay_ns", "overhead_bytes"):
                found[key] = same(getattr(discipline, key))
        case Codel() | FqCodel():
            for key in ("target_ns", "interval_ns"):
                time_ns = getattr(discipline, key)
                if time_ns is not None:
                    found[key] = codel_time(time_ns)
            for key in (
                "limit_packets", "ecn", "flows", "quantum_bytes", "memory_limit_bytes", "drop_batch",
            ):  # fmt: skip
                found |= _said(discipline, key)
        case Sfq():
            for key in ("quantum_bytes", "perturb_ns", "depth", "divisor"):
                found |= _said(discipline, key)
            found |= _sfq_room(discipline)
    return found


def _said(discipline: Discipline, key: str) -> Spans:
    value = getattr(discipline, key, None)
    return {} if value is None else {key: same(value)}


def _sfq_room(sfq: Sfq) -> Spans:
    """Flows and packets, in the order in which the kernel bounds them by one another."""
    flows = sfq.flows or SFQ_FLOWS
    if sfq.divisor is not None:
        flows = min(flows, sfq.divisor)
    limit = min(sfq.limit_packets or SFQ_LIMIT, (sfq.depth or SFQ_DEPTH) * flows)
    if sfq.limit_packets is not None:
        flows = min(flows, limit)
    found: Spans = {}
    if sfq.limit_packets is not None:
        found["limit_packets"] = sfq.limit_packets, limit, limit
    if sfq.flows is not None:
        found["flows"] = sfq.flows, flows, flows
    return found


def of_operation(op: Operation) -> Spans:
    """What the kernel has to tell of a discipline or a class that was added."""
    match op:
        case QdiscAdd():
            return {**of_discipline(op.discipline), "parent": same(op.parent)}
        case ClassAdd(rate_bit_per_s=rate, ceil_bit_per_s=ceil, burst_bytes=octets):
            return {
                "kind": same("htb"),
                "parent": same(op.parent),
                "rate_bit_per_s": whole_bytes(rate),
                "ceil_bit_per_s": whole_bytes(ceil),
                "burst_bytes": burst(octets, rate),
                "cburst_bytes": burst(octets if op.cburst_bytes is None else op.cburst_bytes, ceil),
                "prio": same(op.prio or 0),
                "overhead_bytes": same(op.overhead_bytes),
                "minimum_bytes": same(op.minimum_bytes),
                **({} if op.quantum_bytes is None else {"quantum_bytes": same(op.quantum_bytes)}),
            }
        case HfscClassAdd():
            curves = {name: same(curve(getattr(op, name))) for name in CURVES}
            return {"kind": same("hfsc"), "parent": same(op.parent), **curves}
        case DrrClassAdd():
            kept = {"quantum_bytes": same(op.quantum_bytes)}
            return {"kind": same("drr"), "parent": same(op.parent), **kept}
    return {}


def curve(given: Iterable[int] | None) -> tuple[int, int, int]:
    """A service curve as the kernel keeps it; none is one without slopes.

    >>> curve((8, 2500, 15)), curve((0, 900, 16)), curve(None)
    ((8, 2000, 8), (16, 0, 16), (0, 0, 0))
    """
    first, length_ns, second = given or (0, 0, 0)
    first, length_ns, second = first // 8 * 8, length_ns // 1000 * 1000, second // 8 * 8
    return (first if length_ns else second), length_ns, second


def differences(spans: Spans, entry: Mapping[str, Any]) -> Iterator[str]:
    """In words, what the kernel tells otherwise than it was told. `entry`: a discipline or class as read back."""
    for key, (planned, least, most) in spans.items():
        found = entry.get(key)
        if key in CURVES:
            found = curve(found)
        elif key == "parent" and found == "root" and str(planned).endswith(":"):
            continue  # classes of HTB and DRR without a class above them
        elif key in ("loss_ratio", "rate_bit_per_s", "overhead_bytes") and found is None:
            found = 0  # netem without them
        if found is None or not least <= found <= most:
            has = "not told" if found is None else found
            yield f"{key} of {entry['handle']} is {has} in the kernel, not {planned} as planned"


def by_handle(has: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Disciplines and classes of an interface. HFSC has a class of its discipline's own handle, which comes after it."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in has["qdiscs"]:
        found.setdefault(each["handle"], each)
    return found


def check_operations(where: str, operations: Iterable[Operation], link: str, has: Mapping[str, Any]) -> None:
    """Compares a port with what was done there. `has`: the interface as read back. MachineError with all that differs."""
    entries = by_handle(has)
    absent: list[str] = []
    wrong: list[str] = []
    for op in operations:
        if isinstance(op, FilterAdd):
            if not _filtered(op, has.get("filters") or ()):
                absent.append(f"filter {op.preference} of {op.parent} to {op.target} of {_words(op.matcher)}")
            continue
        if isinstance(op, QueueLengthSet):
            spans: Spans = {"queue_length_packets": same(op.packets)}
            wrong += differences(spans, {**has, "handle": "the interface"})
            continue
        handle = getattr(op, "handle", None)
        if handle in entries:
            wrong += differences(of_operation(op), entries[handle])
        else:
            absent.append(str(handle))
    if absent:
        also = f", and {', '.join(wrong)}" if wrong else ""
        raise MachineError(where, f"the kernel has no {', no '.join(absent)} at {link}{also}", NOT_THERE)
    if wrong:
        raise MachineError(where, f"at {link} {', '.join(wrong)}", NOT_TAKEN)


def _filtered(op: FilterAdd, filters: Iterable[Mapping[str, Any]]) -> bool:
    about = {
        "kind": op.matcher.kind, "parent": op.parent, "preference": op.preference, "protocol": op.protocol,
        "target": op.target,
    }  # fmt: skip
    return any(about.items() <= each.items() and _looks_at(op.matcher, each) for each in filters)


def _looks_at(matcher: U32 | Flower, told: Mapping[str, Any]) -> bool:
    """Whether a filter looks at the same as the matcher, and at nothing else."""
    if isinstance(matcher, U32):
        return bool(told.get("keys") == [list(key) for key in matcher.keys])
    return bool(_fields(asdict(matcher)) == _fields(told.get("fields") or {}))


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of flower that say something: the kernel does not tell a network that all addresses are in."""
    found = {key: value for key, value in given.items() if value is not None}
    for key in {"source", "destination"} & set(found):
        with suppress(ValueError):  # a mask that is no prefix is no network of ours
            found[key] = ip_network(found[key], strict=False)
            if found[key].prefixlen == 0:
                del found[key]
    return found


def _words(matcher: U32 | Flower) -> str:
    """What a filter looks at.

    >>> _words(U32(((0, 0xFC0000, 0xB80000),))), _words(Flower(5, dscp=46))
    ('u32 0xb80000/0xfc0000 at 0', 'flower vlan_priority 5 dscp 46')
    """
    if isinstance(matcher, U32):
        said = " and ".join(f"{value:#x}/{mask:#x} at {offset}" for offset, mask, value in matcher.keys)
    else:
        said = " ".join(f"{key} {value}" for key, value in asdict(matcher).items() if value is not None)
    return f"{matcher.kind} {said}"
