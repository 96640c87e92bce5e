"""Counters that the kernel tells of a queue are those of its discipline, whatever else has the same handle."""

from __future__ import annotations

from typing import Any

import pytest

from virtlab.testbed.play.records import kernel_rows
from virtlab.testbed.queues.kernel import PortQueue


def hfsc(handle: str, **counters: int) -> dict[str, Any]:
    passed = {"packets": 0, "bytes": 0, "drops": 0, "backlog_packets": 0, "backlog_bytes": 0} | counters
    return {"kind": "hfsc", "handle": handle, "parent": "root", **passed}


@pytest.mark.parametrize("top", ["10:", "1:"])
def test_hfsc_is_counted_by_the_discipline_and_not_by_its_root_class(top: str) -> None:
    queue = PortQueue("host:h2", "tap0", {"gold": f"{top}1"}, top)
    # As the kernel tells them: the discipline, its root class with the very handle and counters that stay 0, its
    # classes.
    entries = [hfsc(top, packets=40, drops=2, backlog_packets=3), hfsc(top), hfsc(f"{top}1", packets=30)]
    seen = {"host:h2": {"links": {"tap0": {"qdiscs": entries}}}}
    told = {
        (entity, name): value
        for _, _, entity, name, value in kernel_rows({("g2.eth0", "ab"): queue}, seen, 1, "end")
    }
    whole = "links.g2.eth0.ab"
    assert (told[whole, "packets"], told[whole, "drops"], told[whole, "backlog_packets"]) == (40, 2, 3)
    assert told[f"{whole}.gold", "packets"] == 30
