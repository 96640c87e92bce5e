"""The disciplines that few kernels have, by the kernel of the laboratory machine and by virtlab, on the same traffic.

All is slow, as an emulated processor needs it: the line has 1.25 Mbit/s and is offered 2, and the disciplines' times
are four times their own. What is compared lies behind the first 4 s, when both have found their rate of drops. The
tolerances are those of the disciplines that this machine's own kernel has; of delays the lower quartile and the median
are compared, which a processor that stands still now and then leaves as they are. PIE draws at random, so the kernel
drops other packets than virtlab does, but as many.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.test_backend_contract import backend_of
from tests.parity.test_disciplines import Load, agrees, passed

from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(600),
]
SLOW = Load(
    line_bit_per_s=1_250_000,
    offered_bit_per_s=2_000_000,
    duration_ns=20_000_000_000,
    begin_ns=4_000_000_000,
    quantiles=(0.25, 0.5),
)
# 80 ms between updates is a time that every kernel's timer has: Linux rounds it up to whole ticks.
QUEUES: dict[str, dict[str, Any]] = {
    "codel": {"kind": "codel", "parameters": {"target_ns": 20_000_000, "interval_ns": 80_000_000}},
    "pie": {"kind": "pie", "parameters": {"target_ns": 60_000_000, "tupdate_ns": 80_000_000}},
}


@pytest.mark.parametrize("kind", QUEUES)
def test_the_kernel_inside_passes_what_virtlabs_state_machine_passes_as_late_and_drops_as_many(
    lab: LabVm, kind: str
) -> None:
    simulated = passed(backend_of("simulator"), QUEUES[kind], "virtlab", SLOW)
    assert simulated is not None
    assert simulated.lost > 0.3
    agrees(lab, QUEUES[kind], "kernel", simulated, SLOW)
