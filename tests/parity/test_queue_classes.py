"""A class of HTB on the kernel, in the soft switch and in virtual time: the same overload leaves the same rate and
loss.

Tolerances: 3 % of the bytes through the class and of its drops. A paced sender offers 60 Mbit/s to a class of 20.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "testbed"))
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.simulator import Simulator
from virtlab.testbed import Testbed
from virtlab.testbed.build.machine import findings

MISSING = [
    kind for kind in ("htb", "pfifo", "cls_u32") if findings().qdiscs.get(kind, "not tried") is not None
]
WHY = worlds.missing() or (f"this kernel has no {', '.join(MISSING)}" if MISSING else None)
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))

RATE_BIT_PER_S = 20_000_000
DURATION_NS = 1_500_000_000
QUEUE = {
    "kind": "htb", "default": "rest", "match": [{"class": "voice", "dscp": [46]}],
    "classes": {
        "voice": {"limit_packets": 50, "parameters": {"rate_bit_per_s": RATE_BIT_PER_S}},
        "rest": {"parameters": {"rate_bit_per_s": 70_000_000}},
    },
}  # fmt: skip


def overloaded(backend: Any, by: str) -> tuple[int, int]:
    """Bytes and drops of the class."""
    queue = QUEUE | {"by": by}
    values = worlds.echo_plan(worlds.bridged(queue={"ab": queue, "ba": queue})).model_dump(
        by_alias=True, exclude_defaults=True
    )
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "rate_bit_per_s": 60_000_000, "ip_packet_bytes": 1500,
        "duration_ns": DURATION_NS, "dscp": 46,
    }  # fmt: skip
    sink = worlds.MemorySink()
    with backend.open(Plan.model_validate(values), worlds.Patient()) as session:
        assert session.run(Trial("t0", 1), sink).status in {"ok", "tainted"}
    found = sink.counters("end")
    return found["links.l0.ab.voice", "bytes"], found["links.l0.ab.voice", "drops"]


def test_a_class_passes_and_drops_alike_whoever_plays_it() -> None:
    simulated = overloaded(Simulator(), "auto")
    assert simulated[0] * 8e9 / DURATION_NS == pytest.approx(RATE_BIT_PER_S, rel=0.03)
    for by in ("kernel", "virtlab"):
        for _ in range(3):  # a machine that stalls spoils one run, not three
            measured = overloaded(Testbed(), by)
            if measured == (pytest.approx(simulated[0], rel=0.03), pytest.approx(simulated[1], rel=0.03)):
                break
        else:
            pytest.fail(f"{by}: bytes and drops {measured}, in virtual time {simulated}")
