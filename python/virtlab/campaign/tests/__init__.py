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
from virtlab.campaign.tests.protocol import Asked, Test, Value
from virtlab.experiment.work.benchmark import TestsFor

__all__ = ["Asked", "BackToBack", "FrameLoss", "Latency", "Recovery", "Reset", "Test", "Value", "tests_of"]


def tests_of(asked: TestsFor, found: float | None, high: float, shares: Sequence[float]) -> list[Test]:
    """The tests that a file asks for, in the RFC's order.

    `found`: the highest load that the search found good (None: none was); `high`: the highest load of all, both in the
    unit of the searched input; `shares`: each flow's part of a load.
    """
    tests: list[Test] = []
    if asked.latency is not None:
        tests.append(Latency(asked.latency, found, shares))
    if asked.frame_loss is not None:
        tests.append(FrameLoss(asked.frame_loss, high))
    if asked.back_to_back is not None:
        tests.append(BackToBack(asked.back_to_back, found, high))
    if asked.recovery is not None:
        tests.append(Recovery(asked.recovery, found, high))
    if asked.reset is not None:
        tests.append(Reset(asked.reset, found))
    return tests
