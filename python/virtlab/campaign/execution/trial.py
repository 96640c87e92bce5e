"""One trial in a built world: its overrides, what is taken from it, and how often it is made again.

Loss is from counters, read after the traffic has stopped and drained: what the sender sent less what arrived.
Frames that the sender could not send in time count as lost beyond 10 us worth (the sender's own counter allows for
that); frames that the receiver's own ring dropped had come through the device, and do not. Where the loss of each
flow judges a load it is the worst flow's; drops of the receiver's ring, which know no flow, are taken off all flows
alike. A trial that is disturbed for whatever reason (generator or receiver starved, a clock that stepped, a switch
that was late, samples without memory) is made again, three times in all. One that stays disturbed may be so by its
load, which the generator or the receiver cannot bear: the search gets what was measured, and the line is marked,
so that no answer may rest on it. Where five trials in a row stay disturbed although all their frames left in time
and none was dropped by the receiver, it is not the load but the machine, and the run ends there. Source: RFC 2544,
section 26; draft-ietf-bmwg-mlrsearch, trial loss ratio.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.analysis.context import RoleContext, counter_rows, role_counters
from virtlab.analysis.runs import values_of_run
from virtlab.analysis.values import Collector
from virtlab.analysis.window import RoleWindow
from virtlab.analysis.workloads.stream import clock_bound_ns
from virtlab.campaign.search import TrialRequest
from virtlab.campaign.tests import BenchmarkTrial, tests_of
from virtlab.campaign.trials.journal import Journal, TrialLine
from virtlab.campaign.trials.packets import Delays, Gaps
from virtlab.campaign.trials.sink import BESIDE, TrialSink
from virtlab.catalogue.actions import RESET, SET, begins
from virtlab.catalogue.flows import flow_names, flows_of
from virtlab.experiment.work.search import SearchFor
from virtlab.plan.backend import Observer, Outcome, Session, Trial
from virtlab.plan.model import Action, Plan, Trigger
from virtlab.plan.seeds import trial_seed
from virtlab.results.trial import TrialRecord
from virtlab.units import show_count
from virtlab.units.factors import NS_PER_S

ATTEMPTS = 3
IN_A_ROW = 5  # trials that stay disturbed by what is not their load
AT_GOOD_LOADS = frozenset(
    {"search", "latency", "reset"}
)  # the others are made at loads that no device has to bear
STILL_LOST = "frames were still lost at the end of the trial"
OTHER_CLOCKS = "the two ends have different clocks, and how far apart they are is not known"


@dataclass
class Tries:
    """Makes trials of one run; every line is in the journal before the next begins."""

    search: SearchFor
    plan: Plan
    session: Session
    journal: Journal
    observe: Observer

    def __post_init__(self) -> None:
        self._role = self.plan.roles[self.search.role]
        self._flows = flows_of(self._role.parameters)

    def value(self, load: float) -> int:
        """The load as the input takes it."""
        return value_of(self.search, load)

    def overrides(self, value: int, trial_s: float | None) -> dict[str, Any]:
        """What a trial changes: the searched input, and a stream's length."""
        found: dict[str, Any] = {f"{self.search.role}.{self.search.parameter}": value}
        if trial_s is not None:
            found[f"{self.search.role}.duration_ns"] = max(1, round(trial_s * NS_PER_S))
        elif self.search.own_trial_ns is not None:
            found[f"{self.search.role}.duration_ns"] = self.search.own_trial_ns
        return found

    def trial(self, name: str, overrides: Mapping[str, Any], also: tuple[Action, ...] = ()) -> Trial:
        """A trial with a seed of its own."""
        return Trial(name, trial_seed(self.plan.seed, name), overrides, also)

    def searched(self, wanted: TrialRequest, settle: Callable[[TrialLine], TrialLine]) -> TrialLine | Outcome:
        """One trial of the search; `settle` gives the search a line that counts, and writes its bounds into it."""
        until, value = self.search.until, max(self.search.low, self.value(wanted.load))
        about = {"purpose": wanted.purpose, "load": wanted.load, "value": value, "trial_s": wanted.trial_s}
        taken: list[Gaps] = []

        def sink() -> TrialSink:
            taken[:] = [Gaps(self._flows)] if self.search.loss_per == "flow" and until is None else []
            take = taken[0].take if taken else None
            return TrialSink(samples=until is not None, role=self.search.role, take=take)

        def judged(number: int, outcome: Outcome, sink: TrialSink) -> TrialLine:
            line = self._line(number, about, outcome, sink, taken[0] if taken else None)
            if until is None:
                return line
            measured = self._measured(TrialRecord.of(self.plan, outcome, sink.blocks, overrides))
            return dataclasses.replace(
                line, loss_ratio=1.0 if self._holds(measured) else 0.0, measured=measured, sent=None, received=None,
                unsent=None, receiver_drops=None,
            )  # fmt: skip

        overrides = self.overrides(value, wanted.trial_s if until is None else None)
        return self._attempts(overrides, (), sink, judged, settle)

    def tested(self, request: BenchmarkTrial) -> TrialLine | Outcome:
        """One trial of a test."""
        value = self.value(request.load)
        overrides = self.overrides(value, request.trial_s)
        also = extra_actions(self.search, self.plan, request)
        about = {
            "purpose": request.test, "part": request.part, "load": request.load, "value": value, "trial_s": request.trial_s,
        }  # fmt: skip
        taken: list[Delays | Gaps] = []

        def sink() -> TrialSink:
            take: Delays | Gaps | None = None
            if request.kind == "delay":
                take = Delays(self._flows, round(request.trial_s * NS_PER_S / 2), request.tagged)
            elif request.kind in {"overload", "reset"}:
                take = Gaps(self._flows, self._flows_by_way_of(request.guest))
            taken[:] = [] if take is None else [take]
            return TrialSink(samples=False, role=self.search.role, take=None if take is None else take.take)

        def judged(number: int, outcome: Outcome, sink: TrialSink) -> TrialLine:
            line = self._line(number, about, outcome, sink, None)
            if not taken:
                return line
            take = taken[0]
            if isinstance(take, Delays):
                if self._clocks_apart(outcome):
                    return dataclasses.replace(line, note=OTHER_CLOCKS)
                return dataclasses.replace(
                    line, measured=take.of_stream(), flows_ns=take.of_flows(), delays=take.counted().pairs()
                )
            watched_ns = (request.trial_s - request.then_after_s) * NS_PER_S
            told = (
                _recovered(take, line, outcome, watched_ns)
                if request.kind == "overload"
                else _resumed(take, outcome)
            )
            measured, note = told
            return dataclasses.replace(line, measured=measured, note=note or sink.how)

        return self._attempts(overrides, also, sink, judged, lambda line: line)

    def _flows_by_way_of(self, guest: str | None) -> frozenset[int] | None:
        """Flows that a guest forwards; None: all."""
        via = list(self._role.parameters.get("via") or ())
        if guest is None or guest not in via:
            return None
        return frozenset(flow for flow in range(self._flows) if via[flow % len(via)] == guest)

    def _attempts(
        self, overrides: Mapping[str, Any], also: tuple[Action, ...], sink_of: Callable[[], TrialSink],
        judged: Callable[[int, Outcome, TrialSink], TrialLine], settle: Callable[[TrialLine], TrialLine],
    ) -> TrialLine | Outcome:  # fmt: skip
        """A trial, made again while it is disturbed; an Outcome ends the run."""
        for attempt in range(ATTEMPTS):
            if self.observe.cancelled():
                return Outcome("cancelled")
            number = len(self.journal.lines)
            sink = sink_of()
            outcome = self.session.run(self.trial(f"t{number}", overrides, also), sink)
            if outcome.status in {"failed", "cancelled"}:
                return outcome
            line = judged(number, outcome, sink)
            again = bool(line.disturbed) and attempt + 1 < ATTEMPTS
            line = dataclasses.replace(line, repeated=True) if again else settle(line)
            self.journal.add(line)
            if not again:
                return self._too_busy() or line
        raise AssertionError("the last attempt counts")

    def _too_busy(self) -> Outcome | None:
        """The end of a run on a machine that plays no clean trial, whatever the load."""
        counted = [line for line in self.journal.lines if not line.repeated and line.purpose in AT_GOOD_LOADS]
        last = counted[-IN_A_ROW:]
        if len(last) < IN_A_ROW or not all(_disturbed_from_outside(line) for line in last):
            return None
        what = f"{IN_A_ROW} trials in a row stayed disturbed, each made {ATTEMPTS} times"
        why = f"the last at {show_count(last[-1].value)}: {last[-1].disturbed}"
        return Outcome("tainted", (f"search: this machine played no clean trial: {what}, {why}",))

    def _line(
        self, number: int, about: Mapping[str, Any], outcome: Outcome, sink: TrialSink, gaps: Gaps | None
    ) -> TrialLine:  # fmt: skip
        record = TrialRecord.of(self.plan, outcome, sink.blocks, {})
        counters = role_counters(counter_rows(record), self.search.role)
        disturbed = list(outcome.reasons) if outcome.status == "tainted" else []
        unsent = counters.get("unsent_packets", 0)
        if unsent and not counters.get("blocked_sends", 0) and outcome.clocks.get("run") != "virtual":
            disturbed.append(
                f"{unsent} frames were not sent although nothing held the sender back: it was starved"
            )
        line = TrialLine(
            id=f"t{number}", **about, loss_ratio=0.0, disturbed="; ".join(disturbed),
            sent=counters.get("sent_packets", 0), received=counters.get("received_packets", 0), unsent=unsent,
            receiver_drops=counters.get("ring_drops", 0) + counters.get("socket_drops", 0),
        )  # fmt: skip
        whole = (line.sent or 0) + unsent
        ratio = line.lost / whole if whole else 1.0
        if self.search.loss_per == "flow":
            ratio = max(ratio, worst_flow(counters, self._flows, line.receiver_drops or 0, gaps))
        return dataclasses.replace(line, loss_ratio=ratio)

    def _clocks_apart(self, outcome: Outcome) -> bool:
        record = TrialRecord.of(self.plan, outcome, {}, {})
        whole = RoleWindow(0, 0, "")
        context = RoleContext(record, self.search.role, self._role, whole, {}, Collector("", 0, {}, 0, ""))
        return clock_bound_ns(context) is None

    def _measured(self, record: TrialRecord) -> float | None:
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


def _disturbed_from_outside(line: TrialLine) -> bool:
    return bool(line.disturbed) and not line.unsent and not line.receiver_drops


def value_of(search: SearchFor, load: float) -> int:
    """A load as the searched input takes it: a whole number, at least one, never above what was asked."""
    return max(1, min(search.high, int(load + 1e-6)))


def extra_actions(search: SearchFor, plan: Plan, request: BenchmarkTrial) -> tuple[Action, ...]:
    """What a trial of a test plays besides the Plan's timeline: a change of the load, or a reset."""
    runs = next((one for one in plan.timeline if one.role == search.role and begins(one.do)), None)
    if runs is None or (request.then_load is None and request.guest is None):
        return ()
    after = Trigger(event=f"{runs.id}.started", plus_ns=round(request.then_after_s * NS_PER_S))
    if request.guest is not None:
        return (
            Action(
                id=BESIDE,
                do=RESET.name,
                guest=request.guest,
                for_ns=round(request.down_s * NS_PER_S),
                after=after,
            ),
        )
    assert request.then_load is not None
    args = {search.parameter: value_of(search, request.then_load)}
    return (Action(id=BESIDE, do=SET.name, role=search.role, args=args, after=after),)


def as_tested(search: SearchFor | None, plan: Plan) -> list[Plan]:
    """The Plan, and as trials of the tests after its search play it where that is more: what a backend must be able
    to.
    """
    if search is None or search.tests is None:
        return [plan]
    shares = shares_of(plan.roles[search.role].parameters)
    tests = tests_of(search.tests, float(search.high), float(search.high), shares)
    asked = [one for test in tests if (one := test.ask()) is not None]
    also = [actions for one in asked if (actions := extra_actions(search, plan, one))]
    return [plan, *(Trial("check", 0, also=actions).plan(plan) for actions in also)]


def worst_flow(counters: Mapping[str, int], flows: int, drops: int, gaps: Gaps | None) -> float:
    """Loss ratio of the flow that lost most.

    From counters per flow where both ends have them (testbed), else from gaps in the numbers of what arrived
    (simulator; what is missing behind the last frame of a flow shows in the whole stream's loss only).

    >>> worst_flow({"flow0.sent_packets": 90, "flow0.received_packets": 90, "flow1.sent_packets": 10,
    ...             "flow1.received_packets": 5}, 2, 0, None)
    0.5
    """
    names = [f"flow{flow}" for flow in range(flows)]
    if all(f"{name}.sent_packets" in counters for name in names):
        sent = [counters[f"{name}.sent_packets"] for name in names]
        unsent = [counters.get(f"{name}.unsent_packets", 0) for name in names]
        arrived = [
            counters.get(f"{name}.received_packets", 0) - counters.get(f"{name}.duplicate_packets", 0)
            for name in names
        ]
        lost = [max(0, one - two) for one, two in zip(sent, arrived, strict=True)]
        kept = max(0.0, 1.0 - drops / sum(lost)) if sum(lost) else 0.0
        parts = [(one * kept + two, three + two) for one, two, three in zip(lost, unsent, sent, strict=True)]
    elif gaps is not None:
        parts = [(float(one), one + two) for one, two in zip(gaps.missing, gaps.arrived, strict=True)]
    else:
        return 0.0
    return max((lost / whole for lost, whole in parts if whole), default=0.0)


def _recovered(gaps: Gaps, line: TrialLine, outcome: Outcome, watched_ns: float) -> tuple[float | None, str]:
    """From the drop of the load to the last frame lost; 0 when that was lost before it.

    If the last loss lies in the last tenth of the observed time, it may not be the last one.
    """
    if not line.lost:
        return None, "nothing was lost at the overload"
    if line.lost > sum(gaps.missing) + (line.unsent or 0):
        return None, STILL_LOST
    if gaps.last_lost_ns is None:
        return None, "nothing was lost of what was sent"
    dropped = outcome.marks.get(f"{BESIDE}.done")
    if dropped is None:
        return None, "the load did not drop"
    took_ns = max(0.0, gaps.last_lost_ns - dropped.t_ns)
    return (None, STILL_LOST) if took_ns > 0.9 * watched_ns else (took_ns, "")


def _resumed(gaps: Gaps, outcome: Outcome) -> tuple[float | None, str]:
    """From the last frame that arrived before the reset took effect to the first one after."""
    began = outcome.marks.get(f"{BESIDE}.started")
    if began is None:
        return None, "the guest was not reset"
    found = gaps.longest_ending_after(began.t_ns)
    if found is None:
        return None, "nothing arrived after the reset while it was watched"
    return float(found[1] - found[0]), ""


def shares_of(parameters: Mapping[str, Any]) -> list[float]:
    """Each flow's part of a role's load."""
    names = flow_names(parameters)
    return list(parameters.get("shares") or [1.0 / max(1, len(names))] * max(1, len(names)))
