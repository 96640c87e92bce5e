"""Old against new, setting by setting: better, worse, different, equivalent within a margin, or undecided.

Each comparison is Welch's test of the difference and two one-sided tests of equivalence (`stats.compare`). Many are
made at once, so both families are corrected by Holm: with two equal datasets the chance of any alarm is 1 - level,
however many quantities there are. A difference that is clear and yet within the margin is equivalent: the margin says
which differences matter. Settings are matched by the levels of the factors that both have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from virtlab.analysis.shares import of_one_thing
from virtlab.changes.baseline import Baseline, Measured, Quantity, Setting, heading
from virtlab.changes.margins import Margin, Margins
from virtlab.errors import ExperimentError
from virtlab.lazy import np
from virtlab.stats import Estimate, compare, contrast, holm, mean_interval
from virtlab.units import did_you_mean, same_levels

Finding = Literal["better", "worse", "different", "equivalent", "undecided"]
RUNS_LEAST = 3
POWER = 0.95  # with which the requested runs show a difference as large as the margin
ALARMS = frozenset({"worse", "different"})
UNRECORDED = {"pushback": "guest"}  # what a fact was before baselines had it


@dataclass(frozen=True, slots=True)
class Change(Setting):
    """One quantity at one setting. `difference` is new less old; `p` and `p_equivalent` are corrected."""

    old: Estimate | None
    new: Estimate | None
    difference: Estimate | None
    margin: float | None
    p: float | None
    p_equivalent: float | None
    finding: Finding
    why: str = ""
    more_runs: int | None = None

    @property
    def relative(self) -> float | None:
        """The difference as a share of the old value; None where that is zero or absent."""
        if self.difference is None or self.old is None or self.old.point == 0:
            return None
        return self.difference.point / abs(self.old.point)


@dataclass(frozen=True, slots=True)
class Changes:
    """All comparisons, and what else differs between the two."""

    old: Baseline
    new: Baseline
    rows: tuple[Change, ...]
    notes: tuple[str, ...]
    level: float

    @property
    def exit_code(self) -> int:
        """As of claims: 1 something is worse, 4 something is undecided, else 0."""
        found = {row.finding for row in self.rows}
        return 1 if found & ALARMS else 4 if "undecided" in found else 0


@dataclass(slots=True)
class _Pair:
    """A comparison before its p-values are corrected."""

    quantity: Quantity
    old: Measured
    new: Measured | None
    margin: Margin
    p: float | None = None
    p_equivalent: float | None = None


def differences(
    old: Baseline, new: Baseline, margins: Margins, *, paths: Collection[str] = (), level: float = 0.95
) -> Changes:
    """Compares the quantities of both; `paths` restricts them. ExperimentError where nothing can be compared."""
    _known(old, {*paths, *margins.by_path})
    theirs = {one.path: one for one in new.quantities}
    notes = _facts(old, new)
    pairs: list[_Pair] = []
    for quantity in old.quantities:
        other = theirs.get(quantity.path)
        if paths and quantity.path not in paths:
            continue
        if other is not None and (other.unit, other.goal) != (quantity.unit, quantity.goal):
            what = "unit" if other.unit != quantity.unit else "goal"
            notes.append(
                f"{quantity.path} is not compared: its {what} was {getattr(quantity, what) or 'none'}, "
                f"now {getattr(other, what) or 'none'}."
            )
            continue
        if other is None:
            notes.append(f"{quantity.path} is in the old dataset only.")
        pairs += _matched(quantity, other, margins.of(quantity), notes)
    mine = {one.path for one in old.quantities}
    notes += [f"{path} is in the new dataset only." for path in theirs if path not in mine]
    if not pairs:
        what = "; ".join(["no quantity can be compared", *(note.rstrip(".") for note in notes)])
        raise ExperimentError(f"{old.name}, {new.name}", what, "name datasets of one experiment")
    return Changes(old, new, tuple(_judged(pairs, level)), tuple(notes), level)


def _known(old: Baseline, paths: Collection[str]) -> None:
    known = [one.path for one in old.quantities]
    for path in sorted(paths):
        if path not in known:
            raise ExperimentError(
                "--margin or --quantity",
                f"'{path}' is not a quantity of {old.name}",
                did_you_mean(path, known),
            )


def _facts(old: Baseline, new: Baseline) -> list[str]:
    """Other differences between the two datasets, a sentence each."""
    notes = []
    if old.backend != new.backend:
        notes.append(f"The backend was {old.backend}, now {new.backend}.")
    if old.experiment_sha256 != new.experiment_sha256:
        notes.append("The experiment file differs; settings are matched by the levels that both have.")
    for name in dict.fromkeys([*old.facts, *new.facts]):
        before, after = (each.facts.get(name, UNRECORDED.get(name)) for each in (old, new))
        if before != after:
            notes.append(f"The {name} was {before or 'not recorded'}, now {after or 'not recorded'}.")
    return notes


def _matched(quantity: Quantity, other: Quantity | None, margin: Margin, notes: list[str]) -> list[_Pair]:
    """Each old setting with the new one of the same levels; what has no counterpart is named."""
    found: list[_Pair] = []
    met: set[int] = set()
    if other is not None and other.unit != quantity.unit:
        what = f"is in {quantity.unit} there and in {other.unit} here"
        notes.append(f"{quantity.path} is not compared: it {what}, and so another metric.")
        other = None
    for old in quantity.measured:
        alike = [
            (at, new)
            for at, new in enumerate(other.measured if other is not None else [])
            if same_levels(old.levels, new.levels) and new.links == old.links
        ]
        if len(alike) > 1:
            notes.append(
                f"{quantity.path} at {words(old.levels)} is not compared: several new settings match."
            )
            continue
        met |= {at for at, _ in alike}
        if alike and not of_one_thing(old.share_of, alike[0][1].share_of):
            notes.append(
                f"{quantity.path} at {words(old.levels)} is not compared: it was a share of {old.share_of}, "
                f"now it is one of {alike[0][1].share_of}."
            )
            continue
        found.append(_Pair(quantity, old, alike[0][1] if alike else None, margin))
    for at, new in enumerate(other.measured if other is not None else []):
        if at not in met:
            notes.append(f"{quantity.path} at {words(new.levels, new.links)} is in the new dataset only.")
    return found


def words(levels: Mapping[str, str], links: str = "") -> str:
    """A setting in words.

    >>> words({"switches": "2"}), words({})
    ('switches 2', 'the only setting')
    """
    parts = [f"{name} {level}" for name, level in levels.items()]
    return ", ".join([*parts, *([f"links {links}"] if links and parts else [])]) or "the only setting"


def _judged(pairs: list[_Pair], level: float) -> list[Change]:
    tested = []
    for pair in pairs:
        if pair.new is None or min(len(pair.old.values), len(pair.new.values)) < RUNS_LEAST:
            continue
        a, b = np.asarray(pair.new.values), np.asarray(pair.old.values)
        if sorted(pair.new.values) == sorted(pair.old.values):
            pair.p, pair.p_equivalent = 1.0, 0.0  # the same numbers: nothing changed
        else:
            found = compare(
                a, b, level=level, margin=pair.margin.absolute, relative_margin=pair.margin.relative
            )
            assert found is not None
            pair.p, pair.p_equivalent = found.p, found.p_equivalent
        tested.append(pair)
    apart = holm([pair.p if pair.p is not None else 1.0 for pair in tested])
    alike = holm([pair.p_equivalent if pair.p_equivalent is not None else 1.0 for pair in tested])
    for pair, p, p_equivalent in zip(tested, apart, alike, strict=True):
        pair.p, pair.p_equivalent = p, p_equivalent
    return [_change(pair, level, max(1, len(tested))) for pair in pairs]


def _change(pair: _Pair, level: float, tests: int) -> Change:
    quantity, old, new = pair.quantity, pair.old, pair.new
    metric, unit = quantity.path, quantity.unit
    before = mean_interval(old.values, level=level, metric=metric, unit=unit)
    after = mean_interval(new.values, level=level, metric=metric, unit=unit) if new is not None else None
    head = (*heading(quantity, old), before, after)
    if new is None or not new.values:
        return Change(*head, None, None, None, None, "undecided", "the new dataset has no value")
    if before is None:
        return Change(*head, None, None, None, None, "undecided", "the old dataset has no value")
    found = contrast([np.asarray(new.values), np.asarray(old.values)], [1.0, -1.0])
    low, high = found.interval(level)
    runs = len(old.values) + len(new.values)
    difference = Estimate(metric, unit, found.value, low, high, level, runs, "Welch t")
    margin = pair.margin.of(before.point)
    fewest = min(len(old.values), len(new.values))
    if pair.p is None or pair.p_equivalent is None:
        why = f"{fewest} {'run' if fewest == 1 else 'runs'}, {RUNS_LEAST} are needed"
        return Change(*head, difference, margin, None, None, "undecided", why, RUNS_LEAST - fewest)
    alpha = 1.0 - level
    rest = (difference, margin, pair.p, pair.p_equivalent)
    if pair.p_equivalent <= alpha:
        return Change(*head, *rest, "equivalent")
    if pair.p <= alpha:
        change = Change(*head, *rest, "different")
        return replace(change, finding=change.direction(found.value))
    share = alpha / 2 / tests
    more = found.runs_to_decide(margin, alpha=share, power=POWER)
    if more == 1 and found.se:  # the runs should have sufficed: what is seen lies near the margin
        more = found.runs_to_decide(
            max(abs(found.value), abs(margin - abs(found.value))), alpha=share, power=POWER
        )
    return Change(*head, *rest, "undecided", "the interval is too wide", more)
