"""What trials at one load say about one goal: a lower bound, an upper bound, or not enough yet.

Four sums of trial seconds are kept per load and target: full-length trials that meet the loss ratio (LL) and that
do not (LH), and the same of shorter trials (SL, SH). Short trials count only by the excess of bad ones over what
good ones forgive. With what is missing up to the duration sum taken once as good and once as bad,

    coefficient = exceed / (1 - exceed)        excess = max(0, SH - SL coefficient)
    high = LH + excess                         whole = max(LL + high, duration_sum)
    optimistic = high <= whole exceed          pessimistic = whole - LL <= whole exceed

both true make a lower bound, both false an upper bound. Source: draft-ietf-bmwg-mlrsearch, load classification.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a load is held against: the part of a goal that classifies. Times in seconds, ratios 0 to 1."""

    loss_ratio: float
    exceed_ratio: float
    trial_s: float
    duration_sum_s: float


@dataclass(slots=True)
class Sums:
    """Trial seconds at one load against one criterion."""

    criterion: Criterion
    long_good_s: float = 0.0
    long_bad_s: float = 0.0
    short_good_s: float = 0.0
    short_bad_s: float = 0.0
    long_losses: dict[float, float] = field(
        default_factory=dict
    )  # loss ratio -> seconds of full-length trials

    def add(self, trial_s: float, loss_ratio: float) -> None:
        """One more trial."""
        good = loss_ratio <= self.criterion.loss_ratio
        if trial_s >= self.criterion.trial_s:
            self.long_losses[loss_ratio] = self.long_losses.get(loss_ratio, 0.0) + trial_s
            if good:
                self.long_good_s += trial_s
            else:
                self.long_bad_s += trial_s
        elif good:
            self.short_good_s += trial_s
        else:
            self.short_bad_s += trial_s

    def estimates(self) -> tuple[bool, bool]:
        """(optimistic, pessimistic): can the load become a lower bound, and is it one whatever follows?"""
        exceed = self.criterion.exceed_ratio
        forgiven = self.short_good_s * exceed / (1.0 - exceed)
        high = self.long_bad_s + max(0.0, self.short_bad_s - forgiven)
        whole = max(self.long_good_s + high, self.criterion.duration_sum_s)
        quota = whole * exceed
        return high <= quota, (whole - self.long_good_s) <= quota

    def bound(self) -> bool | None:
        """True: a lower bound; False: an upper bound; None: undecided."""
        optimistic, pessimistic = self.estimates()
        return optimistic if optimistic == pessimistic else None

    def loss_at_exceed(self) -> float:
        """L*: the loss ratio reached when full-length trials, sorted by loss, use up 1 - exceed of the time.

        Trials that are missing up to the duration sum count as lost entirely.
        """
        whole = max(self.criterion.duration_sum_s, self.long_good_s + self.long_bad_s)
        left = whole * (1.0 - self.criterion.exceed_ratio)
        reached: float | None = None
        for ratio in sorted(self.long_losses):
            if reached is not None and left <= 0.0:
                return reached
            reached = ratio
            left -= self.long_losses[ratio]
        return 1.0 if left > 0.0 or reached is None else reached
