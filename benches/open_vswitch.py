"""Open vSwitch: how long the transaction takes that adds fifty ports, after the daemons have started.

The peer is the same fifty ports on a Linux bridge, made with the world in one batch.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))

import testbed_world as worlds
from _skipped import skipped

from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

PORTS = 50
PASSES = 5
GOAL_S = 0.3


def bench() -> Iterator[dict[str, Any]]:
    """Figures, or the reason that there are none."""
    why = worlds.missing() or ovs.missing()
    if why is not None:
        yield skipped("open_vswitch", why)
        return
    transactions, bridged = [], []
    for _ in range(PASSES):
        world = worlds.one_host(PORTS)
        for vswitch in world["vswitches"].values():
            vswitch["kind"] = "ovs-netdev"
        with Testbed().open(worlds.plan(world), worlds.Patient()) as session:
            transactions.append(session.realised.objects["vswitches.h.br"].read_back["transaction_ns"] / 1e9)
        begin = time.monotonic()
        with Testbed().open(worlds.plan(worlds.one_host(PORTS)), worlds.Patient()):
            bridged.append(time.monotonic() - begin)
    value = statistics.median(transactions)
    yield {
        "name": "open_vswitch.fifty_ports", "value": value, "unit": "s", "ratio": value / statistics.median(bridged),
        "peer": f"a world with {PORTS} ports on a Linux bridge, ready; load {os.getloadavg()[0]:.1f}",
        "goal": f"<= {GOAL_S}",
    }  # fmt: skip
