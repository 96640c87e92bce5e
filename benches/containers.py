"""Containers: how much longer a world takes to be ready with a container guest than with a namespace, and what one
holds.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import container_world as containers
import testbed_world as worlds
from _skipped import skipped

from virtlab.plan import Plan
from virtlab.testbed import Testbed
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.session import TestbedSession

PASSES = 15
MORE_MAX_S = 0.1
MANY = 16


def bench() -> Iterator[dict[str, Any]]:
    """Figures, or the reason that there are none."""
    why = containers.missing()
    if why is not None:
        yield skipped("containers", why)
        return
    plain, contained = worlds.plan(worlds.one_host(1)), worlds.plan(containers.containers(worlds.one_host(1)))
    _ready_s(plain)  # what is found out once per process
    pairs = [(_ready_s(plain), _ready_s(contained)) for _ in range(PASSES)]
    namespace_s = statistics.median(first for first, _ in pairs)
    more_s = statistics.median(second - first for first, second in pairs)
    yield {
        "name": "containers.ready_beyond_a_namespace", "value": more_s, "unit": "s", "ratio": more_s / namespace_s,
        "peer": f"a world with a namespace guest, {namespace_s:.3f} s", "goal": f"<= {MORE_MAX_S}",
    }  # fmt: skip
    if shutil.which(runtime.PODMAN) is not None:
        engine = worlds.plan(containers.containers(worlds.one_host(1), runtime=runtime.PODMAN))
        other_s = statistics.median(_ready_s(engine) for _ in range(PASSES))
        yield {
            "name": "containers.ready_by_podman", "value": other_s, "unit": "s", "ratio": other_s / (namespace_s + more_s),
            "peer": "a world with one by our own bundle", "goal": None,
        }  # fmt: skip
    many_s = _ready_s(worlds.plan(containers.containers(worlds.one_host(MANY))))
    yield {
        "name": f"containers.{MANY}_ready", "value": many_s, "unit": "s", "ratio": many_s / (namespace_s + more_s),
        "peer": "a world with one", "goal": None,
    }  # fmt: skip
    resident = _memory_bytes(contained)
    if resident is not None:
        yield {
            "name": "containers.memory", "value": resident, "unit": "B", "ratio": None,
            "peer": "its control group, agent inside", "goal": None,
        }  # fmt: skip


def _ready_s(plan: Plan) -> float:
    begin = time.monotonic()
    with Testbed().open(plan, worlds.Patient()):
        return time.monotonic() - begin


def _memory_bytes(plan: Plan) -> int | None:
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        counted = (row for each in session._guests.running for row in each.counters())
        return next((value for _, counter, value in counted if counter == "memory_bytes"), None)
