"""What a timeline asks of services: operations that it calls, and conditions that a wait repeats until one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from virtlab.catalogue.kinds import POSITIVE_DURATION, TEXT, choice, shown
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.services import ServiceSpec
from virtlab.metrics.declared import DECLARED, PROGRESS, base_unit
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
    elif args is None and isinstance(op, str) and op in operations and operations[op].of_one:
        cure = f"write 'args: {{guest: {service.on[0]}}}'"
        findings.add(at, f"'{op}' needs a guest", cure)
    return {"service": name, "op": op, "args": dict(args or {}) if isinstance(args, dict) else {}}


def read_until(
    at: Steps,
    value: Any,
    findings: Findings,
    services: Mapping[str, ServiceSpec],
    roles: Mapping[str, RoleSpec],
) -> dict[str, Any] | None:
    """The condition of a wait, as the Plan has it; None when it is wrong."""
    if isinstance(value, dict) and "call" in value and set(value) <= {"call", "every"}:
        return _progress(at, value, findings, services)
    polled = [key for key in ("series", "metric") if isinstance(value, dict) and key in value]
    if len(polled) != 1 or not set(value) <= {*polled, "op", "value", "every"}:
        findings.add(at, "is not a condition", _UNTIL)
        return None
    (key,) = polled
    number = value.get("value")
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        findings.add(
            at, f"'{shown(number)}' is not a number", f"write e.g. 'value: 0.1', in the unit of the {key}"
        )
        return None
    condition: dict[str, Any] = {"value": float(number)}
    for name, parse in ((key, TEXT.parse), ("op", _OPERATOR.parse)):
        try:
            condition[name] = parse(value.get(name))
        except ValueError as error:
            findings.add_text((*at, name), str(error))
    if isinstance(condition.get("metric"), str):
        scale = _scale((*at, "metric"), condition["metric"], findings, roles)
        if scale is None:
            return None
        condition["value"] *= scale
    return condition | _every(at, value, findings)


def _scale(at: Steps, written: str, findings: Findings, roles: Mapping[str, RoleSpec]) -> float | None:
    """How many of its SI unit one of a metric's is, as the role writes it; None where there is no such metric."""
    name, dot, key = written.partition(".")
    role = roles.get(name)
    if not dot:
        findings.add(at, f"'{shown(written)}' is not ROLE.METRIC", "write e.g. 'client.rate'")
    elif role is None:
        if not findings.declares("roles", name):
            cure = nearest(name, roles) or (f"there are {', '.join(roles)}" if roles else "add 'roles'")
            findings.add(at, f"there is no role '{shown(name)}'", cure)
    elif role.declaration.command and key in role.declared:
        _, scale = base_unit(str(role.parameters[DECLARED][key]["unit"]))
        return scale
    elif not role.declaration.command and key == PROGRESS:
        return 1.0
    else:
        known = list(role.declared) if role.declaration.command else [PROGRESS]
        cure = nearest(key, known) or f"it has {', '.join(known) or 'none; declare one in its metrics'}"
        findings.add(at, f"'{shown(key)}' is not known of '{name}' while it runs", cure)
    return None


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


def _unknown(at: Steps, key: str, name: Any, known: Iterable[str], findings: Findings) -> None:
    """A name of nothing; of a service that is wrong itself nothing more is said."""
    names = list(known)
    if name is None:
        findings.add(at[:-1], f"'{key}' is missing", "name a service of the file")
    elif not findings.declares("services", name):
        cure = nearest(str(name), names) or (f"there are {', '.join(names)}" if names else "add 'services'")
        findings.add(at, f"there is no {key} '{shown(name)}'", cure)
