"""Recovery from an overload, and from a reset: how long until a device forwards everything again.

RFC 2544, 26.5: 110 % of the throughput (or the highest load, whichever is lower) for at least 60 s, then half of that;
the time from the drop to the last frame lost. RFC 2544, 26.6 with RFC 6201: traffic at the throughput, a reset, and the
time from the last frame received before it to the first one after. Both are repeated and averaged. An overload that
loses nothing was too weak, and a device that does not come back while it is watched has no number.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from virtlab.campaign.tests.protocol import NOTHING_FOUND, BenchmarkTrial, Value, spread
from virtlab.campaign.trials.journal import TrialLine
from virtlab.experiment.work.benchmark import RESET_AFTER_NS, RecoveryTest, ResetTest
from virtlab.units.factors import NS_PER_S

T = TypeVar("T", RecoveryTest, ResetTest)


@dataclass(slots=True)
class Interruption(Generic[T]):
    """One trial, made `test.trials` times. `good_load`: the throughput, in the unit of the searched input."""

    test: T
    good_load: float | None
    _lines: list[TrialLine] = field(default_factory=list, init=False)

    def tell(self, line: TrialLine) -> None:
        """Record the result of a trial."""
        self._lines.append(line)

    def trials_left(self) -> int:
        """The exact number of trials still to come; none without a throughput."""
        return 0 if self.good_load is None else self.test.trials - len(self._lines)

    def _times(self, metric: str) -> list[Value]:
        """The measured times over trials, or the reason why no trial has one."""
        notes = (line.note for line in self._lines if line.note and line.measured is None)
        why = NOTHING_FOUND if self.good_load is None else next(notes, "no trial was made")
        return spread("", metric, [line.measured for line in self._lines], why)


@dataclass(slots=True)
class Recovery(Interruption[RecoveryTest]):
    """`high`: the highest load, in the unit of the searched input."""

    high: float
    name: str = field(default="recovery", init=False)

    def ask(self) -> BenchmarkTrial | None:
        """Overload, then less."""
        if self.good_load is None or len(self._lines) == self.test.trials:
            return None
        load = min(self.test.overload * self.good_load, self.high)
        return BenchmarkTrial(
            self.name, load, (self.test.overload_ns + self.test.watch_ns) / NS_PER_S, "overload",
            then_after_s=self.test.overload_ns / NS_PER_S, then_load=self.test.drop_to * load,
        )  # fmt: skip

    def results(self) -> list[Value]:
        """The time of recovery over trials."""
        return self._times("recovery_time")


@dataclass(slots=True)
class Reset(Interruption[ResetTest]):
    """Traffic at the throughput across a reset of the device."""

    name: str = field(default="reset", init=False)

    def ask(self) -> BenchmarkTrial | None:
        """Traffic at the throughput, with a reset in it."""
        if self.good_load is None or len(self._lines) == self.test.trials:
            return None
        trial_ns = RESET_AFTER_NS + self.test.down_ns + self.test.watch_ns
        return BenchmarkTrial(
            self.name, self.good_load, trial_ns / NS_PER_S, "reset", then_after_s=RESET_AFTER_NS / NS_PER_S,
            guest=self.test.guest, down_s=self.test.down_ns / NS_PER_S,
        )  # fmt: skip

    def results(self) -> list[Value]:
        """The time without frames over trials."""
        how = next((line.note for line in self._lines if line.measured is not None), "")
        return [dataclasses.replace(value, how=how) for value in self._times("reset_time")]
