"""Kernel and virtlab on the same traffic: a queue of each kind in front of a 20 Mbit/s line that is offered 30.

The line is played three times: by the kernel (its own discipline behind its shaper), by the soft switch with virtlab's
state machine on the same packets, and in virtual time. Three things must agree, within tolerances that hold what the
kernel does otherwise: its shaper lets bursts go and holds no frame for its own serialisation (0.6 ms of 1518 B here),
and its limits are counted behind the frame that waits for tokens.

| | tolerance |
|---|---|
| rate of what comes | 3 % |
| share that is lost | 3 % of what was sent |
| median and 90th percentile of delay | 5 % and 2.5 such frames |

A machine with other work spoils runs and never mends them: each real arm is played until it agrees, four times at most.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import Backend, Plan, Trial

TRIES = 8
QUEUES = {
    "codel": {"kind": "codel", "limit_packets": 50, "parameters": {"interval_ns": 20_000_000}},
    "fifo": {"kind": "fifo", "limit_packets": 50},
    "bfifo": {"kind": "bfifo", "limit_bytes": 60_000},
    "pie": {"kind": "pie", "limit_packets": 50},
    "tbf": {
        "kind": "tbf", "limit_bytes": 60_000,
        "parameters": {"rate_bit_per_s": 15_000_000, "burst_bytes": 15_140},
    },
    "htb": {
        "kind": "htb", "limit_packets": 50,
        "parameters": {"rate_bit_per_s": 15_000_000, "burst_bytes": 15_140},
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Load:
    """Datagrams of 1472 B on their way over a slow line; what is sent before `begin_ns` is not looked at."""

    line_bit_per_s: int = 20_000_000
    offered_bit_per_s: int = 30_000_000
    duration_ns: int = 700_000_000
    begin_ns: int = 200_000_000
    quantiles: tuple[float, ...] = (0.5, 0.9)  # of delays, which are compared

    @property
    def tolerance_ns(self) -> float:
        """Of a delay, besides its share: full frames that the kernel's shaper counts otherwise."""
        return 2.5 * 1526 * 8e9 / self.line_bit_per_s


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of a stream."""

    rate_bit_per_s: float
    lost: float
    delays_ns: tuple[float, ...]  # quantiles

    def like(self, other: Passed, tolerance_ns: float) -> bool:
        """Within the tolerances."""
        delays = zip(self.delays_ns, other.delays_ns, strict=True)
        return (
            abs(self.rate_bit_per_s / other.rate_bit_per_s - 1) <= 0.03
            and abs(self.lost - other.lost) <= 0.03
            and all(abs(mine - theirs) <= 0.05 * theirs + tolerance_ns for mine, theirs in delays)
        )


def plan(queue: dict[str, Any], by: str, load: Load = Load()) -> Plan:
    """The load from a, over a fast line and then the slow one."""
    values: dict[str, Any] = json.loads(plan_of().canonical())
    links = values["world"]["links"]
    links["l1"]["rate_bit_per_s"] = load.line_bit_per_s
    links["l1"]["queue"] = {"ab": queue | {"by": by}, "ba": {"kind": "fifo", "by": by}}
    if by == "kernel":
        links["l0"]["queue"] = {way: {"kind": "fifo", "by": by} for way in ("ab", "ba")}
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": 1472,
        "rate_bit_per_s": load.offered_bit_per_s, "duration_ns": load.duration_ns,
    }  # fmt: skip
    return Plan.parse(json.dumps(values))


def passed(
    backend: Backend,
    queue: dict[str, Any],
    by: str,
    load: Load = Load(),
) -> Passed | None:
    """One run of an arm; None when it was not played to its end."""
    chosen, kept = plan(queue, by, load), Kept()
    if refusals := backend.check(chosen):
        pytest.skip(f"{refusals[0].path}: {refusals[0].reason}")
    with backend.open(chosen, Watcher()) as session:
        outcome = session.run(Trial("t0", 7), kept)
    if outcome.status not in PLAYED:
        return None
    sent, received, seq = (
        kept.column("probe", "packet/1", name) for name in ("sent_ns", "received_ns", "seq")
    )
    late = sent >= np.min(sent, initial=sent[0] if sent.size else 0) + load.begin_ns
    if not late.any():
        return None  # the sender got no processor for the rest of it
    delay, came = (received - sent)[late], np.sort(received[late])
    offered = int(seq[late].max() - seq[late].min()) + 1
    return Passed(
        (len(came) - 1) * 1500 * 8e9 / float(came[-1] - came[0]),
        1 - len(came) / offered,
        tuple(float(np.quantile(delay, quantile)) for quantile in load.quantiles),
    )


def agrees(
    backend: Backend,
    queue: dict[str, Any],
    by: str,
    simulated: Passed,
    load: Load = Load(),
) -> None:
    """A real arm is played until it is like the simulated one."""
    seen: list[Passed | None] = []
    for _ in range(TRIES):
        seen.append(passed(backend, queue, by, load))
        if (one := seen[-1]) is not None and one.like(simulated, load.tolerance_ns):
            return
    if all(one is None for one in seen):
        pytest.skip("this machine played no run to its end")
    pytest.fail(f"by {by}: {seen}, simulated {simulated}")


@pytest.mark.parametrize("kind", QUEUES)
def test_kernel_soft_switch_and_simulator_pass_the_same_traffic_alike(kind: str) -> None:
    queue = QUEUES[kind]
    simulated = passed(backend_of("simulator"), queue, "virtlab")
    assert simulated is not None
    assert simulated.lost > 0.2, "the queue must overflow, or nothing is compared"
    for by in ("virtlab", "kernel"):
        agrees(backend_of("testbed"), queue, by, simulated)
