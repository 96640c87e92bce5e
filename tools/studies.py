"""The pages of the studies: each statement of a source beside what was simulated and measured of it.

    python -m tools.studies record DATASET...   takes the verdicts of datasets of study files into their verdicts.csv
    python -m tools.studies worlds FILE...      takes the claims that no simulated world of a study's file can judge
    python -m tools.studies compute             takes the answers of `virtlab rt check-published` into that study's
    python -m tools.studies page                writes the table of each study's README.md again
    python -m tools.studies count               prints how many figures and statements of each source have what

`statements.yaml` of a study says of each row of its table of statements which claims judge it, which command answers
it, or why it is not judged, for good or not yet; under `not_run`, why a file was not simulated or measured.
`verdicts.csv` beside it keeps what was found. The tests hold the tables against what this file writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tools.statements import ARMS, Entry, Study, current, known_of, loaded, recorded, studies
from tools.verdicts import compare_worlds, compute, record

from virtlab.planner.estimate import Cost, about_time, estimate_points
from virtlab.report.gather.sources.source_figures import FILE_NAME, read_figures

BEGIN, END = "<!-- statements: written by tools/studies.py -->\n", "<!-- end of statements -->\n"
# Where a page has these, what was measured of claims that judge no statement: of files scaled to another machine.
SCALED_BEGIN, SCALED_END = "<!-- scaled: written by tools/studies.py -->\n", "<!-- end of scaled -->\n"
NOTHING = "no run yet"  # in no page that is landed: a test sees to it
LONG_NS = 15 * 60 * 10**9  # a file that takes longer on the testbed may say so in place of a verdict
SIGNS = {"~": "is about", "<": "is less than", ">": "is more than"}


def rendered(study: Study) -> str:
    """The table of a study's statements."""
    known = known_of(study)
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
    if one.not_yet:
        return [*head, f"not judged yet, because {one.not_yet}", "", ""]
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
    said_by = ("; ".join(dict.fromkeys(answers(study, one, known, arm))) for arm in ARMS)
    return [*head, by + note, *said_by]


def answers(
    study: Study, one: Entry, known: Mapping[tuple[str, ...], Mapping[str, str]], arm: str
) -> Iterator[str]:
    """What an arm says of each claim of a statement, or why it was not asked."""
    for each in one.claims:
        found = known.get((each.file, each.claim, each.at, arm))
        claim = study.claim(each)
        if found is None or claim is None or not current(claim, found):
            reason = why_not_run(study, each.file, arm)
            yield plain(f"no verdict by {each.file}: {reason}" if reason else NOTHING)
            continue
        said = f"{found['verdict']}, {found['found']}" if found["found"] else found["verdict"]
        yield plain(f"{said} ({found['runs']})" if found["runs"] else said)


def why_not_run(study: Study, file: str, arm: str) -> str:
    """Why an arm has not run a file: the written reason, or how long it takes on the testbed; empty where neither is
    one.
    """
    written = study.not_run.get(file, {}).get(arm, "")
    if written or arm == "simulated":
        return written
    runs, time_ns = least(study.folder / file)
    return f"{runs} runs take about {about_time(time_ns)}" if time_ns > LONG_NS else ""


@cache
def least(path: Path) -> tuple[int, int]:
    """The fewest runs of a file, and about how long they take on the testbed."""
    experiment = loaded(path)
    repeat = experiment.repeat.minimum
    return len(experiment.points()) * repeat, sum(estimate_points(experiment), Cost(0, 0)).time_ns * repeat


def said(row: Mapping[str, str]) -> str:
    """A statement in words: both sides, how it is hedged, and where it holds."""
    relation = SIGNS.get(row["relation"], row["relation"].replace("_", " "))
    hedge = f" ({row['qualifier']})" if row["qualifier"] else ""
    return plain(f"{row['left']} {relation} {row['right']}{hedge}; {row['where'].removeprefix('platform=')}")


def plain(text: str) -> str:
    """Text that can stand in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def scaled(study: Study) -> str:
    """The table of what was measured of claims that judge no statement."""
    lines = ["| claim | it says | measured says |", "|---|---|---|"]
    judging = {(each.file, each.claim) for one in study.entries.values() for each in one.claims}
    for row in recorded(study.folder):
        if row["arm"] != "measured" or (row["file"], row["claim"]) in judging:
            continue
        found = f"{row['verdict']}, {row['found']}" + (f" ({row['runs']})" if row["runs"] else "")
        lines.append(f"| `{row['claim']}` in {row['file']} | {plain(row['text'])} | {plain(found)} |")
    return "\n".join(lines) + "\n"


def page_of(study: Study) -> str:
    """The study's README.md with its tables written again."""
    text = (study.folder / "README.md").read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"{study.folder / 'README.md'} has no place for the table: {BEGIN.strip()} and {END.strip()}"
        )
    return _with_scaled(study, f"{head}{BEGIN}\n{rendered(study)}\n{END}{tail}")


def _with_scaled(study: Study, page: str) -> str:
    head, begin, rest = page.partition(SCALED_BEGIN)
    _, end, tail = rest.partition(SCALED_END)
    return f"{head}{SCALED_BEGIN}\n{scaled(study)}\n{SCALED_END}{tail}" if begin and end else page


def counted(study: Study) -> str:
    """How many figures and statements of a source have what."""
    figures = read_figures(study.folder / FILE_NAME)
    numbered = [one for one in figures.entries if re.match(r"(Fig|Table)\b", one.figure)]
    drawn, told = sum(bool(one.plots) for one in numbered), sum(bool(one.command) for one in numbered)
    awaited = sum(bool(one.not_yet) for one in numbered)
    entries = study.entries.values()
    judged, answered = sum(bool(one.claims) for one in entries), sum(bool(one.command) for one in entries)
    later = sum(bool(one.not_yet) for one in entries)
    known = known_of(study)
    computed = sum(
        (one.command, name, "", "simulated") in known for name, one in study.entries.items() if one.command
    )
    has = {arm: sum(any_verdict(study, one, known, arm) for one in entries) for arm in ARMS}
    return (
        f"{study.folder.name}: {len(numbered)} figures and tables, {drawn} by plots, {told} by a command, "
        f"{awaited} not yet, {len(numbered) - drawn - told - awaited} declined; "
        f"{len(study.entries)} statements, {judged} by claims "
        f"(simulated {has['simulated']}, measured {has['measured']}), {answered} by a command "
        f"({computed} computed), "
        f"{later} not yet, {len(study.entries) - judged - answered - later} declined"
    )


def any_verdict(
    study: Study, one: Entry, known: Mapping[tuple[str, ...], Mapping[str, str]], arm: str
) -> bool:
    """Whether some claim of a statement has a verdict of an arm."""
    return any(
        (found := known.get((each.file, each.claim, each.at, arm))) is not None
        and (claim := study.claim(each)) is not None
        and current(claim, found)
        for each in one.claims
    )


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
        case ["worlds", *files] if files:
            for file in files:
                print(f"{file}: {compare_worlds(Path(file).resolve())} claims are not judged")
        case ["count"]:
            for study in studies():
                print(counted(study))
        case _:
            raise SystemExit(str(__doc__))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
