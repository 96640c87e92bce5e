"""A link's rate on its way from the file to the operations of the kernel: no function is visited again and again."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import virtlab
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower

PACKAGE = str(Path(virtlab.__file__).parent)
WRITTEN, RATE_BIT_PER_S = "123456 kbit/s", 123_456_000
FILE = f"""
version: 1
name: way
hosts: 2
topology: {{shape: line, switches: 1}}
links:
  h1-s1: {{rate: {WRITTEN}, realise: REALISE}}
  s1-h2: {{rate: 1 Gbit/s, realise: REALISE}}
roles: {{probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 10 ms, count: 5}}}}
"""


def visits(text: str) -> Counter[str]:
    """How often each function of virtlab was called with the rate as an argument; a generator counts once."""
    found: Counter[str] = Counter()
    frames: set[FrameType] = set()  # held, so that none has the identity of one before it

    def seen(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or frame in frames or not code.co_filename.startswith(PACKAGE):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names]
        if any(value in (RATE_BIT_PER_S, WRITTEN) for value in given if isinstance(value, (int, str))):
            frames.add(frame)
            found[f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        experiment = load_text(text)
        lower(plan_run(experiment, experiment.points()[0], 0))
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("realise", "through", "most"),
    [
        # Both directions of the link; token buckets hold the sender's vNIC by one more of the same.
        ("netem", "testbed/queues/netem_links.py:at_port", 2),
        ("shaping", "testbed/queues/kernel.py:at_port", 3),
        ("soft_switch", "testbed/queues/pacing.py:shaper", 2),
    ],
)
def test_no_function_sees_a_links_rate_more_than_once_for_each_of_its_ports(
    realise: str, through: str, most: int
) -> None:
    found = visits(FILE.replace("REALISE", realise))
    assert found[through] > 0
    assert max(found.values()) <= most, found.most_common(3)
