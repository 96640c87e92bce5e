"""What other programs get: one case per claim, mistake or comparison, in one of four outcomes.

JUnit calls a case that is clearly wrong a failure, and one that could not be decided an error; both fail a build, as
exit codes 1 and 4 do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from virtlab.changes import Changes
from virtlab.changes.differences import ALARMS, Change, words
from virtlab.report.gather.gathered import Gathered
from virtlab.units import display, interval

Outcome = Literal["good", "bad", "open"]
POINTS = "pp"  # percentage points, as claims write them


@dataclass(frozen=True, slots=True)
class Case:
    """One line: `word` is the verdict or finding itself, `facts` are further columns."""

    group: str
    name: str
    outcome: Outcome
    word: str
    sentence: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of one command. `heads` name the columns of `facts`."""

    title: str
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = field(default=())  # a word and where it leads

    def count(self, outcome: Outcome) -> int:
        """The number of cases with this outcome."""
        return sum(case.outcome == outcome for case in self.cases)


def of_verdicts(data: Gathered, lacking: Iterable[str] = (), links: Sequence[tuple[str, str]] = ()) -> Cases:
    """A case per claim; `lacking` are sentences about points that could not be measured, a case each."""
    outcomes: dict[str, Outcome] = {"holds": "good", "refuted": "bad"}
    cases = []
    for one in data.verdicts:
        shown = ""
        if one.estimate is not None:
            unit = display(one.estimate.unit, [one.estimate.point])
            shown = interval(one.estimate.low, one.estimate.point, one.estimate.high, unit)
        cases.append(
            Case(
                data.origin.dataset, one.name or one.claim, outcomes.get(one.verdict, "open"), one.verdict,
                one.sentence, (one.claim, shown, one.n),
            )
        )  # fmt: skip
    cases += [
        Case(data.origin.dataset, "design points", "open", "lacking", one, ("", "", "")) for one in lacking
    ]
    return Cases(data.origin.title, tuple(cases), data.notes, ("claim", "estimate", "runs"), tuple(links))


def of_mistakes(file: str, mistakes: Sequence[str], summary: Sequence[str] = ()) -> Cases:
    """A case per mistake of a file, or one that passed."""
    cases = [Case(file, f"mistake {number}", "bad", "mistake", one) for number, one in enumerate(mistakes, 1)]
    sound = [Case(file, "no mistakes", "good", "passed", f"{file}: no mistakes")]
    return Cases(file, tuple(cases or sound), tuple(summary))


def of_changes(changes: Changes, old_name: str, new_name: str) -> Cases:
    """A case per comparison, under a title that names the two."""
    cases = []
    for row in changes.rows:
        outcome: Outcome = (
            "bad" if row.finding in ALARMS else "open" if row.finding == "undecided" else "good"
        )
        name = f"{row.path} at {words(row.levels)}"
        cases.append(Case(row.path, name, outcome, row.finding, sentence(row), shown(row)))
    title = f"{new_name} of {changes.new.created[:10]} against {old_name} of {changes.old.created[:10]}"
    return Cases(title, tuple(cases), changes.notes, ("old", "new", "change"))


def shown(row: Change) -> tuple[str, str, str]:
    """Old, new and change of a comparison, for people."""
    values = [one.point for one in (row.old, row.new) if one is not None]
    unit = display(row.unit, values)

    def estimate(which: str) -> str:
        one = getattr(row, which)
        return "no value" if one is None else interval(one.low, one.point, one.high, unit)

    return estimate("old"), estimate("new"), change_text(row)


def change_text(row: Change) -> str:
    """The change with its interval, as a share where the old value is one to compare with."""
    found = row.difference
    if found is None:
        return ""
    share = row.relative is not None and row.unit != "ratio"
    unit = display(row.unit, [found.point, found.low or 0.0, found.high or 0.0])
    size = abs(row.old.point) / 100 if share and row.old is not None else unit.size
    name = "%" if share else POINTS if row.unit == "ratio" else unit.unit
    whole = f"{_signed(found.point / size)} {name}".strip()
    if found.low is None or found.high is None:
        return whole
    return f"{whole} [{_signed(found.low / size)}, {_signed(found.high / size)}]"


def _signed(number: float) -> str:
    """Three digits and the sign.

    >>> _signed(3.14159), _signed(-1234.5), _signed(0.0)
    ('+3.14', '-1,234', '0')
    """
    return "0" if number == 0 else f"{number:+,.0f}" if abs(number) >= 1000 else f"{number:+.3g}"


def sentence(row: Change) -> str:
    """A comparison in one sentence."""
    old, new, change = shown(row)
    body = f"{row.path} at {words(row.levels)}: {row.finding}, {old} became {new}"
    if change:
        body += f" ({change})"
    if row.finding == "equivalent" and row.margin is not None:
        words_of = display(row.unit, [row.margin]).text(row.margin, 3)
        body += f", within {words_of.replace('%', POINTS) if row.unit == 'ratio' else words_of}"
    if row.finding == "undecided":
        body += f"; {row.why}"
        if row.more_runs:
            body += (
                f": about {row.more_runs} more {'run' if row.more_runs == 1 else 'runs'} of each would decide"
            )
    return body + "."
