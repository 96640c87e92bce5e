"""`request_response` between two probes on one bridge: every request ends in one way, and hostile ends end the role
with one reason.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000
ENDED = ("answered", "refused", "lost", "broken", "open")


def played(world: pw.World, ends: tuple[pw.Probe, pw.Probe], **more: Any) -> tuple[pw.Samples, pw.Samples]:
    """Client and server of a role, once each of its requests has ended in exactly one way."""
    client, server = pw.play(*ends, "request_response", world, **more)
    assert server is not None
    count = client.counters
    assert count["requests"] == sum(count[f"{name}_requests"] for name in ENDED) == client.rows["response/1"]
    error = client.columns["response/1"]["error"]
    for code, name in enumerate(ENDED):
        assert (error == code).sum() == count[f"{name}_requests"]
    return client, server


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("request_bytes", "response_bytes"), [(16, 16), (64, 1000), (300_000, 16), (16, 300_000)]
)
def test_every_request_is_answered_whole(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], version: int, request_bytes: int, response_bytes: int
) -> None:
    client, server = played(
        world, ends, version=version, duration_ns=100 * MS, connections=3, request_bytes=request_bytes,
        response_bytes=response_bytes,
    )  # fmt: skip
    count = client.counters
    assert count["answered_requests"] == count["requests"] == server.counters["served_requests"] > 10
    assert count["sent_bytes"] == request_bytes * count["requests"]
    assert count["received_bytes"] == response_bytes * count["requests"]
    assert server.counters["connections"] == 3


def test_a_demand_takes_its_processor_time(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, server = played(world, ends, duration_ns=300 * MS, demand_ns=2 * MS)
    rows = client.columns["response/1"]
    assert np.all(rows["finished_ns"] - rows["sent_ns"] > 1.5 * MS)  # clocks of processors vary
    assert server.counters["worked_ns"] == 2 * MS * server.counters["served_requests"]
    assert server.counters["work_per_ms"] > 0
    given = server.counters["work_per_ms"] * 1000 // 4
    slow, _ = played(world, ends, duration_ns=300 * MS, demand_ns=2 * MS, work_per_s=given)
    assert slow.counters["requests"] > 2 * client.counters["requests"], "a quarter of the work"


def test_stages_of_a_request_are_all_worked_off_before_its_answer(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    """However many threads there are: the serial stage, then all subtasks, none twice and none left out."""
    for threads in (1, 2, 8):
        client, server = played(
            world, ends, duration_ns=300 * MS, serial_demand_ns=MS // 2, demand_ns=MS + 1, subtasks=3, threads=threads,
            connections=4,
        )  # fmt: skip
        count = server.counters
        assert client.counters["answered_requests"] == count["served_requests"] > 10
        assert count["worked_ns"] == (MS // 2 + MS + 1) * count["served_requests"]
        rows = client.columns["response/1"]
        assert (rows["finished_ns"] - rows["sent_ns"]).min() > 0.6 * MS  # the serial stage and one subtask


def test_what_is_under_the_lock_is_done_by_one_thread_at_a_time(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    common: dict[str, Any] = {"duration_ns": 400 * MS, "demand_ns": 4 * MS, "threads": 4, "connections": 4}
    _, free = played(world, ends, **common)
    assert free.counters["lock_wait_ns"] == 0
    client, server = played(world, ends, lock_ratio=1.0, **common)
    count = server.counters
    assert client.counters["answered_requests"] == count["served_requests"] > 10
    # Of four requests under way three wait, or are on their way.
    assert count["lock_wait_ns"] > 4 * MS * count["served_requests"]
    assert count["served_requests"] < 1.3 * 400 / 4


@pytest.mark.parametrize("mode", ["buffered", "fsync", "throttled"])
def test_every_request_is_written_before_its_answer(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], mode: str
) -> None:
    """Also beyond the 64 MiB after which the file is overwritten."""
    client, server = played(
        world, ends, duration_ns=300 * MS, threads=2, connections=4, write_bytes=3 << 20, write_mode=mode
    )
    count = server.counters
    assert client.counters["answered_requests"] == count["served_requests"] == count["writes"] > 0
    assert count["written_bytes"] == count["writes"] * (3 << 20)
    assert count["idle_writes"] == 0
    assert count["write_ns"] > 0
    if mode == "throttled":
        assert count["throttled_ns"] > 0.5 * count["write_ns"]
    else:
        assert count["throttled_ns"] == 0


def test_a_server_without_requests_writes_as_often_as_it_is_to(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    _, server = played(
        world, ends, duration_ns=500 * MS, think_ns=400 * MS, write_bytes=100, idle_write_ns=20 * MS
    )
    count = server.counters
    assert 2 <= count["idle_writes"] <= 500  # of 10 s
    assert count["writes"] == count["idle_writes"] + count["served_requests"]
    assert count["written_bytes"] == 100 * count["writes"]


def test_requests_that_no_connection_was_free_for_wait_and_are_lost(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    client, _ = played(
        world,
        ends,
        duration_ns=400 * MS,
        rate_per_s=100,
        timeout_ns=100 * MS,
        pause_ns=2000 * MS,
        connections=2,
    )
    count = client.counters
    assert count["requests"] == count["lost_requests"] == 40
    rows = client.columns["response/1"]
    assert (rows["sent_ns"] - rows["intended_ns"]).max() > 50 * MS
    assert np.all(rows["finished_ns"] - rows["intended_ns"] >= 100 * MS)


def test_a_role_that_is_stopped_says_what_was_open(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    client, _ = played(world, ends, stop_after_s=0.3, connections=4, pause_ns=60_000 * MS)
    assert client.counters["requests"] == client.counters["open_requests"] == 4


def test_a_port_without_a_server_breaks_every_request(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    a, b = world.a.end(), world.b.end()
    own = {"duration_ns": 100 * MS, "rate_per_s": 100, "connections": 2}
    ends[0].ask(
        "arm",
        role="r",
        workload="request_response",
        side="client",
        local=a,
        peer={**b, "port": 1},
        parameters=own,
    )
    try:
        ends[0].ask("start", role="r")
        ends[0].wait_event("finished", "r")
        count = ends[0].collect("r").counters
    finally:
        ends[0].ask("disarm", role="r")
    assert count["broken_requests"] == count["requests"] == 10


def test_the_rate_changes_while_the_role_runs(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    a, b = world.a.end(), world.b.end()
    common: dict[str, Any] = {
        "role": "r", "workload": "request_response", "seed": 7,
        "parameters": {"duration_ns": 600 * MS, "rate_per_s": 10, "connections": 8},
    }  # fmt: skip
    port = ends[1].ask("arm", side="server", local=b, peer=a, **common)["port"]
    try:
        ends[0].ask("arm", side="client", local=a, peer={**b, "port": port}, **common)
        with pytest.raises(pw.ProbeError, match="rate_per_s"):
            ends[0].ask("set", role="r", parameter="rate_per_s", value=0)
        ends[0].ask("start", role="r")
        ends[0].wait_event("started", "r")
        ends[0].ask("set", role="r", parameter="rate_per_s", value=1000)
        ends[0].wait_event("finished", "r")
        count = ends[0].collect("r").counters
    finally:
        for probe in ends:
            probe.ask("disarm", role="r")
    assert 100 < count["requests"] == count["answered_requests"] <= 602
