"""Which entry of the catalogue a section of a file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from virtlab.catalogue.kinds import shown
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.tree import Node
from virtlab.units import nearest

Entry = TypeVar("Entry")


def chosen(
    at: Steps,
    node: Node,
    key: str,
    noun: str,
    entries: Mapping[str, Entry],
    findings: Findings,
    meant: Callable[[str], str] | None = None,
) -> Entry | None:
    """The declaration that `key` names, None where that is a mistake; `meant` is what somebody meant by another
    word.
    """
    entry = node.get(key)
    listed = f"write one of {', '.join(entries)}"
    if entry is None:
        findings.add(at, f"'{key}' is missing", listed, key=True)
        return None
    if isinstance(entry.value, str) and entry.value in entries:
        return entries[entry.value]
    word = str(entry.plain())
    cure = (meant(word) if meant is not None else nearest(word, entries)) or listed
    findings.add((*at, key), f"there is no {noun} '{shown(entry.plain())}'", cure)
    return None
