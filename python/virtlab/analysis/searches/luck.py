"""Whether luck decided searches: is a trial bad about as often as the goal lets it be, whatever the load?

A stall longer than the buffer makes a trial bad at any load. Trials of t seconds then are good with probability
exp(-r t) however low the load, and a goal that lets a share e of them be bad has no load where it begins to fail if 1 -
exp(-r t) is near e: which loads pass is a toss of as many coins as trials fit into the duration sum. The trials that
were made tell: below its limit a device without such stalls has none that are bad. So two models are fitted to them,

    P(good at load x) = exp(-r t) / (1 + exp((ln x - c) / s)),    r = 0 or r > 0,

with the limit c anywhere between the loads tried and a scatter s of the limit of at most two widths or 1 %. Where r > 0
is better by a likelihood ratio beyond chance (Wilks, one parameter), 1 - exp(-r t) is the share that is bad at any
load. The goal lies in the range of a coin toss where that share is above e less two standard deviations of the toss,
and above e / 2.

One search stays near its limit and seldom knows; trials of several searches at the same design point are taken
together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import np

SIGNIFICANT = 6.63  # twice the gain in log likelihood: one chance in a hundred
DEVIATIONS = 2.0
TRIALS_MIN = 8
SCATTER_MAX = 0.01
_SHARES = 48


@dataclass(frozen=True, slots=True)
class Criterion:
    """The part of a goal that matters: ratios 0 to 1, times in s, `width` of the interval found."""

    loss_ratio: float
    exceed_ratio: float
    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    width: float


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that counts: its load, its length, the share that it lost."""

    load: float
    trial_s: float
    loss_ratio: float


@dataclass(frozen=True, slots=True)
class Luck:
    """`bad_share` of full-length trials is bad at any load (0: not shown); from `from_share` on luck decides."""

    criterion: Criterion
    bad_share: float
    from_share: float
    trials: int

    @property
    def decides(self) -> bool:
        """Whether the goal lies in the range of a coin toss."""
        return self.bad_share >= self.from_share

    def text(self) -> str:
        """The warning, and what helps."""
        goal = self.criterion
        return (
            f"about {100 * self.bad_share:.0f} % of trials of {goal.final_trial_s:g} s are bad whatever the load "
            f"({self.trials} trials), and the goal lets {100 * goal.exceed_ratio:g} % of them be bad: luck decides what is "
            "found; write a shorter 'trial', a larger 'exceed', or allow some 'loss'"
        )


COUNTED = frozenset(
    {"search", "latency", "frame-loss"}
)  # trials at a steady load, whatever they were made for


def tried_of(lines: Iterable[Mapping[str, Any]]) -> list[Tried]:
    """Trials as a run keeps them, less the warm-up, those made again, and those whose generator was disturbed."""
    return [
        Tried(float(line["load"]), float(line["trial_s"]), float(line["loss_ratio"]))
        for line in lines
        if line["purpose"] in COUNTED and not line["repeated"] and not line["disturbed"] and line["load"] > 0
    ]


def luck_of(trials: Sequence[Tried], criterion: Criterion) -> Luck | None:
    """What trials say of their goal; None where they are too few, or the goal is no toss of several.

    Counted are trials as long as the goal's, and shorter ones from its first length on where no loss is allowed.

    >>> goal = Criterion(0.0, 0.5, 1.0, 1.0, 21.0, 0.005)
    >>> sharp = [Tried(load, 1.0, max(0.0, 1 - 100 / load)) for load in range(80, 120)]
    >>> luck_of(sharp, goal).decides, luck_of(sharp[:4], goal)
    (False, None)
    >>> tossed = [Tried(load, 1.0, 0.001 * (load % 2)) for load in range(80, 120)]
    >>> round(luck_of(tossed, goal).bad_share, 1), luck_of(tossed, goal).decides
    (0.5, True)
    """
    exceed, tossed = criterion.exceed_ratio, criterion.duration_sum_s / criterion.final_trial_s
    shortest = criterion.initial_trial_s if criterion.loss_ratio == 0.0 else criterion.final_trial_s
    used = [one for one in trials if one.trial_s >= shortest]
    if len(used) < TRIALS_MIN or exceed <= 0.0 or tossed < 2.0:
        return None
    gain, rate_per_s = _fit(used, criterion)
    share = 1.0 - math.exp(-rate_per_s * criterion.final_trial_s) if gain >= SIGNIFICANT else 0.0
    begins = exceed - DEVIATIONS * math.sqrt(exceed * (1.0 - exceed) / tossed)
    return Luck(criterion, share, max(begins, exceed / 2.0), len(used))


def _fit(used: Sequence[Tried], criterion: Criterion) -> tuple[float, float]:
    """(twice the gain in log likelihood over r = 0, the best r in 1/s)."""
    load = np.log([one.load for one in used])
    seconds = np.array([one.trial_s for one in used])
    good = np.array([one.loss_ratio <= criterion.loss_ratio for one in used])
    shares = np.concatenate([[0.0], np.linspace(0.02, 0.95, _SHARES)])
    rates = -np.log1p(-shares) / criterion.final_trial_s
    places = np.unique(load)
    outside = [places[0] - criterion.width, places[-1] + criterion.width]
    limits = np.concatenate([places, (places[1:] + places[:-1]) / 2, outside])
    best = np.full(len(rates), -np.inf)
    for scatter in np.geomspace(criterion.width / 8.0, max(2.0 * criterion.width, SCATTER_MAX), 8):
        away = np.clip((load[None, :] - limits[:, None]) / scatter, -40.0, 40.0)
        sharp = -np.log1p(np.exp(away))  # ln P(good) without stalls, by limit and trial
        for number, rate in enumerate(rates):
            logs = sharp - (rate * seconds)[None, :]
            bad = np.log(np.maximum(-np.expm1(np.minimum(logs, -1e-12)), 1e-12))
            best[number] = max(best[number], float(np.where(good[None, :], logs, bad).sum(axis=1).max()))
    at = int(best.argmax())
    return 2.0 * float(best[at] - best[0]), float(rates[at])
