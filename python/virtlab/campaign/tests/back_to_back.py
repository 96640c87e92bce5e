"""Back-to-back frames: the longest burst at the highest load of which nothing is lost, and the buffer behind it.

RFC 2544, 26.4: bursts of at least 2 s; longer after one without loss, shorter after one with; at least 50 searches,
averaged. Here each is a bisection from the longest burst down. RFC 9004 turns the average into a time of buffering and
takes off what the device forwards while the burst comes in:

    implied   = average burst in frames / maximum theoretical frame rate
    corrected = implied - implied * throughput / maximum theoretical frame rate

(there: "Corrected DUT Buffer Time"). The maximum theoretical rate is the highest load of the search. A
device that loses nothing of the longest burst has no number: it was not found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.campaign.tests.protocol import NOTHING_FOUND, BenchmarkTrial, Value, spread
from virtlab.campaign.trials.journal import TrialLine
from virtlab.experiment.work.benchmark import BackToBackTest
from virtlab.units.factors import NS_PER_S


@dataclass(slots=True)
class BackToBack:
    """`good_load`: the throughput, `high`: the highest load; both in the unit of the searched input."""

    test: BackToBackTest
    good_load: float | None
    high: float
    name: str = field(default="back-to-back", init=False)
    bursts: list[float | None] = field(default_factory=list, init=False)  # of each search, in frames
    _good: float = field(default=0.0, init=False)
    _good_frames: int = field(default=0, init=False)
    _bad: float | None = field(default=None, init=False)
    _rate_pps: float | None = field(default=None, init=False)

    @property
    def _longest(self) -> float:
        """The longest burst in units of the input: frames of a packet rate, bits of a rate."""
        return float(max(1, round(self.test.longest_ns / NS_PER_S * self.high)))

    def _burst(self) -> float | None:
        """The next burst of this search; None when it is over."""
        if self._bad is None:
            return None if self._good else self._longest
        if self._bad - self._good <= max(1.0, self.test.width * self._bad):
            return None
        return float(round((self._good + self._bad) / 2))

    def ask(self) -> BenchmarkTrial | None:
        """The next burst. It is half a frame short in time, so that exactly so many frames leave."""
        if len(self.bursts) == self.test.trials:
            return None
        burst = self._burst()
        assert burst is not None, "a search that is over was closed when it was told"
        return BenchmarkTrial(self.name, self.high, (burst - 0.5) / self.high, part="burst")

    def tell(self, line: TrialLine) -> None:
        """Takes the result of the trial that `ask` gave."""
        burst = self._burst()
        assert burst is not None, "no burst was requested"
        if line.sent and line.trial_s > 0:
            self._rate_pps = self._rate_pps or line.sent / (burst / self.high)
        if line.lost == 0:
            self._good, self._good_frames = burst, line.sent or 0
        else:
            self._bad = burst
        if self._burst() is None:
            self.bursts.append(None if self._bad is None else float(self._good_frames))
            self._good, self._good_frames, self._bad = 0.0, 0, None

    def trials_left(self) -> int:
        """About."""
        halvings = max(1, round(min(1 / self.test.width, self._longest)).bit_length() + 1)
        return (self.test.trials - len(self.bursts)) * halvings

    def results(self) -> list[Value]:
        """The longest burst over searches, and the buffer's time, implied and corrected."""
        longest = f"nothing was lost of bursts of {self.test.longest_ns / 1e6:g} ms, the longest tried"
        known = [burst for burst in self.bursts if burst is not None]
        complete = len(known) == len(self.bursts)  # a mean over what was found alone would be too short
        values = spread("", "back_to_back", known if complete else [], longest)
        mean = sum(known) / len(known) if known and complete else None
        highest_pps = self._rate_pps
        implied = None if mean is None or not highest_pps else mean / highest_pps * NS_PER_S
        corrected = (
            None
            if implied is None or self.good_load is None
            else implied * (1.0 - self.good_load / self.high)
        )
        why = longest if implied is None else NOTHING_FOUND
        values.append(Value("", "buffer_time", "mean", implied, len(known), longest))
        values.append(Value("", "corrected_buffer_time", "mean", corrected, len(known), why))
        return values
