"""What a test and its caller say to each other: a trial to make, what came of it, what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from virtlab.campaign.trials.journal import TrialLine

TrialKind = Literal["loss", "delay", "overload", "reset"]
NOTHING_FOUND = "the search found no good load"


@dataclass(frozen=True, slots=True)
class BenchmarkTrial:
    """A trial to make: at which load, for how long, and what is taken from it.

    `part` names the load; after `then_after_s` the load becomes `then_load`, or `guest` is reset for `down_s`.
    """

    test: str
    load: float
    trial_s: float
    kind: TrialKind = "loss"
    part: str = ""
    then_after_s: float = 0.0
    then_load: float | None = None
    guest: str | None = None
    down_s: float = 0.0
    tagged: bool = False  # one frame of each flow counts for its delay, else all


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the run, in the unit of its metric (of `tested_load`: of the searched input).

    `part` names the load that it is of, `flow` the flow, where it is of one alone. `how`: what was done to the device.
    """

    part: str
    metric: str
    statistic: str
    value: float | None
    samples: int
    reason: str = ""
    flow: int | None = None
    how: str = ""


class Test(Protocol):
    """A test of a device. `ask` is the same until `tell` was called; None when it is over."""

    name: str

    def ask(self) -> BenchmarkTrial | None:
        """The next trial."""

    def tell(self, line: TrialLine) -> None:
        """Takes the result of the trial that `ask` gave."""

    def results(self) -> list[Value]:
        """What was measured; final once `ask` gives None."""

    def trials_left(self) -> int:
        """About how many trials are still to come."""


def spread(
    part: str,
    metric: str,
    values: Sequence[float | None],
    why: str,
    *,
    sd: bool = True,
    flow: int | None = None,
) -> list[Value]:
    """Mean, smallest, largest (and standard deviation) over trials; the reason if no trial has a value.

    >>> [value.value for value in spread("at50", "latency", [1.0, 3.0, None], "nothing arrived")]
    [2.0, 1.0, 3.0, 1.4142135623730951]
    """
    known = [value for value in values if value is not None]
    n = len(known)
    mean = sum(known) / n if n else None
    found = [
        Value(part, metric, "mean", mean, n, why, flow),
        Value(part, metric, "min", min(known, default=None), n, why, flow),
        Value(part, metric, "max", max(known, default=None), n, why, flow),
    ]
    if sd:
        square = None if mean is None or n < 2 else sum((value - mean) ** 2 for value in known) / (n - 1)
        root = None if square is None else math.sqrt(square)
        found.append(Value(part, metric, "sd", root, n, why if not n else "one trial does not vary", flow))
    return found
