"""Queues in front of link directions, checked against the catalogue's queue disciplines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from virtlab.catalogue import QDISCS
from virtlab.catalogue.kinds import LIMIT, choice, shown
from virtlab.catalogue.qdiscs import DEFAULT_QDISC
from virtlab.catalogue.queueing import PORT_PACKETS
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.world.classes import read_classes
from virtlab.units import nearest

COMMON = ("kind", "by", "limit")
CLASSED = ("classes", "match", "default")
_BY = choice("auto", "kernel", "virtlab")


class QueueSpec(NamedTuple):
    """A queue; `parameters` carry tc's names with a unit suffix, in SI units."""

    kind: str = DEFAULT_QDISC
    by: str = "auto"
    limit_packets: int | None = PORT_PACKETS
    limit_bytes: int | None = None
    parameters: Mapping[str, Any] = {}
    classes: Mapping[str, dict[str, Any]] = {}
    match: Sequence[dict[str, Any]] = ()
    default: str | None = None


def read_queue(at: Steps, written: Any, findings: Findings) -> QueueSpec:
    """What the file says of a queue: a kind, or a mapping with kind, by, limit and the kind's parameters."""
    if written is None:
        return QueueSpec()
    if isinstance(written, str):
        written = {"kind": written}
    if not isinstance(written, dict):
        findings.add(
            at, f"'{shown(written)}' is not a queue", "write e.g. '{kind: fifo, limit: 100 packets}'"
        )
        return QueueSpec()
    kind = written.get("kind", DEFAULT_QDISC)
    if not isinstance(kind, str) or kind not in QDISCS:
        cure = nearest(str(kind), QDISCS) or f"write one of {', '.join(QDISCS)}"
        findings.add((*at, "kind"), f"there is no queue discipline '{shown(kind)}'", cure)
        return QueueSpec()
    discipline = QDISCS[kind]
    by = "auto"
    limits: dict[str, int] = {}
    parameters: dict[str, Any] = {}
    known = [parameter.name for parameter in discipline.parameters]
    classed = "classes" in written and bool(discipline.classes)
    if not classed and not discipline.bare:
        findings.add(at, f"{kind} has no classes", "write e.g. 'classes: {first: {}, rest: {}}'")
        return QueueSpec()
    for key, value in written.items():
        if classed and key in CLASSED:
            continue
        if classed and key not in ("kind", "by"):
            findings.add(
                (*at, key), f"'{shown(key)}' belongs to the classes", "write it in each class", key=True
            )
            continue
        try:
            parameter = discipline.parameter(key)
            if key == "by":
                by = _BY.parse(value)
            elif key == "limit":
                name, number = LIMIT.parse(value)
                if name.removeprefix("limit_") not in discipline.limit:
                    units = " or ".join(discipline.limit)
                    raise ValueError(f"the limit of {kind} is a number of {units}; write it in {units}")
                limits[name] = number
            elif parameter is not None:
                parameters |= parameter.plan_values(value)
            elif key != "kind":
                cure = nearest(key, [*COMMON, *known]) or f"it has {', '.join([*COMMON, *known])}"
                findings.add((*at, key), f"'{shown(key)}' is not a parameter of {kind}", cure, key=True)
        except ValueError as error:
            findings.add_text((*at, key), str(error))
    if classed:
        classes, rules, default = read_classes(at, written, discipline, findings)
        return QueueSpec(kind, by, None, None, {}, classes, rules, default)
    for parameter in discipline.parameters:
        if parameter.required and parameter.name not in written:
            cure = f"write e.g. '{parameter.name}: {parameter.kind.example}' ({parameter.meaning})"
            findings.add(at, f"'{parameter.name}' of {kind} is missing", cure)
    if by == "kernel" and parameters.get("ideal"):
        findings.add(
            (*at, "ideal"), "the kernel has its own control law", "write 'by: virtlab', or remove it"
        )
    limits = limits or dict(discipline.default)
    return QueueSpec(kind, by, limits.get("limit_packets"), limits.get("limit_bytes"), parameters)
