"""Markdown, as the summary of a build or a comment of a merge request shows it."""

from __future__ import annotations

import re

from virtlab.report.exchange.cases import Cases
from virtlab.terminal import one_line

MARKS = {"good": "✅", "bad": "❌", "open": "❔"}
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(cases: Cases) -> str:
    """Heading, tally, a table of all cases, notes."""
    counts = {"good": cases.count("good"), "bad": cases.count("bad"), "open": cases.count("open")}
    words: dict[str, list[str]] = {}
    for case in cases.cases:
        words.setdefault(case.outcome, []).append(case.word)
    tally = ", ".join(
        f"{MARKS[outcome]} {count} {' or '.join(dict.fromkeys(words[outcome]))}"
        for outcome, count in counts.items()
        if count
    )
    parts = [f"### {_cell(cases.title)}", "", tally or "no claims", ""]
    if cases.cases:
        heads = ["", "answer", *cases.heads]
        parts += [_row(heads), _row(["---"] * len(heads))]
        parts += [
            _row([f"{MARKS[case.outcome]} {case.word}", _cell(case.sentence), *map(_cell, case.facts)])
            for case in cases.cases
        ]
        parts.append("")
    parts += [f"- {_cell(note)}" for note in cases.notes]
    parts += [f"- {_cell(word)}: `{one_line(place)}`" for word, place in cases.links]
    return "\n".join(parts).rstrip() + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return SPECIAL.sub(r"\\\1", one_line(text))
