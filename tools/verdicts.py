"""Verdicts on the claims of study files: of datasets, of simulated worlds that are the same, and of `virtlab rt`.

A dataset of some of a file's runs decides the claims of which it has every design point, and says how many runs it has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.statements import PUBLISHED, ROOT, STATEMENTS, keep, loaded, read

from virtlab.analysis import judge
from virtlab.analysis.claims import Claim as Parsed
from virtlab.analysis.claims.levels import find_operand, matches
from virtlab.analysis.claims.nouns import Difference, Equivalent, Ordering
from virtlab.analysis.judging.alike import told_apart
from virtlab.analysis.judging.cells import Cells
from virtlab.analysis.judging.verdict import Verdict
from virtlab.analysis.table import point_of
from virtlab.documents import yaml_values
from virtlab.lazy import np
from virtlab.report.gather.results import values
from virtlab.report.gather.sources.source_figures import FILE_NAME
from virtlab.results import Dataset
from virtlab.stats import planned_sizes
from virtlab.units import display

SAME = (
    "to this simulated world"  # so begins why it cannot judge: some of a claim's design points show it, too
)
NOT_JUDGED = re.compile(r"\Anot judged( at \d+ design points)?: ")  # the verdict says it already
Point = tuple[tuple[str, str], ...]  # a design point: (factor, level) sorted by factor


def record(dataset_folder: Path) -> int:
    """The verdicts that a dataset of a study's file has on the claims as the file has them now; how many there are."""
    dataset = Dataset.open(dataset_folder)
    file = source_of(dataset.experiment_text)
    experiment = loaded(file)
    used = [one for one in dataset.runs() if one.status == "ok"]
    repeat = experiment.repeat
    looks = planned_sizes(repeat.minimum, repeat.maximum) if repeat.until else ()
    there = values(used, looks, experiment.factors)
    every = [{name: str(level) for name, level in point.levels.items()} for point in experiment.points()]
    done = Counter(point_of(row.levels) for row in there.runs.values())
    worlds = {point_of(there.runs[run].levels): world for run, world in there.worlds.items()}
    claims = experiment.claims
    judged = judge([claim.parsed() for claim in claims], there, repeat.confidence, published=PUBLISHED)
    arm = "simulated" if dataset.manifest.backend == "simulator" else "measured"
    study = read(file.parent / STATEMENTS) if (file.parent / STATEMENTS).exists() else None
    rows = []
    for claim, verdict in zip(claims, judged, strict=True):
        made: dict[str, list[Verdict]] = {"": [verdict]}
        for member in verdict.members:
            if member.claim.at:
                made.setdefault(member.claim.at, []).append(member)
        for at, verdicts in made.items():
            row = row_of(file.name, claim.id, arm, at, verdicts)
            platform = study.platform if study is not None and arm == "simulated" else ""
            same = [unmodelled(each.claim, worlds, platform) for each in verdicts[0].members or verdicts]
            if all(same):
                row |= {"verdict": "not judged", "found": same[0]}
            points = list(
                dict.fromkeys(point for each in verdicts for point in own_points(each.claim, every))
            )
            if row["verdict"] != "not judged":
                row["runs"] = share_of_runs(points, done, repeat.minimum)
            same_world = row["verdict"] == "not judged" and row["found"].startswith(SAME)
            if same_world or all(done[point] for point in points):
                rows.append(row)
    keep(file.parent, rows)
    return len(rows)


def compare_worlds(file: Path) -> int:
    """The claims of a study's file that a simulated world cannot judge, whatever its runs would give: the platforms
    that they compare or name are one world to it. Nothing is run; how many there are.
    """
    from virtlab.campaign.run import first_plan
    from virtlab.planner.queues.ports import all_ports, with_port_links
    from virtlab.simulator.profile import IDEAL_PROFILE
    from virtlab.simulator.session import ordered_once, world_once

    experiment, study = loaded(file), read(file.parent / STATEMENTS)
    worlds = {
        tuple(sorted((name, str(level)) for name, level in point.levels.items())): world_once(
            ordered_once(with_port_links(first_plan(experiment, point), all_ports)), IDEAL_PROFILE
        )
        for point in experiment.points()
    }
    rows = []
    for claim in experiment.claims:
        parsed = claim.parsed()
        made: dict[str, list[Parsed]] = {"": [parsed]}
        for member in parsed.members:
            made.setdefault(member.at, []).append(member)
        for at, claims in made.items():
            each = [one for whole in claims for one in (whole.members or (whole,))]
            same = [same_worlds(one, worlds, study.platform, experiment.factors) for one in each]
            if all(same):
                rows.append({
                    "file": file.name, "claim": claim.id, "at": at, "arm": "simulated", "verdict": "not judged",
                    "found": same[0], "runs": "", "text": claims[0].text,
                })  # fmt: skip
    keep(file.parent, rows)
    return len(rows)


def same_worlds(
    claim: Parsed, worlds: Mapping[Point, str], platform: str, factors: Mapping[str, Sequence[str]]
) -> str:
    """Why worlds that are the same cannot judge a claim; empty where they can."""
    if reason := unmodelled(claim, worlds, platform):
        return reason
    over = {one.name for one in claim.averaged}
    joined: dict[Point, list[str]] = {}
    for point, world in worlds.items():
        if all(matches(one, dict(point)) for one in claim.where):
            joined.setdefault(tuple(pair for pair in point if pair[0] not in over), []).append(world)
    texts = {point: "\n".join(each) for point, each in joined.items()}
    own = {name: [str(level) for level in levels] for name, levels in factors.items() if name not in over}
    left, notes = told_apart(claim, Cells(dict.fromkeys(texts, np.zeros(1)), {}, own, {}, worlds=texts))
    compared = set(levels_compared(claim, own))
    judged = [point for point in left.of if not compared or compared & set(point)]
    return NOT_JUDGED.sub("", notes[0]) if notes and not judged else ""


def own_points(claim: Parsed, every: Iterable[Mapping[str, str]]) -> list[Point]:
    """The design points that a claim is about: those of its conditions, at the levels that it compares."""
    wanted: list[Point] = []
    for each in claim.members or (claim,):
        mine = [point for point in every if all(matches(condition, point) for condition in each.where)]
        factors = {name: list(dict.fromkeys(point[name] for point in mine)) for name in (mine or [{}])[0]}
        compared: dict[str, set[str]] = {}
        for name, level in levels_compared(each, factors):
            compared.setdefault(name, set()).add(level)
        wanted += [
            tuple(sorted(point.items()))
            for point in mine
            if all(point[name] in levels for name, levels in compared.items())
        ]
    return list(dict.fromkeys(wanted))


def levels_compared(claim: Parsed, factors: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """The levels that a claim sets beside each other by name; none where it speaks of all levels of a factor."""
    relation = claim.relation
    if isinstance(relation, Difference):
        operands = (relation.left, relation.right)
    elif isinstance(relation, (Ordering, Equivalent)):
        operands = relation.operands
    else:
        return
    factor: str | None = None
    for operand in operands:
        try:
            factor, level = find_operand(operand, factors, factor)
        except ValueError:
            return
        yield factor, level


def unmodelled(claim: Parsed, worlds: Mapping[Point, str], factor: str) -> str:
    """Why simulated worlds decide nothing about the one platform that a claim names: it is the same as others there."""
    mine = [one for one in claim.where if one.factor == factor and one.op == "="]
    by_rest: dict[Point, dict[str, str]] = {}
    for point, world in worlds.items() if mine else ():
        rest = tuple(pair for pair in point if pair[0] != factor)
        by_rest.setdefault(rest, {})[dict(point)[factor]] = world
    for by_level in by_rest.values():
        named = [level for level in by_level if all(matches(one, {factor: level}) for one in mine)]
        others = [level for level in by_level if level not in named]
        same = [other for other in others if any(by_level[level] == by_level[other] for level in named)]
        if same:
            names = f"{', '.join([*named, *same][:-1])} and {same[-1]}"
            return f"{SAME} {factor} {names} are the same"
    return ""


def share_of_runs(points: Iterable[Point], done: Mapping[Point, int], least: int) -> str:
    """How many of the runs that the file asks for a claim rests on; empty where it has them all."""
    made = [min(done[point], least) for point in points]
    return "" if sum(made) == least * len(made) else f"{sum(made)} of {least * len(made)} runs"


def source_of(text: str) -> Path:
    """The study file that a dataset is of, whatever it claims now. SystemExit where none makes the same runs any
    more.
    """
    for path in sorted((ROOT / "experiments").glob("*/*.yaml")):
        if path.name not in {STATEMENTS, FILE_NAME} and runs_of(path.read_text(encoding="utf-8")) == runs_of(
            text
        ):
            return path
    raise SystemExit("the dataset's experiment file is of no study, or was changed since: run it again")


def runs_of(text: str) -> dict[str, Any]:
    """What a file says of its runs: all but what it says about them."""
    return {key: value for key, value in yaml_values(text).items() if key not in {"claims", "title"}}


def row_of(file: str, claim: str, arm: str, at: str, verdicts: list[Verdict]) -> dict[str, str]:
    """A line of verdicts.csv, of a claim or of its members at some levels: as weak as the weakest."""
    rulings = {ruling_of(verdict): verdict for verdict in verdicts}
    ruling = next(one for one in ("refuted", "undecided", "not judged", "holds") if one in rulings)
    decided = rulings[ruling]
    return {
        "file": file, "claim": claim, "at": at, "arm": arm, "verdict": ruling, "found": found_text(decided),
        "runs": "", "text": decided.claim.text,
    }  # fmt: skip


def ruling_of(verdict: Verdict) -> str:
    """As the report has it, but a claim that nothing was compared for is not judged."""
    return str(verdict.ruling) if verdict.comparisons else "not judged"


def found_text(verdict: Verdict) -> str:
    """The estimate that decided with its interval; without any, why there is none."""
    estimate = verdict.estimate
    if estimate is None:
        notes = (verdict.members[0] if verdict.members else verdict).notes
        return NOT_JUDGED.sub("", "; ".join(notes[:1]))
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
                "verdict": words[check.holds], "found": check.here, "runs": "", "text": check.published,
            }
            for check in checks
        ),
    )  # fmt: skip
    return len(checks)
