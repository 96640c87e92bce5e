"""A run that searches: many trials in one built world, each given to the search and kept before the next begins.

A trial overrides the searched input and, for a stream, its length; `trying` says what counts as loss and which trials
are made again. When the search is over, the tests that the file asks for are made in the same world, at what was found
(`benchmark`); then one more trial at the value found is kept with its samples, so every other metric of the run is at
the load that was found. A result that rests on a trial that stayed disturbed makes the run tainted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from virtlab.analysis.searches.luck import Criterion, luck_of, tried_of
from virtlab.campaign.execution.trial import Tries, shares_of
from virtlab.campaign.search import Bisection, Goal, MlrSearch, Search, TrialRequest, TrialResult
from virtlab.campaign.tests import Test, tests_of
from virtlab.campaign.trials.journal import ARTEFACT, Journal, TrialLine
from virtlab.experiment.work.search import SearchFor, goal_name, trial_ns
from virtlab.plan.backend import Observer, Outcome, Session
from virtlab.plan.model import Plan
from virtlab.results import RunWriter
from virtlab.units import show_count
from virtlab.units.factors import NS_PER_S


def make(search: SearchFor) -> Search:
    """The search that a file asks for."""
    warmup_s = search.warmup_ns / NS_PER_S
    if search.method == "mlrsearch":
        goals = []
        for goal in search.goals:
            final = trial_ns(goal, search.method) / NS_PER_S
            initial = min(goal.initial_trial / NS_PER_S if goal.initial_trial else 1.0, final)
            preceding = goal.preceding if initial < goal.duration_sum / NS_PER_S else 0
            goals.append(
                Goal(
                    goal.loss, goal.exceed, initial, final, goal.duration_sum / NS_PER_S, goal.width, preceding,
                    name=goal_name(goal),
                )
            )  # fmt: skip
        return MlrSearch(float(search.low), float(search.high), goals, warmup_s=warmup_s)
    goal = search.goals[0]
    return Bisection(
        float(search.low), float(search.high), trial_ns(goal, search.method) / NS_PER_S, goal.loss, goal.width,
        None if search.resolution is None else float(search.resolution), warmup_s,
        low_trial=search.method != "rfc2544", goal=goal_name(goal),
    )  # fmt: skip


def header(search: SearchFor, plan: Plan) -> dict[str, Any]:
    """What the trials are of: stands above them, and says whether a journal belongs to this run."""
    return {
        "plan": plan.identity(), "role": search.role, "parameter": search.parameter, "variable": search.written,
        "low": search.low, "high": search.high, "resolution": search.resolution, "method": search.method,
        "warmup_ns": search.warmup_ns, "until": None if search.until is None else search.until.text,
        "goals": [goal.model_dump() for goal in search.goals], "texts": goal_texts(search),
        "loss_per": search.loss_per, "tests": None if search.tests is None else dataclasses.asdict(search.tests),
    }  # fmt: skip


def goal_texts(search: SearchFor) -> dict[str, str]:
    """Goal -> its text for people, as shown beside every number."""
    if search.until is not None:
        return {"limit": f"not {search.until.text}, by bisection"}
    whose = " of every flow" if search.loss_per == "flow" else ""
    if search.method == "mlrsearch":
        made = make(search)
        assert isinstance(made, MlrSearch)
        return {goal.name: f"{goal.text(whose)}, MLRsearch" for goal in made.goals}
    goal = search.goals[0]
    seconds = trial_ns(goal, search.method) / NS_PER_S
    how = "RFC 2544" if search.method == "rfc2544" else "bisection"
    text = f"loss{whose} ≤ {100 * goal.loss:g} % in one trial of {seconds:g} s, width {100 * goal.width:g} %, {how}"
    return {goal_name(goal): text}


TESTS = frozenset({"latency", "frame-loss", "back-to-back", "recovery", "reset"})
DOUBTED = frozenset({"latency", "reset"})  # tests at loads that are good


@dataclass
class Conducted:
    """One run's search, and the tests after it, in a session."""

    search: SearchFor
    plan: Plan
    session: Session
    writer: RunWriter
    journal: Journal
    observe: Observer
    _algorithm: Search = field(init=False)
    _tries: Tries = field(init=False)
    _tests: list[Test] = field(default_factory=list, init=False)
    _texts: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._texts = goal_texts(self.search)
        self._algorithm = make(self.search)
        self._tries = Tries(self.search, self.plan, self.session, self.journal, self.observe)

    def run(self) -> Outcome:
        """Makes the trials that are left and the last one with samples; what came of all is an artefact."""
        told = iter([line for line in self.journal.lines if not line.repeated])
        ended = self._search(told) or self._benchmark(told)
        if ended is not None:
            if ended.status == "tainted":
                self.writer.artefact(ARTEFACT, [self._text().encode()])
            return ended
        outcome = self._last()
        if outcome.status in {"ok", "tainted"}:
            self.writer.artefact(ARTEFACT, [self._text().encode()])
        doubtful = self._doubtful()
        if outcome.status == "ok" and doubtful:
            return dataclasses.replace(outcome, status="tainted", reasons=(*outcome.reasons, *doubtful))
        return outcome

    def _search(self, lines: Iterator[TrialLine]) -> Outcome | None:
        """Until the search is over; an Outcome ends the run."""
        while (wanted := self._algorithm.ask()) is not None:
            line = next(lines, None)
            if line is not None:
                self._settle(wanted, line)
                continue
            self._say(wanted)
            made = self._tries.searched(wanted, lambda line, wanted=wanted: self._settle(wanted, line))  # type: ignore[misc]
            if isinstance(made, Outcome):
                return made
        return None

    def _settle(self, wanted: TrialRequest, line: TrialLine) -> TrialLine:
        """Tells the search; the line with the bounds that it knows now."""
        self._algorithm.tell(TrialResult(wanted.load, wanted.trial_s, line.loss_ratio))
        found = self._algorithm.bounds()[0]
        return dataclasses.replace(line, low=found.lower, high=found.upper)

    def _benchmark(self, lines: Iterator[TrialLine]) -> Outcome | None:
        """The tests at what was found; an Outcome ends the run."""
        if self.search.tests is None:
            return None
        parameters = self.plan.roles[self.search.role].parameters
        found = self._algorithm.bounds()[0].value
        self._tests = tests_of(self.search.tests, found, float(self.search.high), shares_of(parameters))
        for test in self._tests:
            while (asked := test.ask()) is not None:
                line = next(lines, None)
                if line is None:
                    number, value = len(self.journal.lines), self._tries.value(asked.load)
                    text = f"trial {number}: {test.name}, {self.search.written} {show_count(value)}"
                    left = f"about {test.trials_left()} trials of this test left"
                    after = f"; after the search for {self._goal()}"
                    self.observe.progress(f"{text} for {asked.trial_s:.4g} s, {left}{after}")
                    made = self._tries.tested(asked)
                    if isinstance(made, Outcome):
                        return made
                    line = made
                test.tell(line)
        return None

    def _goal(self) -> str:
        """The goal whose bounds are reported, and at whose value tests are made."""
        return next(iter(self._texts.values()))

    def _value(self, load: float) -> int:
        return max(self.search.low, self._tries.value(load))

    def _say(self, wanted: TrialRequest) -> None:
        found = self._algorithm.bounds()[0]
        left_s = self._algorithm.traffic_left_s()
        done_s = sum(line.trial_s for line in self.journal.lines)
        bounds = " to ".join(
            "?" if one is None else show_count(self._value(one)) for one in (found.lower, found.upper)
        )
        number, value = len(self.journal.lines), self._value(wanted.load)
        text = f"trial {number}: {self.search.written} {show_count(value)} for {wanted.trial_s:g} s, between {bounds}"
        self.observe.progress(
            f"{text}, at most about {left_s:.0f} s of traffic left; goal: {self._goal()}",
            done_s / (done_s + left_s) if left_s else None,
        )

    def _last(self) -> Outcome:
        """One pass at the value found, kept with its samples; at the lowest value when none was good."""
        found = self._algorithm.bounds()[0].value
        value = self._value(found if found is not None else float(self.search.low))
        trial_s = self.search.last_trial_ns / NS_PER_S
        text = f"a last trial at {self.search.written} {show_count(value)}, kept with its samples"
        self.observe.progress(f"{text}; found by {self._goal()}", 1.0)
        if self.observe.cancelled():
            return Outcome("cancelled")
        self.writer.overrides = self._tries.overrides(value, trial_s if self.search.until is None else None)
        return self.session.run(self._tries.trial("kept", self.writer.overrides), self.writer)

    def _text(self) -> str:
        found = [dataclasses.asdict(one) for one in self._algorithm.bounds()]
        texts = self._texts
        criteria = self._criteria()
        tried = tried_of([dataclasses.asdict(line) for line in self.journal.lines]) if criteria else []
        for one in found:
            one["text"] = texts.get(one["goal"], texts.get("limit", ""))
            if (criterion := criteria.get(one["goal"])) is not None:
                one["criterion"] = dataclasses.asdict(criterion)
                luck = luck_of(tried, criterion)
                one["luck"] = None if luck is None else {
                    "bad_share": luck.bad_share, "from_share": luck.from_share, "trials": luck.trials,
                    "decides": luck.decides,
                }  # fmt: skip
        tests = [dataclasses.asdict(value) for test in self._tests for value in test.results()]
        for value in tests:
            value["reason"] = value["reason"] if value["value"] is None else ""
        last = {"found": found, "tests": tests}
        return self.journal.text() + json.dumps(last, ensure_ascii=False, sort_keys=True) + "\n"

    def _criteria(self) -> dict[str, Criterion]:
        """Goals that a load may fail in part of its trials: of those it can be asked whether luck decided."""
        if not isinstance(self._algorithm, MlrSearch) or self.search.until is not None:
            return {}
        return {
            goal.name: Criterion(
                goal.loss_ratio, goal.exceed_ratio, goal.initial_trial_s, goal.final_trial_s, goal.duration_sum_s,
                goal.width,
            )
            for goal in self._algorithm.goals
        }  # fmt: skip

    def _doubtful(self) -> list[str]:
        """Bounds that rest on trials which stayed disturbed, and tests at good loads that did.

        Above what is good the generator may itself be at its end, whatever else the machine does, so tests at overload
        do not doubt the run; their lines stay marked.
        """
        bounds = {
            self._value(bound)
            for one in self._algorithm.bounds() for bound in (one.lower, one.upper) if bound is not None
        }  # fmt: skip
        marked = [
            line
            for line in self.journal.lines
            if line.disturbed and not line.repeated
            and (line.purpose in DOUBTED if line.purpose in TESTS else line.value in bounds)
        ]  # fmt: skip
        if not marked:
            return []
        where = "at the bounds found, or of tests at good loads,"
        return [f"search: {len(marked)} trials {where} stayed disturbed ({marked[0].disturbed})"]
