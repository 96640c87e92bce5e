"""The metrics that a file's roles declare: claims, stopping rules and searches may name them beside virtlab's own.

They are those of the file as a whole, so what a metric is does not vary with a factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.declaration import Parameter
from virtlab.experiment.read.factors import references
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.tree import Node
from virtlab.lazy import pattern
from virtlab.metrics import METRICS, Metric, declared_of
from virtlab.metrics.declared import DECLARED

if TYPE_CHECKING:
    from virtlab.experiment.work.roles import RoleSpec
    from virtlab.metrics import Declared

CURE = "write them in the role itself, and give what varies a role of its own"


_USE = pattern(r"(?<![\w.-])([A-Za-z][\w-]*)\.([A-Za-z]\w*)\.[A-Za-z]")

Mistaken = Mapping[
    str, frozenset[str] | None
]  # role -> names whose declaration is wrong; None: which ones is unknown


def read_declared(findings: Findings) -> tuple[Declared, Mistaken]:
    """Role -> its own metrics, of the roles that declare any. What is wrong there is said where the role is read, and
    not again where a claim, a stopping rule or a search uses it.
    """
    node = findings.root.get("roles")
    found: dict[str, Mapping[str, Metric]] = {}
    mistaken: dict[str, frozenset[str] | None] = {}
    for name, role in node.value.items() if node is not None and isinstance(node.value, dict) else ():
        entry, workload = role.get(DECLARED), role.get("workload")
        if entry is None:
            continue
        written = WORKLOADS.get(str(workload.value)) if workload is not None else None
        parameter = written.parameter(DECLARED) if written is not None else None
        if references(entry):
            findings.add(("roles", name, DECLARED), "metrics cannot vary with a factor", CURE)
        if parameter is None or references(entry) or not isinstance(entry.value, dict):
            mistaken[name] = frozenset(entry.value) if isinstance(entry.value, dict) else None
            continue
        own = _entries(parameter, entry.value)
        found[name] = {key: metric for key, metric in own.items() if metric is not None}
        mistaken[name] = frozenset(own) - frozenset(found[name])
    return {name: own for name, own in found.items() if own}, mistaken


def _entries(parameter: Parameter, entries: Mapping[str, Node]) -> dict[str, Metric | None]:
    """Every entry's metric, None where it declares none."""
    found: dict[str, Metric | None] = {}
    for key, entry in entries.items():
        try:
            found |= declared_of(parameter.plan_values({key: entry.plain()}))
        except ValueError:
            found[key] = None
    return found


def uses_mistaken(text: str, mistaken: Mistaken) -> bool:
    """Whether a text names a metric by its path whose declaration is wrong, so that only this can be said of it.

    >>> wrong = {"client": frozenset({"answer_time"}), "other": None}
    >>> [uses_mistaken(f"{path} < 3 ms", wrong) for path in ("client.answer_time.p99", "client.rtt.p99", "other.x.mean")]
    [True, False, True]
    """
    for match in _USE.finditer(text):
        names = mistaken.get(match[1], frozenset())
        if match[2] not in METRICS if names is None else match[2] in names:
            return True
    return False


def check_declared(roles: Mapping[str, RoleSpec], declared: Declared, findings: Findings) -> None:
    """What a role has at a design point is what the file declares of it."""
    for name, role in roles.items():
        if dict(role.declared) != dict(declared.get(name, {})) and role.declared:
            findings.add(("roles", name), "its metrics are part of a factor's level", CURE)
