"""What a timeline asks of services: operations that it calls, and conditions that a wait repeats until one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from virtlab.catalogue.kinds import POSITIVE_DURATION, TEXT, choice, shown
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.work.services import ServiceSpec
from virtlab.units import nearest

_OPERATOR = choice("<", "<=", ">=", ">", "==")
_UNTIL = "write e.g. '{call: db.ready, every: 200 ms}'"


def read_call(
    at: Steps, values: Mapping[str, Any], findings: Findings, services: Mapping[str, ServiceSpec]
) -> dict[str, Any]:
    """Service, operation and arguments of a `call`, as the Plan has them; mistakes are added."""
    name, op, args = values.get("service"), values.get("op"), values.get("args")
    service = services.get(str(name))
    if service is None:
        _unknown((*at, "service"), "service", name, services, findings)
        return {}
    operations = service.declaration.operations
    if not isinstance(op, str) or op not in operations:
        what = "'op' is missing" if op is None else f"{service.kind} has no operation '{shown(op)}'"
        cure = nearest(str(op), operations) or f"it has {', '.join(operations) or 'none'}"
        findings.add((*at, "op") if op is not None else at, what, cure)
    if args is not None and (
        not isinstance(args, dict) or set(args) != {"guest"} or args["guest"] not in service.on
    ):
        cure = f"write '{{guest: {service.on[0]}}}', one of its guests, or leave it out for all"
        findings.add((*at, "args"), "is not one of the service's guests", cure)
    return {"service": name, "op": op, "args": dict(args or {}) if isinstance(args, dict) else {}}


def read_until(
    at: Steps, value: Any, findings: Findings, services: Mapping[str, ServiceSpec]
) -> dict[str, Any] | None:
    """The condition of a wait, as the Plan has it; None when it is wrong."""
    if isinstance(value, dict) and "call" in value and set(value) <= {"call", "every"}:
        return _progress(at, value, findings, services)
    if (
        not isinstance(value, dict)
        or not set(value) <= {"series", "op", "value", "every"}
        or "series" not in value
    ):
        findings.add(at, "is not a condition", _UNTIL)
        return None
    number = value.get("value")
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        findings.add(
            at, f"'{shown(number)}' is not a number", "write e.g. 'value: 0.1', in the unit of the series"
        )
        return None
    condition = {"value": float(number)}
    for key, parse in (("series", TEXT.parse), ("op", _OPERATOR.parse)):
        try:
            condition[key] = parse(value.get(key))
        except ValueError as error:
            findings.add_text((*at, key), str(error))
    return condition | _every(at, value, findings)


def _progress(
    at: Steps, value: Mapping[str, Any], findings: Findings, services: Mapping[str, ServiceSpec]
) -> dict[str, Any] | None:
    written = value["call"]
    name, dot, progress = written.partition(".") if isinstance(written, str) else ("", "", "")
    service = services.get(name)
    if not dot:
        findings.add((*at, "call"), f"'{shown(written)}' is not SERVICE.PROGRESS", _UNTIL)
    elif service is None:
        _unknown((*at, "call"), "service", name, services, findings)
    elif progress not in service.declaration.progresses:
        known = service.declaration.progresses
        cure = nearest(progress, known) or f"it has {', '.join(known) or 'none'}"
        findings.add((*at, "call"), f"{service.kind} has no progress '{shown(progress)}'", cure)
    else:
        return {"call": written} | _every(at, value, findings)
    return None


def _every(at: Steps, value: Mapping[str, Any], findings: Findings) -> dict[str, int]:
    if "every" not in value:
        return {}
    try:
        return {"every_ns": POSITIVE_DURATION.parse(value["every"])}
    except ValueError as error:
        findings.add_text((*at, "every"), str(error))
        return {}


def _unknown(at: Steps, what: str, name: Any, known: Iterable[str], findings: Findings) -> None:
    """A name of nothing; of a service that is wrong itself nothing more is said."""
    names = list(known)
    if name is None:
        findings.add(at[:-1], f"'{what}' is missing", "name a service of the file")
    elif not findings.declares("services", name):
        cure = nearest(str(name), names) or (f"there are {', '.join(names)}" if names else "add 'services'")
        findings.add(at, f"there is no {what} '{shown(name)}'", cure)
