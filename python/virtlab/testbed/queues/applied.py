"""Disciplines, classes and filters at a port: what the kernel reports of them, compared with what it was given.

All that is read back is compared. Two values are the same where only the kernel's own units lie between them, as the
catalogue declares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from ipaddress import ip_network
from typing import Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.queueing import Kernel, Spans, by_units, curve, same
from virtlab.errors import MachineError
from virtlab.testbed.steps.operations import (
    U32,
    ClassAdd,
    Discipline,
    FilterAdd,
    Flower,
    Operation,
    QdiscAdd,
    QueueLengthSet,
)

QUEUEING = (QdiscAdd, ClassAdd, FilterAdd, QueueLengthSet)
NOT_TAKEN = (
    "write a value that this kernel keeps, or 'by: virtlab', or take the lab VM's kernel: "
    "'virtlab run FILE --in lab-vm'"
)
NOT_THERE = (
    "run it again; when it stays away, 'virtlab doctor' says what this kernel lacks, and "
    "'virtlab run FILE --in lab-vm' has a kernel with all of it"
)


def of_discipline(discipline: Discipline) -> Spans:
    """What the kernel has to tell of a discipline; what was left to the kernel is not in it."""
    return {
        "kind": same(discipline.kind),
        **by_units(discipline.options),
        **_kernel(discipline).spans(discipline.options),
    }


def of_class(discipline: Discipline) -> Spans:
    """The values that the kernel reports of a class, each with its check."""
    return {
        "kind": same(discipline.kind),
        **by_units(discipline.options),
        **_kernel(discipline).class_spans(discipline.options),
    }


def _kernel(discipline: Discipline) -> Kernel:
    return QDISCS[discipline.kind].kernel


def of_operation(op: Operation) -> Spans:
    """What the kernel has to tell of a discipline or a class that was added."""
    if isinstance(op, QdiscAdd | ClassAdd):
        of = of_discipline if isinstance(op, QdiscAdd) else of_class
        return {**of(op.discipline), "parent": same(op.parent)}
    return {}


def differences(spans: Spans, entry: Mapping[str, Any]) -> Iterator[str]:
    """In words, what the kernel reports other than it was given. `entry`: a discipline or class as read back."""
    for key, (planned, least, most) in spans.items():
        found = entry.get(key)
        if isinstance(planned, tuple):
            found = curve(found)
        elif key == "parent" and found == "root" and str(planned).endswith(":"):
            continue  # classes of HTB and DRR without a class above them
        elif key in ("loss_ratio", "rate_bit_per_s", "overhead_bytes") and found is None:
            found = 0  # netem without them
        if found is None or not least <= found <= most:
            has = "not told" if found is None else found
            yield f"{key} of {entry['handle']} is {has} in the kernel, not {planned} as planned"


def by_handle(has: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Disciplines and classes of an interface. HFSC has a class of its discipline's own handle, which comes after
    it.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for each in has["qdiscs"]:
        found.setdefault(each["handle"], each)
    return found


def check_operations(where: str, operations: Iterable[Operation], link: str, has: Mapping[str, Any]) -> None:
    """Compares a port with what was done there. `has`: the interface as read back. MachineError with all that
    differs.
    """
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


def _looks_at(matcher: U32 | Flower, reading: Mapping[str, Any]) -> bool:
    """Whether a filter looks at the same as the matcher, and at nothing else."""
    if isinstance(matcher, U32):
        return bool(reading.get("keys") == [list(key) for key in matcher.keys])
    return bool(_fields(asdict(matcher)) == _fields(reading.get("fields") or {}))


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of flower that say something: the kernel does not tell a network that all addresses are in."""
    found = {key: value for key, value in fields.items() if value is not None}
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
