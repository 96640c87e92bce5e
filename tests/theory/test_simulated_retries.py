"""Requests that are asked again in the simulator: what each try meets is computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import simulated, values_of
from tests.theory.test_simulated_requests import MS, requests

PAUSED: dict[str, Any] = {"rate_per_s": 10, "connections": 64, "pause_ns": 1000 * MS, "demand_ns": MS}


def counted(**role: Any) -> dict[str, int]:
    """The client's counters."""
    values = values_of(switches=1)
    values["roles"]["probe"] = {
        "from": "a", "to": "b", "workload": "request_response", "duration_ns": 1000 * MS, "timeout_ns": 60_000 * MS,
        **role,
    }  # fmt: skip
    outcome, kept = simulated(values, 1)
    assert outcome.status == "ok", outcome.reasons
    return {
        str(name): int(value)
        for (_, schema), blocks in kept.blocks.items()
        if schema == "counter/1"
        for block in blocks
        for entity, name, value in zip(block["entity"], block["counter"], block["value"], strict=True)
        if str(entity).partition("/")[0] == "probe"
    }


def test_requests_that_were_refused_are_asked_again_until_there_is_room() -> None:
    once = {**PAUSED, "backlog": 1}
    _, rows = requests(**once)
    assert (rows["error"] == 1).sum() == 8, "one is served and one waits in the pause of a second"
    _, rows = requests(**once, retries=10, retry_after_ns=300 * MS)
    assert not rows["error"].any()
    took_ms = (rows["finished_ns"] - rows["intended_ns"]) / MS
    assert np.all(took_ms % 300 < 5), (
        "the try that is answered began a multiple of 300 ms after the request was due"
    )
    due_ms = np.arange(10) * 100
    assert np.all(took_ms > 1000 - due_ms), "none is answered in the pause"
    assert took_ms.max() < 2000


def test_a_try_without_an_answer_is_followed_by_others_until_the_last() -> None:
    _, rows = requests(**PAUSED, retries=2, retry_after_ns=100 * MS, timeout_ns=400 * MS)
    lost = rows["error"] == 2
    assert np.all((rows["finished_ns"] - rows["intended_ns"])[lost] == 400 * MS)
    assert lost.tolist() == [True] * 7 + [False] * 3, "those due 400 ms before the pause ends, or earlier"
    assert not rows["error"][~lost].any()


@pytest.mark.parametrize("closed", [False, True])
def test_tries_are_counted_apart_from_requests(closed: bool) -> None:
    rate = {} if closed else {"rate_per_s": 10}
    count = counted(
        **rate, connections=2, pause_ns=60_000 * MS, retries=3, retry_after_ns=50 * MS, timeout_ns=500 * MS
    )
    assert count["lost_requests"] == count["requests"] > 0
    if closed:
        assert count["requests"] == 4, "two clients, each given up after 500 ms and asked for a second"
        assert count["retries"] == 3 * count["requests"]
    else:
        assert count["requests"] == 10
        assert 0 < count["retries"] <= 30, "some find no free connection in time"
