"""Classes of a queue in virtual time: exact delays under strict priority, conservation per class."""

from __future__ import annotations

from typing import Any

import pytest
from tests.theory.simulated import beside, counters, simulated, values_of

LOAD = {"burst_bytes": 60_000, "period_ns": 10_000_000, "streams": 20, "phase": "fixed"}
CLASSES = {
    "prio": {"voice": {"parameters": {"prio": 1}}, "rest": {"parameters": {"prio": 2}}},
    "drr": {
        "voice": {"parameters": {"quantum_bytes": 1514}},
        "rest": {"parameters": {"quantum_bytes": 1514}},
    },
    "htb": {
        "all": {"parameters": {"rate_bit_per_s": 95_000_000}},
        "voice": {
            "parent": "all",
            "parameters": {"rate_bit_per_s": 20_000_000, "ceil_bit_per_s": 95_000_000},
        },
        "rest": {
            "parent": "all",
            "parameters": {"rate_bit_per_s": 75_000_000, "ceil_bit_per_s": 95_000_000, "prio": 1},
        },
    },
    "hfsc": {
        "voice": {"parameters": {"rt_m2_bit_per_s": 20_000_000, "ls_m2_bit_per_s": 20_000_000}},
        "rest": {"parameters": {"ls_m2_bit_per_s": 75_000_000}},
    },
}


def played(kind: str, dscp: int) -> tuple[list[int], dict[tuple[str, str], int]]:
    """Round-trip times of a probe with this code point beside a load, and counters at the end."""
    values: dict[str, Any] = beside(values_of(count=200), LOAD)
    values["roles"]["probe"]["dscp"] = dscp
    queue = {
        "kind": kind, "classes": CLASSES[kind], "default": "rest", "match": [{"class": "voice", "dscp": [46]}],
    }  # fmt: skip
    for link in values["world"]["links"].values():
        link["queue"] = {"ab": queue, "ba": queue}
    outcome, kept = simulated(values)
    assert outcome.status == "ok"
    return kept.column("probe", "rtt/1", "rtt_ns").tolist(), counters(kept, "end")


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(CLASSES))
def test_a_probe_in_its_own_class_waits_less_than_beside_the_load(kind: str) -> None:
    alone, found = played(kind, 46)
    beside_load, shared = played(kind, 0)
    assert len(alone) == 200
    assert sum(alone) / len(alone) < sum(beside_load) / len(beside_load)
    assert shared["links.l1.ab.voice", "packets"] == 0
    for line in ("links.l1.ab", "links.l1.ba"):
        assert found[f"{line}.voice", "packets"] == 200
        classes = found[f"{line}.voice", "packets"] + found[f"{line}.rest", "packets"]
        assert classes == found[line, "packets"]


def test_under_strict_priority_a_frame_waits_for_one_other_at_most_at_each_port() -> None:
    frames = 123_040  # 1538 octets at 100 Mbit/s: the longest that may be on the wire already
    alone, _ = played("prio", 46)
    assert max(alone) - min(alone) <= 2 * frames


def test_a_queue_tells_how_long_frames_waited_in_it() -> None:
    _, kept = simulated(values_of(count=20))
    idle = counters(kept, "end")
    assert idle["links.l1.ab", "residence_ns"] == idle["links.l1.ab", "residence_max_ns"] == 0
    _, found = played("prio", 46)
    longest, total = (found["links.l1.ab", name] for name in ("residence_max_ns", "residence_ns"))
    assert 0 < longest <= total <= longest * found["links.l1.ab", "packets"]
