"""A run that searches: many trials in one built world, each told to the search and kept before the next begins.

A trial overrides the searched input and, for a stream, its length. Loss is from counters, read after the traffic has
stopped and drained: what the sender sent less what arrived. Frames that the sender could not send in time count as
lost beyond 10 us worth (the sender's own counter allows for that); frames that the receiver's own ring dropped had
come through the device, and do not. A trial whose generator or receiver was starved is made again; one that stays
so after three attempts counts as measured and is marked, and a result that rests on one makes the run tainted.

When the search is over, one more trial at the value found is kept with its samples, so every metric of the run is
at the load that was found. Source: RFC 2544, section 26; draft-ietf-bmwg-mlrsearch, trial loss ratio.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from virtlab.campaign.search import Bisection, Goal, MlrSearch, Search, Told, Wanted
from virtlab.campaign.trials import ARTEFACT, Journal, TrialLine
from virtlab.errors import MachineError
from virtlab.plan.backend import Outcome, Trial
from virtlab.results.record import Stream
from virtlab.results.trial import TrialRecord

if TYPE_CHECKING:
    from virtlab.experiment.search import SearchFor
    from virtlab.plan.backend import Columns, Event, Observer, Session
    from virtlab.plan.model import Plan
    from virtlab.results import RunWriter

ATTEMPTS = 3
SAMPLES_MAX_BYTES = 512 * 2**20
NS = 10**9


@dataclass
class TrialSink:
    """Takes what one trial measures: counters always, samples only when a condition asks for them."""

    samples: bool
    blocks: dict[Stream, list[dict[str, Any]]] = field(default_factory=dict)
    _bytes: int = 0

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Holds rows in memory. MachineError when a trial makes more of them than a search can hold."""
        if schema != "counter/1" and not self.samples:
            return
        import numpy as np

        rows = {name: np.array(column) for name, column in columns.items()}
        self._bytes += sum(column.nbytes for column in rows.values())
        if self._bytes > SAMPLES_MAX_BYTES:
            raise MachineError(
                "search",
                f"a trial makes more than {SAMPLES_MAX_BYTES // 2**20} MiB of samples",
                "shorten the roles",
            )
        self.blocks.setdefault(Stream(stream, schema), []).append(rows)

    def event(self, event: Event) -> None:
        """Events of trials are not kept."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Artefacts of trials are not kept."""


def make(search: SearchFor) -> Search:
    """The search that a file asks for."""
    from virtlab.experiment.search import goal_name, trial_ns

    warmup_s = search.warmup_ns / NS
    if search.method == "mlrsearch":
        goals = []
        for goal in search.goals:
            final = trial_ns(goal, search.method) / NS
            initial = min(goal.initial_trial / NS if goal.initial_trial else 1.0, final)
            preceding = 2 if initial < goal.duration_sum / NS else 0
            goals.append(
                Goal(
                    goal.loss, goal.exceed, initial, final, goal.duration_sum / NS, goal.width, preceding,
                    name=goal_name(goal),
                )
            )  # fmt: skip
        return MlrSearch(float(search.low), float(search.high), goals, warmup_s=warmup_s)
    goal = search.goals[0]
    return Bisection(
        float(search.low), float(search.high), trial_ns(goal, search.method) / NS, goal.loss, goal.width,
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
    }  # fmt: skip


def goal_texts(search: SearchFor) -> dict[str, str]:
    """Goal -> its text for people, as it stands beside every number."""
    from virtlab.experiment.search import goal_name, trial_ns

    if search.until is not None:
        return {"limit": f"not {search.until.text}, by bisection"}
    if search.method == "mlrsearch":
        made = make(search)
        assert isinstance(made, MlrSearch)
        return {goal.name: f"{goal.text()}, MLRsearch" for goal in made.goals}
    goal = search.goals[0]
    seconds = trial_ns(goal, search.method) / NS
    how = "RFC 2544" if search.method == "rfc2544" else "bisection"
    text = f"loss ≤ {100 * goal.loss:g} % in one trial of {seconds:g} s, width {100 * goal.width:g} %, {how}"
    return {goal_name(goal): text}


@dataclass
class Conducted:
    """One run's search in a session."""

    search: SearchFor
    plan: Plan
    session: Session
    writer: RunWriter
    journal: Journal
    observe: Observer
    _algorithm: Search = field(init=False)

    def __post_init__(self) -> None:
        self._algorithm = make(self.search)

    def run(self) -> Outcome:
        """Makes the trials that are left and the last one with samples; what came of the search is an artefact."""
        replayed = iter([line for line in self.journal.lines if not line.repeated])
        while (wanted := self._algorithm.ask()) is not None:
            line = next(replayed, None)
            if line is None:
                made = self._make(wanted)
                if isinstance(made, Outcome):
                    return made
                line = made
            self._algorithm.tell(Told(wanted.load, wanted.trial_s, line.loss_ratio))
        outcome = self._last()
        if outcome.status in {"ok", "tainted"}:
            self.writer.artefact(ARTEFACT, [self._text().encode()])
        doubtful = self._doubtful()
        if outcome.status == "ok" and doubtful:
            return dataclasses.replace(outcome, status="tainted", reasons=(*outcome.reasons, *doubtful))
        return outcome

    def _value(self, load: float) -> int:
        """The load as the input takes it: a whole number, never above what was asked."""
        return max(self.search.low, min(self.search.high, int(load + 1e-6)))

    def _overrides(self, value: int, trial_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {f"{self.search.role}.{self.search.parameter}": value}
        if self.search.until is None:
            found[f"{self.search.role}.duration_ns"] = round(trial_s * NS)
        return found

    def _trial(self, name: str, overrides: dict[str, Any]) -> Trial:
        digest = hashlib.sha256(f"{self.plan.seed}\0{name}".encode()).digest()
        return Trial(name, int.from_bytes(digest[:8], "big") >> 1, overrides)

    def _make(self, wanted: Wanted) -> TrialLine | Outcome:
        """One trial, made again while it is disturbed; an Outcome ends the run."""
        value = self._value(wanted.load)
        for attempt in range(ATTEMPTS):
            if self.observe.cancelled():
                return Outcome("cancelled")
            number = len(self.journal.lines)
            self._tell(number, wanted)
            sink = TrialSink(samples=self.search.until is not None)
            overrides = self._overrides(value, wanted.trial_s)
            outcome = self.session.run(self._trial(f"t{number}", overrides), sink)
            if outcome.status in {"failed", "cancelled"}:
                return outcome
            line = self._judged(number, wanted, value, overrides, outcome, sink)
            again = bool(line.disturbed) and attempt + 1 < ATTEMPTS
            found = self._algorithm.found()[0]
            line = dataclasses.replace(line, repeated=again, low=found.lower, high=found.upper)
            self.journal.add(line)
            if not again:
                return line
        raise AssertionError("the last attempt counts")

    def _judged(
        self, number: int, wanted: Wanted, value: int, overrides: dict[str, Any], outcome: Outcome, sink: TrialSink
    ) -> TrialLine:  # fmt: skip
        from virtlab.analysis.context import counter_rows, role_counters

        record = TrialRecord.of(self.plan, outcome, sink.blocks, overrides)
        about: dict[str, Any] = {
            "id": f"t{number}", "purpose": wanted.purpose, "load": wanted.load, "value": value,
            "trial_s": wanted.trial_s, "disturbed": "; ".join(outcome.reasons) if outcome.status == "tainted" else "",
        }  # fmt: skip
        if self.search.until is not None:
            measured = self._measured(record)
            return TrialLine(**about, loss_ratio=1.0 if self._holds(measured) else 0.0, measured=measured)
        counters = role_counters(counter_rows(record), self.search.role)
        sent, received = counters.get("sent_packets", 0), counters.get("received_packets", 0)
        unsent = counters.get("unsent_packets", 0)
        drops = counters.get("ring_drops", 0) + counters.get("socket_drops", 0)
        if unsent and not counters.get("blocked_sends", 0) and outcome.clocks.get("run") != "virtual":
            starved = f"{unsent} frames were not sent although nothing held the sender back: it was starved"
            about["disturbed"] = "; ".join(part for part in (about["disturbed"], starved) if part)
        whole = sent + unsent
        lost = max(0, sent - received - drops) + unsent
        return TrialLine(
            **about, loss_ratio=lost / whole if whole else 1.0, sent=sent, received=received, unsent=unsent,
            receiver_drops=drops,
        )  # fmt: skip

    def _measured(self, record: TrialRecord) -> float | None:
        from virtlab.analysis.runs import values_of_run

        assert self.search.until is not None
        path = self.search.until.path
        return next((row.value for row in values_of_run(record) if str(row.path) == path), None)

    def _holds(self, measured: float | None) -> bool:
        """Whether the condition holds; where the metric could not be had, the value was too much by itself."""
        until = self.search.until
        assert until is not None
        if measured is None:
            return True
        return {
            "<": measured < until.limit, "<=": measured <= until.limit,
            ">": measured > until.limit, ">=": measured >= until.limit,
        }[until.operator]  # fmt: skip

    def _tell(self, number: int, wanted: Wanted) -> None:
        found = self._algorithm.found()[0]
        left_s = self._algorithm.traffic_left_s()
        done_s = sum(line.trial_s for line in self.journal.lines)
        bounds = " to ".join(
            "?" if one is None else f"{self._value(one):,}" for one in (found.lower, found.upper)
        )
        value = self._value(wanted.load)
        text = f"trial {number}: {self.search.written} {value:,} for {wanted.trial_s:g} s, between {bounds}"
        self.observe.progress(
            f"{text}, at most about {left_s:.0f} s of traffic left",
            done_s / (done_s + left_s) if left_s else None,
        )

    def _last(self) -> Outcome:
        """One pass at the value found, kept with its samples; at the lowest value when none was good."""
        found = self._algorithm.found()[0].value
        value = self._value(found if found is not None else float(self.search.low))
        trial_s = min(self.search.longest_trial_ns / NS, 1.0)
        self.observe.progress(f"a last trial at {value:,}, kept with its samples", 1.0)
        if self.observe.cancelled():
            return Outcome("cancelled")
        self.writer.overrides = self._overrides(value, trial_s)
        return self.session.run(self._trial("kept", self.writer.overrides), self.writer)

    def _text(self) -> str:
        import json

        found = [dataclasses.asdict(one) for one in self._algorithm.found()]
        texts = goal_texts(self.search)
        for one in found:
            one["text"] = texts.get(one["goal"], texts.get("limit", ""))
        return self.journal.text() + json.dumps({"found": found}, ensure_ascii=False, sort_keys=True) + "\n"

    def _doubtful(self) -> list[str]:
        """Bounds that rest on trials which stayed disturbed."""
        bounds = {
            self._value(bound)
            for one in self._algorithm.found() for bound in (one.lower, one.upper) if bound is not None
        }  # fmt: skip
        marked = [
            line
            for line in self.journal.lines
            if line.disturbed and not line.repeated and line.value in bounds
        ]
        if not marked:
            return []
        return [f"search: {len(marked)} trials at the bounds found stayed disturbed ({marked[0].disturbed})"]
