"""What a file expects: claims, and the metric that says when repetition has been enough.

Their grammar and metrics belong to `analysis` and `metrics`; here their mistakes get their place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import NamedTuple

from virtlab.analysis.claims import ClaimError, mistakes
from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.kinds import shown
from virtlab.experiment.declared import Mistaken, uses_mistaken
from virtlab.experiment.experiment import DATASET_NAME, Claim, Repeat
from virtlab.experiment.read.factors import Factor
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.mistakes import Mistake
from virtlab.experiment.read.tree import Node
from virtlab.metrics import Declared
from virtlab.units import nearest

KEYS = ("id", "title", "text", "published")  # of a claim


class Measuring(NamedTuple):
    """What a file's claims may be about: the workload of each role, of some roles the names of parts that have values
    of their own, and the places of the world at any design point, as series call them; None where they are not known.
    """

    workloads: Mapping[str, str]
    parts: Mapping[str, Set[str]]
    places: Set[str] | None


def read_claims(
    findings: Findings,
    factors: Mapping[str, Factor],
    roles: Measuring,
    declared: Declared,
    mistaken: Mistaken,
) -> tuple[Claim, ...]:
    """The section `claims`, each parsed and checked against factors, levels and roles."""
    node = findings.root.get("claims")
    if node is None or node.value is None:
        return ()
    if not isinstance(node.value, list):
        findings.add(
            ("claims",),
            "is not a list of claims",
            "write e.g. '- {id: linear, text: probe.rtt.mean grows with load}'",
        )
        return ()
    claims: list[Claim] = []
    for position, entry in enumerate(node.value):
        claim = _claim(position, entry, findings, {claim.id for claim in claims})
        if claim is not None:
            claim = replace(claim, declared=declared)
            claims.append(claim)
            if uses_mistaken(claim.text, mistaken):
                continue
            _check_claim(position, claim, factors, roles, findings)
    return tuple(claims)


def _claim(position: int, node: Node, findings: Findings, taken: set[str]) -> Claim | None:
    at = ("claims", position)
    if isinstance(node.value, str):
        return Claim(f"claim-{position + 1}", node.value, node.line, node.column)
    if not isinstance(node.value, dict):
        findings.add(at, "is not a claim", "write e.g. '{id: linear, text: probe.rtt.mean grows with load}'")
        return None
    for key in node.value:
        if key not in KEYS:
            cure = nearest(key, KEYS) or f"it has {', '.join(KEYS)}"
            findings.add((*at, key), f"unknown key '{shown(key)}' of a claim", cure, key=True)
    name, text, published, title = (node.get(key) for key in ("id", "text", "published", "title"))
    if text is None or not isinstance(text.value, str) or not text.value.strip():
        findings.add(at, "'text' is missing", "write e.g. 'text: probe.rtt.mean grows with load'")
        return None
    identity = str(name.value) if name is not None else f"claim-{position + 1}"
    if not DATASET_NAME.match(identity):
        findings.add(
            (*at, "id"), f"'{shown(identity)}' is not an id", "use lower-case letters, digits and '-'"
        )
    if identity in taken:
        findings.add((*at, "id"), f"'{identity}' is already a claim", "give each its own id")
    if published is not None and not isinstance(published.value, dict):
        findings.add((*at, "published"), "is not a mapping", "write '{file: study.csv, metric: rtt_mean}'")
        return None
    words = title.value if title is not None else ""
    if not isinstance(words, str) or (title is not None and not words.strip()):
        findings.add(
            (*at, "title"), "is not a title", "write the claim in words, e.g. 'Delay grows with load'"
        )
        return None
    rows = published.plain() if published is not None else None
    return Claim(identity, text.value, text.line, text.column, rows, words.strip())


def _check_claim(
    position: int, claim: Claim, factors: Mapping[str, Factor], roles: Measuring, findings: Findings
) -> None:
    """The claim's own grammar, then its roles, factors and levels."""
    at = ("claims", position, "text")
    try:
        parsed = claim.parsed()
    except ClaimError as error:
        offset = error.column - claim.column
        findings.mistakes.add(
            Mistake(claim.line, claim.column + offset, f"claims[{position}].text", error.what, error.cure)
        )
        return
    except ValueError as error:
        findings.add_text(("claims", position, "published"), str(error))
        return
    levels = {name: list(factor.levels) for name, factor in factors.items()}
    for found in mistakes(parsed, levels, roles.workloads, roles.places, roles.parts):
        findings.add(at, f"{found.what} (column {found.column} of the claim)", found.cure)


def check_until(repeat: Repeat, roles: Mapping[str, str], mistaken: Mistaken, findings: Findings) -> None:
    """The metric that ends repetition is one that a role measures."""
    if repeat.until is None or uses_mistaken(repeat.until.metric, mistaken):
        return
    at = ("repeat", "until", "metric")
    try:
        path = repeat.until.path
    except ValueError as error:
        findings.add_text(at, str(error))
        return
    if path.declaration.of == "role":
        if path.role not in roles:
            findings.add(
                at,
                f"there is no role '{path.role}'",
                nearest(path.role, roles) or f"there are {', '.join(roles)}",
            )
        elif (
            path.declared is None
            and roles[path.role]
            and path.metric not in WORKLOADS[roles[path.role]].metrics
        ):
            what = f"{path.metric} is not measured by {roles[path.role]}, the workload of '{path.role}'"
            findings.add(at, what, "name a metric of that workload")
