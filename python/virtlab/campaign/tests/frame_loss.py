"""Frame loss rate: loss at the highest load, then at less and less of it, until two trials in a row lose nothing.

RFC 2544, 26.3: the first trial is at the maximum rate of the medium, the next ones at 90 %, 80 %, ... of it; steps of
at most 10 %, finer ones encouraged; loss = (input - output) / input.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.campaign.tests.latency import loss_and_load
from virtlab.campaign.tests.protocol import BenchmarkTrial, Value
from virtlab.campaign.trials.journal import TrialLine
from virtlab.experiment.work.benchmark import FrameLossTest, part_of_highest, shares_down
from virtlab.units.factors import NS_PER_S

LOSSLESS_TRIALS = 2


@dataclass(slots=True)
class FrameLoss:
    """`high`: the highest load, in the unit of the searched input."""

    test: FrameLossTest
    high: float
    name: str = field(default="frame-loss", init=False)
    _lines: list[TrialLine] = field(default_factory=list, init=False)

    def _shares(self) -> list[float]:
        return shares_down(self.test.step)

    def ask(self) -> BenchmarkTrial | None:
        """The next load down."""
        lossless = [line.lost == 0 for line in self._lines[-LOSSLESS_TRIALS:]]
        shares = self._shares()
        if len(self._lines) == len(shares) or (len(lossless) == LOSSLESS_TRIALS and all(lossless)):
            return None
        share = shares[len(self._lines)]
        return BenchmarkTrial(
            self.name, share * self.high, self.test.trial_ns / NS_PER_S, part=part_of_highest(share)
        )

    def tell(self, line: TrialLine) -> None:
        """Takes the result of the trial that `ask` gave."""
        self._lines.append(line)

    def trials_left(self) -> int:
        """At most."""
        return 0 if self.ask() is None else len(self._shares()) - len(self._lines)

    def results(self) -> list[Value]:
        """Loss at each load that was tried."""
        return [
            value for line in self._lines for value in loss_and_load(line.part, [line], "nothing was sent")
        ]
