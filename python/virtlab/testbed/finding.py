"""What an examination gives: findings, each with its cure where something is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["yes", "limited", "no", "untried"]
SCHEMA = "virtlab.doctor/1"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that this machine can do, can do in part, cannot do, or that could not be tried.

    `name` is stable (`namespaces.user`); `says` is for people; `values` are numbers and names with unit suffixes.
    """

    name: str
    group: str
    state: State
    says: str
    cure: str = ""
    needed: bool = False  # the default testbed does not work without it
    values: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """The object that `virtlab doctor --json` prints of it."""
        return {
            "name": self.name,
            "group": self.group,
            "state": self.state,
            "says": self.says,
            "cure": self.cure,
            "needed": self.needed,
            "values": dict(self.values),
        }


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings on one machine, by one user."""

    machine: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def works(self) -> bool:
        """Whether the default testbed works: nothing that it needs is missing."""
        return all(finding.state in ("yes", "limited") for finding in self.findings if finding.needed)

    @property
    def exit_code(self) -> int:
        """0 when the default testbed works, 3 when not."""
        return 0 if self.works else 3

    def groups(self) -> Iterator[tuple[str, list[Finding]]]:
        """Findings by group, in the order of the examination."""
        names = dict.fromkeys(finding.group for finding in self.findings)
        for name in names:
            yield name, [finding for finding in self.findings if finding.group == name]

    def json(self) -> dict[str, Any]:
        """The object that `virtlab doctor --json` prints."""
        return {
            "schema": SCHEMA,
            "works": self.works,
            "machine": dict(self.machine),
            "findings": [finding.json() for finding in self.findings],
        }
