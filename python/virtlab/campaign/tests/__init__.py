"""The tests of RFC 2544 beside throughput: pure, ask and tell, trial by trial.

Each names its next trial and receives the outcome, as searches do. The same outcomes give the same next
trial, so interrupted tests resume by receiving again what is already known. `results` are values of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.campaign.tests.back_to_back import BackToBack
from virtlab.campaign.tests.frame_loss import FrameLoss
from virtlab.campaign.tests.interruption import Recovery, Reset
from virtlab.campaign.tests.latency import Latency
from virtlab.campaign.tests.protocol import BenchmarkTrial, Test, Value
from virtlab.experiment.work.benchmark import TestsFor

__all__ = [
    "BackToBack",
    "BenchmarkTrial",
    "FrameLoss",
    "Latency",
    "Recovery",
    "Reset",
    "Test",
    "Value",
    "tests_of",
]


def tests_of(wanted: TestsFor, load: float | None, high: float, shares: Sequence[float]) -> list[Test]:
    """The tests that a file asks for, in the RFC's order.

    `load`: the highest load that the search found good (None: none was); `high`: the highest load of all, both in the
    unit of the searched input; `shares`: each flow's part of a load.
    """
    tests: list[Test] = []
    if wanted.latency is not None:
        tests.append(Latency(wanted.latency, load, shares))
    if wanted.frame_loss is not None:
        tests.append(FrameLoss(wanted.frame_loss, high))
    if wanted.back_to_back is not None:
        tests.append(BackToBack(wanted.back_to_back, load, high))
    if wanted.recovery is not None:
        tests.append(Recovery(wanted.recovery, load, high))
    if wanted.reset is not None:
        tests.append(Reset(wanted.reset, load))
    return tests
