"""The metrics that a file's roles declare: claims, stopping rules and searches may name them beside virtlab's own.

They are those of the file as a whole, so what a metric is does not vary with a factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from virtlab.catalogue import WORKLOADS
from virtlab.experiment.read.factors import references
from virtlab.experiment.read.findings import Findings
from virtlab.metrics import Metric, declared_of
from virtlab.metrics.declared import DECLARED

if TYPE_CHECKING:
    from virtlab.experiment.work.roles import RoleSpec
    from virtlab.metrics import Declared

CURE = "write them in the role itself, and give what varies a role of its own"


def read_declared(findings: Findings) -> Declared:
    """Role -> its own metrics, of the roles that declare any. What is wrong there is said where the role is read."""
    node = findings.root.get("roles")
    found: dict[str, Mapping[str, Metric]] = {}
    for name, role in node.value.items() if node is not None and isinstance(node.value, dict) else ():
        entry, workload = role.get(DECLARED), role.get("workload")
        written = WORKLOADS.get(str(workload.value)) if workload is not None else None
        parameter = written.parameter(DECLARED) if written is not None else None
        if entry is None or parameter is None:
            continue
        if references(entry):
            findings.add(("roles", name, DECLARED), "metrics cannot vary with a factor", CURE)
            continue
        try:
            found[name] = declared_of(parameter.plan_values(entry.plain()))
        except ValueError:
            continue
    return found


def check_declared(roles: Mapping[str, RoleSpec], declared: Declared, findings: Findings) -> None:
    """What a role has at a design point is what the file declares of it."""
    for name, role in roles.items():
        if dict(role.declared) != dict(declared.get(name, {})) and role.declared:
            findings.add(("roles", name), "its metrics are part of a factor's level", CURE)
