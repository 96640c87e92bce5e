"""One Plan on both arms: psping, TCP and UDP through a licensed router come out the same in simulator and kernel.

What the licence decides is the same to a few percent: both arms have the same token bucket in front of the same port. A
small request takes less than the machine's own pauses, in which the bucket fills, so of those the time of all is
compared, which no arm can shorten beyond the licence. Other work on the machine delays the real arm and never speeds it
up, so of a few runs each figure's best is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of
from tests.theory.routed import routed

from virtlab.plan import Plan, Trial

TRIES = 8
LICENCE = ", licence: 10 Mbit/s"
TIMELINE = """\
timeline:
  - {id: small, do: run, role: small}
  - {id: large, do: run, role: large, after: small.finished + 100 ms}
  - {id: datagrams, do: run, role: datagrams, after: large.finished + 100 ms}
  - {id: bulk, do: run, role: bulk, after: datagrams.finished + 100 ms}
  - {id: tcp, do: run, role: tcp, after: bulk.finished + 300 ms}
"""
ROLES: dict[str, dict[str, Any]] = {
    "small": {"workload": "psping", "test": "latency", "size": "32 B", "count": 200, "warmup": 100},
    "large": {"workload": "psping", "test": "latency", "size": "8192 B", "count": 30},
    "datagrams": {"workload": "psping", "test": "latency", "protocol": "udp", "size": "1400 B", "count": 60, "warmup": 10},
    "bulk": {"workload": "psping", "test": "bandwidth", "size": "8192 B", "count": 60, "warmup": 10},
    "tcp": {
        "workload": "tcp_stream", "duration": "1500 ms", "send_buffer": "64 KiB", "receive_buffer": "64 KiB",
    },
}  # fmt: skip
# Of the simulated value: least and most that the best of the real runs may be.
TOLERANCES = {
    "small": (0.97, 4.0),  # 78.4 us of licence; wake-ups of both guests may take longer
    "large": (0.98, 1.05),
    "datagrams": (0.97, 1.10),
    "bulk": (0.96, 1.04),
    "tcp": (0.95, 1.03),
}


def plan() -> Plan:
    return routed(ROLES, router=LICENCE, timeline=TIMELINE)


def values(arm: str) -> dict[str, float] | None:
    """Time of a request in ns (of small ones the mean, else the median), bandwidth in byte/s, goodput in bit/s; None
    when nothing was played to its end.
    """
    kept = Kept()
    with backend_of(arm).open(plan(), Watcher()) as session:
        outcome = session.run(Trial("t0", 7), kept)
    if outcome.status not in PLAYED:
        return None
    found = {}
    sent, finished = (kept.column("small", "request/1", name) for name in ("sent_ns", "finished_ns"))
    found["small"] = float(finished.max() - sent.min()) / sent.size
    for role in ("large", "datagrams"):
        seq, sent, finished = (
            kept.column(role, "request/1", name) for name in ("seq", "sent_ns", "finished_ns")
        )
        counts = (seq >= 0) & (finished >= 0)
        found[role] = float(np.median((finished - sent)[counts]))
    finished = np.sort(kept.column("bulk", "request/1", "finished_ns"))[20:]
    found["bulk"] = (finished.size - 1) * 8192 / ((finished[-1] - finished[0]) / 1e9)
    read = kept.column("tcp", "interval/1", "received_bytes")
    begin, end = (kept.column("tcp", "interval/1", name)[read > 0] for name in ("begin_ns", "end_ns"))
    found["tcp"] = float(read.sum()) * 8e9 / float(end.max() - begin.min())
    return found


def outside(simulated: dict[str, float], measured: list[dict[str, float]]) -> dict[str, float]:
    """Ratio of the best measured value to the simulated one, where it leaves its tolerance."""
    found = {}
    for name, (least, most) in TOLERANCES.items():
        best = (max if name in {"bulk", "tcp"} else min)(one[name] for one in measured)
        if not least <= best / simulated[name] <= most:
            found[name] = best / simulated[name]
    return found


def test_requests_bandwidth_and_goodput_behind_a_licence_are_the_same_on_both_arms() -> None:
    simulated = values("simulator")
    assert simulated is not None
    measured: list[dict[str, float]] = []
    for _ in range(TRIES):
        if (one := values("testbed")) is not None:
            measured.append(one)
            if not outside(simulated, measured):
                return
    if not measured:
        pytest.skip("this machine played no run to its end")
    pytest.fail(f"{outside(simulated, measured)} of simulated {simulated}")
