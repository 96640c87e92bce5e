"""Roles: named workload instances, checked against the catalogue's declaration of their workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.declaration import Workload
from virtlab.catalogue.kinds import FLAG, choice, shown
from virtlab.experiment.read.brought import Brought, filled
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.leaves import NAME
from virtlab.experiment.read.traces import Traces
from virtlab.experiment.read.tree import Node
from virtlab.experiment.work.chosen import chosen
from virtlab.metrics import Metric, declared_of
from virtlab.units import nearest

RESERVED = ("settle", "drain")  # actions of a derived timeline, beside one per role and its 'stop-ROLE'
COMMON = ("workload", "from", "to", "as", "meter", "family", "enabled")


class RoleSpec(NamedTuple):
    """A role of one design point; `parameters` carry their Plan names and SI values.

    `target` is empty if the workload sends no traffic, or sends it to an address outside.
    """

    name: str
    workload: str
    source: str
    target: str
    part: Literal["measure", "load"]
    parameters: Mapping[str, Any] = {}
    given: frozenset[str] = frozenset()  # parameters that the file states, by file name
    meter: str = "virtlab"
    family: str | None = None
    active: bool = True
    service: str | None = None  # at which it ends, on the guest `target`

    @property
    def declaration(self) -> Workload:
        """The catalogue's entry."""
        return WORKLOADS[self.workload]

    @property
    def declared(self) -> Mapping[str, Metric]:
        """The metrics that it has besides those of its workload."""
        return declared_of(self.parameters)


def read_roles(findings: Findings, traces: Traces, brought: Brought) -> dict[str, RoleSpec]:
    """The section `roles` of a resolved tree; `traces` and files `brought` are those that they may name.

    Roles with mistakes are left out; their mistakes are added.
    """
    node = findings.root.get("roles")
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        findings.add(
            ("roles",),
            "must map names to workloads",
            "write e.g. 'probe: {workload: rtt, from: h1.g1, to: h2.g1}'",
        )
        return {}
    roles = {}
    for name, entry in node.value.items():
        role = _read_role(name, entry, findings, traces, brought)
        if role is not None:
            roles[name] = role
    return roles


def _read_role(
    name: str, node: Node, findings: Findings, traces: Traces, brought: Brought
) -> RoleSpec | None:
    at: Steps = ("roles", name)
    if not NAME.match(name):
        cure = "begin with a letter; use letters, digits, _ and -"
        findings.add(at, f"'{shown(name)}' is not a valid name of a role", cure, key=True)
        return None
    if name in RESERVED or name.startswith("stop-"):
        findings.add(at, f"'{name}' is a word of the timeline", "give the role another name", key=True)
        return None
    if not isinstance(node.value, dict):
        findings.add(
            at, f"'{shown(node.plain())}' is not a mapping", "write '{workload: rtt, from: h1.g1, to: h2.g1}'"
        )
        return None
    workload = chosen(at, node, "workload", "workload", WORKLOADS, findings, _meant)
    if workload is None:
        return None
    watch = findings.watch()
    common = _common(at, node, workload, findings)
    parameters = _parameters(at, node, workload, common, findings)
    if parameters is None or watch.wrong:
        return None
    filled(at, parameters, brought, findings)
    given = frozenset(key for key in node.value if key not in COMMON)
    if workload.traced is not None and not _traced(at, parameters, workload.traced, given, traces, findings):
        return None
    if not _across(at, parameters, workload, findings):
        parameters = dict(workload.lowered(parameters))
    active = common["enabled"] and not workload.idle(parameters)
    return RoleSpec(
        name, workload.name, common["from"], common["to"], common["as"], parameters, given,
        common["meter"], common["family"], active,
    )  # fmt: skip


def _meant(word: str) -> str:
    """The workloads that a tool of that name measures, else the one of the nearest name.

    >>> _meant("ping"), _meant("psing")
    ("did you mean 'rtt'? 'meter: ping' takes the tool itself", "did you mean 'psping'?")
    """
    tools = [f"'{name}'" for name, workload in WORKLOADS.items() if word.lower() in workload.meters[1:]]
    if tools:
        return f"did you mean {' or '.join(tools)}? 'meter: {word.lower()}' takes the tool itself"
    return nearest(word, WORKLOADS)


def _common(at: Steps, node: Node, workload: Workload, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {
        "as": workload.part,
        "meter": "virtlab",
        "family": None,
        "enabled": True,
        "from": "",
        "to": "",
    }
    kinds = {
        "as": choice("measure", "load"), "meter": choice(*workload.meters), "family": choice("ipv4",
        "ipv6"), "enabled": FLAG,
    }  # fmt: skip
    for key, kind in kinds.items():
        entry = node.get(key)
        if entry is None:
            continue
        try:
            values[key] = kind.parse(entry.plain())
        except ValueError as error:
            findings.add_text((*at, key), str(error))
    _guests(at, node, workload, values, findings)
    if values["as"] == "load" and workload.part == "measure" and workload.parameter("duration") is None:
        findings.add(
            (*at, "as"), f"{workload.name} cannot be a load", "take a workload with a duration, or burst_load"
        )
    if values["as"] == "measure" and workload.part == "load":
        findings.add(
            (*at, "as"), f"{workload.name} does not end by itself and cannot be measured alone", "remove 'as'"
        )
    return values


def _guests(at: Steps, node: Node, workload: Workload, values: dict[str, Any], findings: Findings) -> None:
    """The ends; a workload that sends no traffic has one."""
    for key in ("from", "to"):
        entry = node.get(key)
        if workload.alone and key == "to":
            if entry is not None:
                findings.add((*at, "to"), f"{workload.name} sends no traffic", "remove 'to'", key=True)
            continue
        if entry is None:
            cure = "name a guest, e.g. h1.g1"
            if key == "to" and workload.at_service is not None:
                cure += ", or a service of 'services'"
            findings.add(at, f"'{key}' is missing", cure, key=True)
        elif not isinstance(entry.value, str):
            findings.add((*at, key), f"'{shown(entry.plain())}' is not a guest", "name one guest, e.g. h1.g1")
        else:
            values[key] = entry.value


def _parameters(
    at: Steps, node: Node, workload: Workload, common: Mapping[str, Any], findings: Findings
) -> dict[str, Any] | None:
    assert isinstance(node.value, dict)
    known = [parameter.name for parameter in workload.parameters]
    wrong = False
    for key in node.value:
        if key not in known and key not in COMMON:
            cure = nearest(key, [*known, *COMMON]) or f"it has {', '.join(known)}"
            findings.add((*at, key), f"'{shown(key)}' is not a parameter of {workload.name}", cure, key=True)
            wrong = True
    values: dict[str, Any] = {}
    for parameter in workload.parameters:
        entry = node.get(parameter.name)
        written = entry.plain() if entry is not None else parameter.default
        if parameter.name == "duration" and common["as"] == "load":
            if entry is not None:
                findings.add(
                    (*at, "duration"), "a load ends when the measurement does", "remove 'duration'", key=True
                )
            written = parameter.default
        if entry is None and written is None:
            if parameter.required and not parameter.in_image:  # whether its guest has one is known later
                cure = f"write e.g. '{parameter.name}: {parameter.kind.example}' ({parameter.meaning})"
                findings.add(at, f"'{parameter.name}' of {workload.name} is missing", cure, key=True)
                wrong = True
            continue
        try:
            values |= parameter.plan_values(written, at_start=True)
        except ValueError as error:
            findings.add_error((*at, parameter.name), error)
            wrong = True
    return None if wrong else values


def _traced(
    at: Steps,
    values: dict[str, Any],
    key: str,
    given: frozenset[str],
    traces: Traces,
    findings: Findings,
) -> bool:
    """Whether the trace is there that the role names, if it names one; its times then stand for its name.

    Unless the file says how long requests are due, they are so for one pass of the trace.
    """
    name = values.pop(key, None)
    if name is None:
        return True
    times = traces.get(name)
    if times is None:
        if name not in traces:
            cure = "put that file beside the experiment file, or its lines into the section 'traces'"
            findings.add((*at, key), f"there is no trace '{name}'", cure)
        return False
    values[f"{key}_ns"] = list(times)
    if "duration" not in given and "duration_ns" in values:
        values["duration_ns"] = values.get(f"{key}_period_ns", times[-1] + 1)
    return True


def _across(at: Steps, values: Mapping[str, Any], workload: Workload, findings: Findings) -> bool:
    """Whether the parameters contradict each other; the mistakes are added."""
    wrong = workload.check(values)
    for parameter, text in wrong:
        findings.add_text((*at, parameter), text)
    return bool(wrong)
