"""Claims and run-level values to verdicts.

Tests of a claim are corrected with Holm, for holding and for being refuted apart. A claim holds when each
test that decides holds and none is refuted; it is refuted when one is; else it is undecided, and the test
that needs most runs says about how many. Where a campaign stopped sequentially, its correction for looking is
used here too. A claim with lists of levels is one claim: its members are corrected together, and it holds when all do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from virtlab.analysis.claims import Claim
from virtlab.analysis.claims.words import in_words
from virtlab.analysis.judging.alike import of_one_thing, told_apart
from virtlab.analysis.judging.case import Case
from virtlab.analysis.judging.cells import gather
from virtlab.analysis.judging.hypotheses import Test
from virtlab.analysis.judging.relations import tests_of
from virtlab.analysis.judging.text import sentence
from virtlab.analysis.judging.verdict import Comparison, Ruling, Verdict
from virtlab.analysis.published import PublishedValue, published_values
from virtlab.analysis.table import RunTable
from virtlab.errors import VirtlabError
from virtlab.stats.holm import holm
from virtlab.stats.proportions import count_needed
from virtlab.stats.stopping import look_level


def judge(
    claims: Iterable[Claim], table: RunTable, level: float = 0.95, *, published: Path | None = None
) -> list[Verdict]:
    """One verdict per claim, in order. `published` is the folder of published tables that claims refer to."""
    return [judge_one(claim, table, level, published=published) for claim in claims]


def judge_one(
    claim: Claim, table: RunTable, level: float = 0.95, *, published: Path | None = None
) -> Verdict:
    """The verdict on one claim; of a claim with lists of levels also on each member, corrected for the tests of all."""
    beside: tuple[PublishedValue, ...] = ()
    notes: list[str] = []
    if claim.published is not None:
        try:
            beside = tuple(published_values(claim.published, published))
        except VirtlabError as error:
            notes.append(str(error))
    effective = look_level(table.planned_looks, level) if table.stopped_early else level
    if mixed := table.mixed_points:
        notes.append(
            f"{len(mixed)} design points were measured over several link realisations; "
            "each is judged by itself"
        )
    found = [_evidence(member, table, effective, beside) for member in claim.members or (claim,)]
    whole = found[0] if len(found) == 1 else _together(found)
    comparisons = _correct(whole.tests, 1.0 - effective)
    if not claim.members:
        return _verdict(claim, comparisons, whole, beside, notes)
    left = iter(comparisons)
    members = tuple(
        _verdict(member, list(islice(left, len(each.tests))), each, beside, [])
        for member, each in zip(claim.members, found, strict=True)
    )
    notes += [f"{member.ruling}: {member.claim.text}" for member in members]
    verdict = _verdict(claim, comparisons, whole, beside, notes)
    if verdict.ruling == "holds" and any(member.ruling != "holds" for member in members):
        unseen = [member.claim.text for member in members if member.ruling != "holds"]
        said = f"of {len(members)} claims {len(unseen)} cannot be judged, e.g. '{unseen[0]}'"
        text = f"{in_words(claim)}: undecided, {said}."
        verdict = replace(verdict, ruling="undecided", text=text, comparison=None)
    return replace(verdict, members=members)


@dataclass(slots=True)
class _Evidence:
    """The tests of a claim; why runs have no value (reason -> runs), what prevented tests, and levels that are one
    world, or shares of different things.
    """

    tests: list[Test] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)


def _evidence(
    claim: Claim, table: RunTable, level: float, published: tuple[PublishedValue, ...]
) -> _Evidence:
    found = _Evidence()
    mixed = bool(table.mixed_points)
    for part in [table.only(realisation=name) for name in table.realisations] if mixed else [table]:
        cells, unlike = of_one_thing(claim, gather(claim, part))
        cells, alike = told_apart(claim, cells)
        for reason, count in cells.missing.items():
            found.missing[reason] = found.missing.get(reason, 0) + count
        found.same += [each for each in (*unlike, *alike) if each not in found.same]
        if not cells.of:
            continue
        try:
            tests = tests_of(Case(claim, cells, level, published))
        except ValueError as error:
            found.trouble.append(str(error))
            continue
        for test in tests:
            links = f" ({part.realisations[0]} links)" if mixed else ""
            label = " at ".join(filter(None, (test.label, claim.at)))
            found.tests.append(replace(test, label=f"{label}{links}".strip()))
    return found


def _together(evidences: list[_Evidence]) -> _Evidence:
    """The evidence on all members of a claim; a run without a value is one run, however many members would use it."""
    whole = _Evidence()
    for each in evidences:
        whole.tests += each.tests
        whole.trouble += each.trouble
        whole.same += [one for one in each.same if one not in whole.same]
        for reason, count in each.missing.items():
            whole.missing[reason] = max(whole.missing.get(reason, 0), count)
    return whole


def _verdict(
    claim: Claim,
    comparisons: list[Comparison],
    evidence: _Evidence,
    published: tuple[PublishedValue, ...],
    notes: list[str],
) -> Verdict:
    notes = notes + evidence.same
    if claim.averaged and evidence.tests:
        names = " and ".join(each.name for each in claim.averaged)
        notes.append(f"each value is the mean of a repetition over the levels of {names}")
    notes += [f"{count} runs have no value: {reason}" for reason, count in evidence.missing.items()]
    ruling, deciding = _rule(comparisons)
    notes += sorted({comparison.note for comparison in comparisons if comparison.note})
    more = deciding.more_runs if ruling == "undecided" and deciding is not None else None
    trouble = evidence.same or evidence.trouble or [_nothing(evidence.missing)]
    text = sentence(claim, ruling, comparisons, deciding, published=published, trouble=trouble)
    return Verdict(claim, ruling, text, tuple(comparisons), deciding, more, published, tuple(notes))


def _nothing(missing: dict[str, int]) -> str:
    reasons = ", ".join(missing)
    return f"no run has values to compare ({reasons})" if reasons else "no run has values to compare"


def _correct(tests: list[Test], alpha: float) -> list[Comparison]:
    needed = [index for index, test in enumerate(tests) if test.decides]
    p_holds = [test.p_holds for test in tests]
    for index, adjusted in zip(needed, holm([tests[index].p_holds for index in needed]), strict=True):
        p_holds[index] = adjusted
    p_refuted = holm([test.p_refuted for test in tests])
    found = []
    for test, holding, refuting in zip(tests, p_holds, p_refuted, strict=True):
        ruling: Ruling = "undecided"
        finding, p = "undecided", min(holding, refuting)
        if holding <= alpha:
            ruling, finding, p = "holds", test.words[0], holding
        elif refuting <= alpha:
            ruling, finding, p = "refuted", test.words[1], refuting
        more = None
        if ruling == "undecided":
            more = _more(test, alpha * test.one_sided_share / max(len(needed), 1))
        found.append(
            Comparison(
                test.label, test.estimate, test.required, ruling, finding, p, test.runs, test.effect,
                test.effect_name, more, test.decides, test.note,
            )
        )  # fmt: skip
    return found


def _more(test: Test, alpha: float) -> int | None:
    """About how many more runs per design point would decide, one-sided at alpha."""
    if test.deciding is None:
        needed = count_needed(test.estimate.point, test.limit, alpha)
        return None if needed is None else max(1, math.ceil(needed / test.count_per_run) - sum(test.runs))
    if test.deciding.se is None:
        return 2 - min(test.runs)
    return test.deciding.runs_to_decide(test.distance, alpha=alpha)


def _rule(comparisons: list[Comparison]) -> tuple[Ruling, Comparison | None]:
    """The ruling, and the comparison that decided it."""
    refuted = [comparison for comparison in comparisons if comparison.ruling == "refuted"]
    if refuted:
        return "refuted", min(refuted, key=lambda comparison: comparison.p)
    deciding = [comparison for comparison in comparisons if comparison.decides]
    open_ = [comparison for comparison in deciding if comparison.ruling == "undecided"]
    if open_:
        hopeless = [comparison for comparison in open_ if comparison.more_runs is None]
        return "undecided", (hopeless or sorted(open_, key=lambda comparison: -(comparison.more_runs or 0)))[
            0
        ]
    if deciding:
        return "holds", max(deciding, key=lambda comparison: comparison.p)
    return "undecided", None
