"""What becomes of each statement of a study's source: `statements.yaml`, and the verdicts that were kept.

A verdict is kept with the text of the claim that was judged: on another text it is not shown.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from virtlab.documents import read_table, read_yaml
from virtlab.experiment import Claim, Experiment, load

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "published"
STATEMENTS, VERDICTS = "statements.yaml", "verdicts.csv"
COLUMNS = ("file", "claim", "at", "arm", "verdict", "found", "runs", "text")
ARMS = ("simulated", "measured")
JUDGED_BY = re.compile(r"(?P<file>\S+\.yaml) (?P<claim>[a-z0-9-]+)(?: at (?P<at>.+))?\Z")


@dataclass(frozen=True)
class Judge:
    """A claim of a file of the study; `at`: of a claim with lists, the levels of the member that is meant."""

    file: str
    claim: str
    at: str = ""


@dataclass(frozen=True)
class Entry:
    """What becomes clear of one statement: claims that judge it, the command that answers it, or why neither does, for
    good or (`not_yet`) until virtlab has what it needs.
    """

    claims: tuple[Judge, ...] = ()
    command: str = ""
    not_judged: str = ""
    note: str = ""
    not_yet: str = ""


@dataclass(frozen=True)
class Study:
    """A study's folder, the rows of its source's table, and its entries; the factor whose levels are the source's
    platforms, and file -> arm -> why it was not run.
    """

    folder: Path
    rows: tuple[dict[str, str], ...]
    entries: Mapping[str, Entry]
    platform: str = ""
    not_run: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def claim(self, meant: Judge) -> Claim | None:
        """The claim that is meant; None where the file has none of that name."""
        return next((one for one in loaded(self.folder / meant.file).claims if one.id == meant.claim), None)


@cache
def loaded(path: Path) -> Experiment:
    """A study's file, read once."""
    return load(path)


def studies() -> list[Study]:
    """Every study with a statements.yaml."""
    return [read(path) for path in sorted((ROOT / "experiments").glob(f"*/{STATEMENTS}"))]


def read(path: Path) -> Study:
    """A study's statements.yaml with its table."""
    content = read_yaml(path)
    unknown = set(content) - {"rows", "platform", "not_run", "statements"}
    if unknown:
        raise SystemExit(f"{path}: unknown key {sorted(unknown)[0]}")
    not_run = content.get("not_run") or {}
    for file, reasons in not_run.items():
        if not (path.parent / file).is_file() or not set(reasons) <= set(ARMS):
            raise SystemExit(f"{path}: not_run: {file}: write FILE: {{simulated: WHY, measured: WHY}}")
    return Study(
        path.parent,
        tuple(as_statement(number, row) for number, row in enumerate(table(PUBLISHED / content["rows"]), 1)),
        {name: entry(path, name, one) for name, one in content["statements"].items()},
        str(content.get("platform") or ""),
        not_run,
    )


def guests(count: str, vcpus: str) -> str:
    """A number of guests with a number of vCPUs each.

    >>> guests("5", "20"), guests("5", "any"), guests("any", "over-allocated"), guests("all", "other cases")
    ('5x20', '5 VMs with any vCPUs', 'over-allocated', 'all other cases')
    """
    if vcpus.isdigit():
        return f"{count}x{vcpus}"
    if count.isdigit():
        return f"{count} VMs with {vcpus} vCPUs"
    return vcpus if count == "any" else f"{count} {vcpus}"


def as_statement(number: int, row: dict[str, str]) -> dict[str, str]:
    """A row of a table of statements; one of a table of orderings, in its words, known by its number.

    >>> row = {"vms": "2", "vcpus_per_vm": "20", "relation": "above", "than_vms": "2", "than_vcpus_per_vm": "10"}
    >>> found = as_statement(1, row | {"metric": "cpu_util", "condition": "same load", "location": "Fig 5.3", "note": ""})
    >>> found["statement_id"], found["left"], found["relation"], found["right"], found["where"]
    ('ordering-01', '2x20', 'above', '2x10', 'cpu_util; same load')
    """
    if "statement_id" in row:
        return row
    case = guests(row["vms"], row["vcpus_per_vm"])
    other = guests(row["than_vms"], row["than_vcpus_per_vm"])
    return {
        "statement_id": f"ordering-{number:02}",
        "location": row["location"],
        "left": case,
        "relation": row["relation"],
        "right": other,
        "where": "; ".join(filter(None, (row["metric"], row["condition"]))),
        "qualifier": row["note"],
    }


def entry(path: Path, name: str, written: Any) -> Entry:
    """One entry: claims, or a mapping with a command or a reason, each with a note."""
    if isinstance(written, dict):
        unknown = set(written) - {"claims", "command", "not_judged", "not_yet", "note"}
        if unknown:
            raise SystemExit(f"{path}: {name}: unknown key {sorted(unknown)[0]}")
        claims = written.get("claims") or ()
        return Entry(
            judges(path, claims),
            written.get("command", ""),
            written.get("not_judged", ""),
            written.get("note", ""),
            written.get("not_yet", ""),
        )
    return Entry(judges(path, written))


def judges(path: Path, written: Any) -> tuple[Judge, ...]:
    """`FILE CLAIM at LEVELS`, one or several."""
    found = []
    for one in [written] if isinstance(written, str) else written:
        match = JUDGED_BY.match(one)
        if match is None:
            raise SystemExit(f"{path}: '{one}' is not 'FILE CLAIM at LEVELS'")
        found.append(Judge(match["file"], match["claim"], match["at"] or ""))
    return tuple(found)


def table(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file."""
    yield from (row for _, row in read_table(path))


def recorded(folder: Path) -> list[dict[str, str]]:
    """The verdicts that a study keeps."""
    path = folder / VERDICTS
    return [{"runs": "", **row} for row in table(path)] if path.exists() else []


def known_of(study: Study) -> dict[tuple[str, ...], dict[str, str]]:
    """Verdicts by file, claim, levels and arm: the study's own, and those of files of other studies that it names."""
    files = {each.file for one in study.entries.values() for each in one.claims}
    beside = {file.rpartition("/")[0] + "/" for file in files if "/" in file}
    return {
        (folder + row["file"], row["claim"], row["at"], row["arm"]): row
        for folder in ("", *sorted(beside))
        for row in recorded(study.folder / folder)
    }


def keep(folder: Path, found: Iterable[dict[str, str]]) -> None:
    """Takes verdicts in place of those on the same claims by the same arm."""

    def key(row: dict[str, str]) -> tuple[str, ...]:
        return row["file"], row["arm"], row["claim"], row["at"]

    every = {key(row): row for row in recorded(folder)} | {key(row): row for row in found}
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(every[name] for name in sorted(every))
    (folder / VERDICTS).write_text(text.getvalue(), encoding="utf-8")


def current(claim: Claim, row: Mapping[str, str]) -> bool:
    """Whether a verdict is on the claim as the file has it now."""
    parsed = claim.parsed()
    return row["text"] in {parsed.text, *(member.text for member in parsed.members)}
