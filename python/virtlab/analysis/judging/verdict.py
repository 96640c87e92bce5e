"""What judging a claim ends in: a verdict, the comparisons it rests on, and one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from virtlab.analysis.claims import Claim
from virtlab.analysis.published import PublishedValue
from virtlab.stats.estimate import Estimate

Ruling = Literal["holds", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test inside a claim: at one design point, or between levels.

    `estimate` is what was compared (a mean, a difference, a ratio); `required` is the range it has to lie in,
    an end being None where it is open. `p` is Holm-adjusted, of the ruling it led to. `finding` is in words
    of the comparison: different, equivalent, within, beyond, undecided. `decides` is False for a test that
    can refute and need not hold.
    """

    label: str
    estimate: Estimate
    required: tuple[float | None, float | None]
    ruling: Ruling
    finding: str
    p: float
    runs: tuple[int, ...]
    effect: float | None = None
    effect_name: str = ""
    more_runs: int | None = None
    decides: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged claim. `comparison` is the one that decided (the weakest of those that hold); None when there
    is no data.

    `more_runs` is about how many more runs per design point would decide; None when it cannot be said. `members`: the
    verdicts on the claims that its lists of levels stand for.
    """

    claim: Claim
    ruling: Ruling
    text: str
    comparisons: tuple[Comparison, ...] = ()
    comparison: Comparison | None = None
    more_runs: int | None = None
    published: tuple[PublishedValue, ...] = ()
    notes: tuple[str, ...] = field(default=())
    members: tuple[Verdict, ...] = ()

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of the comparison that decided."""
        return None if self.comparison is None else self.comparison.estimate

    @property
    def n(self) -> int:
        """Runs behind the comparison that decided."""
        return 0 if self.comparison is None else sum(self.comparison.runs)


def exit_code(verdicts: list[Verdict]) -> int:
    """0 when all claims hold, 1 when one is refuted, 4 when some are undecided."""
    rulings = {verdict.ruling for verdict in verdicts}
    return 1 if "refuted" in rulings else 4 if "undecided" in rulings else 0
