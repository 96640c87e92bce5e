"""The pages of the studies: each statement of a source beside what was simulated and measured of it.

    python tools/studies.py record DATASET...   takes the verdicts of datasets of study files into their verdicts.csv
    python tools/studies.py compute             takes the answers of `virtlab rt check-published` into that study's
    python tools/studies.py page                writes the table of each study's README.md again

`statements.yaml` of a study says of each row of its table of statements which claims judge it, which command answers
it, or why it is not judged. `verdicts.csv` beside it keeps what was found, with the text of the claim that was judged:
a verdict on another text is not shown. The tests hold the tables against what this file writes.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from virtlab.analysis import judge
from virtlab.analysis.judging.verdict import Verdict
from virtlab.documents import read_yaml
from virtlab.experiment import Claim, Experiment, load, load_text
from virtlab.report.gather.results import values
from virtlab.results import Dataset
from virtlab.stats import planned_sizes
from virtlab.units import display

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "published"
STATEMENTS, VERDICTS = "statements.yaml", "verdicts.csv"
COLUMNS = ("file", "claim", "at", "arm", "verdict", "found", "text")
ARMS = ("simulated", "measured")
BEGIN, END = "<!-- statements: written by tools/studies.py -->\n", "<!-- end of statements -->\n"
SIGNS = {"~": "is about", "<": "is less than", ">": "is more than"}
JUDGED_BY = re.compile(r"(?P<file>\S+\.yaml) (?P<claim>[a-z0-9-]+)(?: at (?P<at>.+))?\Z")


@dataclass(frozen=True)
class Judge:
    """A claim of a file of the study; `at`: of a claim with lists, the levels of the member that is meant."""

    file: str
    claim: str
    at: str = ""


@dataclass(frozen=True)
class Entry:
    """What becomes clear of one statement: claims that judge it, the command that answers it, or why neither does."""

    claims: tuple[Judge, ...] = ()
    command: str = ""
    not_judged: str = ""
    note: str = ""


@dataclass(frozen=True)
class Study:
    """A study's folder, the rows of its source's table, and its entries."""

    folder: Path
    rows: tuple[dict[str, str], ...]
    entries: Mapping[str, Entry]

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
    rows = tuple(table(PUBLISHED / content["rows"]))
    return Study(
        path.parent, rows, {name: entry(path, name, one) for name, one in content["statements"].items()}
    )


def entry(path: Path, name: str, written: Any) -> Entry:
    """One entry: claims, or a mapping with a command or a reason, each with a note."""
    if isinstance(written, dict):
        unknown = set(written) - {"claims", "command", "not_judged", "note"}
        if unknown:
            raise SystemExit(f"{path}: {name}: unknown key {sorted(unknown)[0]}")
        claims = written.get("claims") or ()
        return Entry(
            judges(path, claims),
            written.get("command", ""),
            written.get("not_judged", ""),
            written.get("note", ""),
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
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


# -- what was found


def recorded(folder: Path) -> list[dict[str, str]]:
    """The verdicts that a study keeps."""
    path = folder / VERDICTS
    return list(table(path)) if path.exists() else []


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


def record(dataset_folder: Path) -> int:
    """The verdicts of a dataset of a study's file; how many there are."""
    dataset = Dataset.open(dataset_folder)
    file = source_of(dataset.experiment_text)
    experiment = load_text(dataset.experiment_text, runs_max=None)
    used = [one for one in dataset.runs() if one.status == "ok"]
    repeat = experiment.repeat
    looks = planned_sizes(repeat.minimum, repeat.maximum) if repeat.until else ()
    claims = [claim.parsed() for claim in experiment.claims]
    judged = judge(claims, values(used, looks, experiment.factors), repeat.confidence, published=PUBLISHED)
    arm = "simulated" if dataset.manifest.backend == "simulator" else "measured"
    rows = []
    for claim, verdict in zip(experiment.claims, judged, strict=True):
        rows.append(row_of(file.name, claim.id, arm, "", [verdict]))
        for at in dict.fromkeys(member.claim.at for member in verdict.members):
            mine = [member for member in verdict.members if member.claim.at == at]
            rows += [row_of(file.name, claim.id, arm, at, mine)] if at else []
    keep(file.parent, rows)
    return len(rows)


def source_of(text: str) -> Path:
    """The study file whose text a dataset holds. SystemExit where no file has it any more."""
    for path in sorted((ROOT / "experiments").glob("*/*.yaml")):
        if path.read_text(encoding="utf-8") == text:
            return path
    raise SystemExit("the dataset's experiment file is of no study, or was changed since: run it again")


def row_of(file: str, claim: str, arm: str, at: str, verdicts: list[Verdict]) -> dict[str, str]:
    """A line of verdicts.csv, of a claim or of its members at some levels: as weak as the weakest."""
    rulings = {ruling_of(verdict): verdict for verdict in verdicts}
    ruling = next(one for one in ("refuted", "undecided", "not judged", "holds") if one in rulings)
    decided = rulings[ruling]
    return {
        "file": file, "claim": claim, "at": at, "arm": arm, "verdict": ruling, "found": found_text(decided),
        "text": decided.claim.text,
    }  # fmt: skip


def ruling_of(verdict: Verdict) -> str:
    """As the report has it, but a claim that nothing was compared for is not judged."""
    return str(verdict.ruling) if verdict.comparisons else "not judged"


def found_text(verdict: Verdict) -> str:
    """The estimate that decided with its interval; without any, why there is none."""
    estimate = verdict.estimate
    if estimate is None:
        return "; ".join(verdict.notes[:1])
    ends = [end for end in (estimate.low, estimate.high) if end is not None]
    shown = display(estimate.unit, [estimate.point, *ends])
    interval = (
        f" ({shown.number(ends[0])} to {shown.number(ends[1])})"
        if len(ends) == 2 and ends[0] != ends[1]
        else ""
    )
    where = f" at {verdict.comparison.label}" if verdict.comparison and verdict.comparison.label else ""
    return f"{shown.text(estimate.point)}{interval}{where}"


def compute(sets: int = 200) -> int:
    """Answers of `virtlab rt check-published` on statements."""
    from virtlab.realtime.published import SHIPPED, check_published

    words = {True: "holds", False: "refuted", None: "not judged"}
    checks = check_published(SHIPPED[1], sets=sets)
    keep(
        ROOT / "experiments" / "realtime-vm",
        (
            {
                "file": "virtlab rt check-published", "claim": check.case, "at": "", "arm": "simulated",
                "verdict": words[check.holds], "found": check.here, "text": check.published,
            }
            for check in checks
        ),
    )  # fmt: skip
    return len(checks)


# -- the page


def rendered(study: Study) -> str:
    """The table of a study's statements."""
    known = {(row["file"], row["claim"], row["at"], row["arm"]): row for row in recorded(study.folder)}
    lines = [
        "| statement | the source says | judged by | simulated says | measured says |",
        "|---|---|---|---|---|",
    ]
    for row in study.rows:
        lines.append("| " + " | ".join(cells(study, row, known)) + " |")
    return "\n".join(lines) + "\n"


def cells(
    study: Study, row: Mapping[str, str], known: Mapping[tuple[str, ...], Mapping[str, str]]
) -> list[str]:
    """The cells of one statement."""
    name = row["statement_id"]
    one = study.entries.get(name, Entry(not_judged="it has no entry"))
    head = [f"{name} ({row['location']})", said(row)]
    if one.not_judged:
        return [*head, f"not judged, because {one.not_judged}", "", ""]
    note = f" ({one.note})" if one.note else ""
    if one.command:
        found = known.get((one.command, name, "", "simulated"))
        if found is None:
            return [*head, f"`{one.command}`{note}", "answered by the command", "answered by the command"]
        return [
            *head,
            f"`{one.command}`{note}",
            plain(f"{found['verdict']}: {found['found']}"),
            "computed, not measured",
        ]
    by = "; ".join(
        f"`{each.claim}` in {each.file}{f' at {each.at}' if each.at else ''}" for each in one.claims
    )
    return [*head, by + note, *("; ".join(answers(study, one, known, arm)) for arm in ARMS)]


def answers(
    study: Study, one: Entry, known: Mapping[tuple[str, ...], Mapping[str, str]], arm: str
) -> Iterator[str]:
    """What an arm says of each claim of a statement."""
    for each in one.claims:
        found = known.get((each.file, each.claim, each.at, arm))
        claim = study.claim(each)
        if found is None or claim is None or not current(claim, found):
            yield "no run yet"
        else:
            yield plain(f"{found['verdict']}, {found['found']}" if found["found"] else found["verdict"])


def current(claim: Claim, row: Mapping[str, str]) -> bool:
    """Whether a verdict is on the claim as the file has it now."""
    parsed = claim.parsed()
    return row["text"] in {parsed.text, *(member.text for member in parsed.members)}


def said(row: Mapping[str, str]) -> str:
    """A statement in words: both sides, how it is hedged, and where it holds."""
    relation = SIGNS.get(row["relation"], row["relation"].replace("_", " "))
    hedge = f" ({row['qualifier']})" if row["qualifier"] else ""
    return plain(f"{row['left']} {relation} {row['right']}{hedge}; {row['where'].removeprefix('platform=')}")


def plain(text: str) -> str:
    """Text that can stand in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def page_of(study: Study) -> str:
    """The study's README.md with its table written again."""
    text = (study.folder / "README.md").read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"{study.folder / 'README.md'} has no place for the table: {BEGIN.strip()} and {END.strip()}"
        )
    return f"{head}{BEGIN}\n{rendered(study)}\n{END}{tail}"


def main(words: list[str]) -> int:
    """The command of the first word."""
    match words:
        case ["record", *folders] if folders:
            for folder in folders:
                print(f"{folder}: {record(Path(folder))} verdicts")
        case ["compute"]:
            print(f"{compute()} answers")
        case ["page"]:
            for study in studies():
                (study.folder / "README.md").write_text(page_of(study), encoding="utf-8")
        case _:
            raise SystemExit(str(__doc__))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
