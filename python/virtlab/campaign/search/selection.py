"""The best of several candidates, each tried by runs that scatter: sequential elimination, pure, ask and tell.

All candidates that are still in question get runs at planned sizes. After each size every pair is compared (Welch):
one that is shown to be worse than a feasible other, by more than the margin as far as the means go, gets no more
runs; one shown to lie within the margin of the leading one (two one-sided tests) is equivalent. Constraints are
tested alike, by one-sided tests of what the caller measured; a candidate shown to break one is out at once, and
only one shown to keep all can lead or eliminate another.

The error probability is shared out (Bonferroni) over all pairs and both sides, all looks, and all constraints of
all candidates; so everything that is said holds together at the stated confidence, whichever candidate the data
made the leading one. Source of the scheme: Kim and Nelson 2006, Selecting the best system, section 2 (elimination);
here with unequal variances and Bonferroni's bound, which is valid without common random numbers and for any
stopping among the looks.

Where the model itself is unsure, each candidate brings how far its mean moves in the same few drawn models
(`shifts`): a difference of two candidates then moves by the difference of theirs, so what moves both alike does not
blur it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from virtlab.lazy import NDArray
from virtlab.stats import Contrast, contrast
from virtlab.stats.comparison import margin_contrasts

Standing = Literal["best", "equivalent", "worse", "undecided", "infeasible", "not shown feasible"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """p values of one constraint for one candidate: of it being broken, and of it being kept."""

    p_broken: float
    p_kept: float


@dataclass
class _Candidate:
    values: NDArray[Any] | None = None
    shifts: Sequence[float] = ()
    runs: int = 0
    feasible: Literal["yes", "no", "open"] = "open"
    out: bool = False


@dataclass
class Selection:
    """`better` says which way; `margin` is relative to the leading mean, below which a difference does not matter."""

    candidates: int
    better: Literal["lower", "higher"]
    constraints: int = 0
    confidence: float = 0.95
    margin: float = 0.0
    sizes: tuple[int, ...] = (4, 8, 16, 30)
    _all: list[_Candidate] = field(init=False)
    _look: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)
    _equivalent: set[tuple[int, int]] = field(default_factory=set, init=False)
    _worse: set[tuple[int, int]] = field(default_factory=set, init=False)  # (this one, than that one)

    def __post_init__(self) -> None:
        if self.candidates < 1 or not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError("there is no candidate, or the sizes do not rise")
        if not 0.0 < self.confidence < 1.0 or not 0.0 <= self.margin < 1.0 or self.sizes[0] < 2:
            raise ValueError(
                "a confidence and a margin lie within 0..1, and a candidate needs 2 runs at least"
            )
        self._all = [_Candidate() for _ in range(self.candidates)]

    @property
    def _share(self) -> float:
        """The part of the error probability that comparisons may use; constraints have the rest."""
        return 0.5 if self.constraints else 1.0

    @property
    def pair_alpha(self) -> float:
        """Error probability of one one-sided comparison at one look: of each pair there are three (less, more,
        within).
        """
        pairs = max(self.candidates * (self.candidates - 1) // 2, 1)
        return (1.0 - self.confidence) * self._share / (3 * pairs * len(self.sizes))

    @property
    def constraint_alpha(self) -> float:
        """Error probability of one constraint of one candidate at one look, either way."""
        tests = max(self.constraints, 1) * self.candidates * len(self.sizes)
        return (1.0 - self.confidence) * (1.0 - self._share) / tests

    def ask(self) -> tuple[tuple[int, ...], int] | None:
        """Candidates that want runs, and how many each has to have in all; None when it is over."""
        if self._over:
            return None
        return tuple(at for at, one in enumerate(self._all) if not one.out), self.sizes[self._look]

    def tell(
        self,
        values: Mapping[int, NDArray[Any] | None],
        constraints: Mapping[int, Sequence[Constraint]],
        shifts: Mapping[int, Sequence[float]] | None = None,
    ) -> None:
        """Values of all runs of each requested candidate (None: some run had no value), and its constraints.

        `shifts`: of each, how far its mean moves in the same drawn models in order; all have as many.
        """
        for at, found in values.items():
            one = self._all[at]
            one.values = found
            one.shifts = () if shifts is None else shifts.get(at, ())
            one.runs = self.sizes[self._look]
            if found is None:
                one.feasible, one.out = "no", True
                continue
            tests = constraints.get(at, ())
            if any(test.p_kept <= self.constraint_alpha for test in tests):
                one.feasible, one.out = "no", True
            elif all(test.p_broken <= self.constraint_alpha for test in tests):
                one.feasible = "yes"
        self._compare()
        self._look += 1
        lead = self.leading()
        rivals = [at for at, one in enumerate(self._all) if not one.out and at != lead]
        settled = lead is not None and all(
            (lead, at) in self._equivalent and self._known(at) for at in rivals
        )
        self._over = self._look == len(self.sizes) or all(one.out for one in self._all) or settled

    def _known(self, at: int) -> bool:
        return self._all[at].feasible != "open"

    def leading(self) -> int | None:
        """The best mean among the feasible ones; None while none is shown to be feasible."""
        able = [
            at
            for at, one in enumerate(self._all)
            if one.feasible == "yes" and one.values is not None and not one.out
        ]
        sign = 1.0 if self.better == "lower" else -1.0
        return min(able, key=lambda at: sign * self._mean(at), default=None)

    def standing(self) -> list[Standing]:
        """What is known of each candidate; final once `ask` gives None."""
        lead = self.leading()
        found: list[Standing] = []
        for at, one in enumerate(self._all):
            if one.feasible == "no":
                found.append("infeasible")
            elif at == lead:
                found.append("best")
            elif lead is not None and (lead, at) in self._equivalent and one.feasible == "yes":
                found.append("equivalent")
            elif any(loser == at for loser, _ in self._worse):
                found.append("worse")
            else:
                found.append("undecided" if one.feasible == "yes" else "not shown feasible")
        return found

    def difference(self, first: int, second: int) -> Contrast | None:
        """Mean of the first less that of the second, as of all their runs."""
        one, other = self._all[first].values, self._all[second].values
        if one is None or other is None:
            return None
        return contrast([one, other], [1.0, -1.0]).widened(self._moved(first, second, 1.0))

    def _moved(self, first: int, second: int, weight: float) -> list[float]:
        """How far the first less `weight` times the second moves in each drawn model."""
        pairs = zip(self._all[first].shifts, self._all[second].shifts, strict=True)
        return [one - weight * other for one, other in pairs]

    def runs(self, at: int) -> int:
        """Runs that a candidate got."""
        return self._all[at].runs

    def _mean(self, at: int) -> float:
        values = self._all[at].values
        assert values is not None
        return float(values.mean())

    def _compare(self) -> None:
        alive = [at for at, one in enumerate(self._all) if not one.out and one.values is not None]
        eliminated = []
        for at in alive:
            for other in alive:
                if at == other:
                    continue
                if self.margin > 0 and self._mean(other) != 0:
                    one, reference = self._all[at].values, self._all[other].values
                    assert one is not None
                    assert reference is not None
                    above, below = margin_contrasts(one, reference, margin=None, relative_margin=self.margin)
                    reach = self.margin if self._mean(other) >= 0 else -self.margin
                    above = above.widened(self._moved(at, other, 1.0 - reach))
                    below = below.widened(self._moved(at, other, 1.0 + reach))
                    within = max(above.p_above(0.0), below.p_below(0.0)) <= self.pair_alpha
                    self._equivalent.discard((other, at))
                    if within:
                        self._equivalent.add((other, at))  # `at` lies within the margin of `other`
                if self._all[other].feasible == "yes" and self._loses(at, other):
                    self._worse.add((at, other))
                    beyond = abs(self._mean(at) - self._mean(other)) > self.margin * abs(self._mean(other))
                    if beyond and (other, at) not in self._equivalent:
                        eliminated.append(at)
        for at in eliminated:
            self._all[at].out = True

    def _loses(self, at: int, other: int) -> bool:
        difference = self.difference(at, other)
        assert difference is not None
        p = difference.p_above(0.0) if self.better == "lower" else difference.p_below(0.0)
        return p <= self.pair_alpha
