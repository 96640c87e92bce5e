"""A machine moves with its disk, which both hosts share, or which is copied to the other one: no write is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import (
    ENDLESS_NS,
    RATE_BIT_PER_S,
    S,
    moving_plan,
    of_migration,
    on_and_on,
    played,
    three_hosts,
)

from virtlab.plan import Plan
from virtlab.planner.mobility.copying import addressed
from virtlab.testbed import Testbed
from virtlab.testbed.platforms.qemu import disks

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
SIZE_BYTES = 24 << 20
WRITE_BYTES = 4096
DISK = {"size_bytes": SIZE_BYTES, "latency_ns": 1_000_000}
SAMPLES_WITH_WRITES = 3  # at least: a busy machine emulates a guest in spurts


def with_disk(plan: Plan, kind: str | None, **disk: Any) -> Plan:
    """A server in the machine writes to its disk, request after request, from the beginning to the end."""
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["world"]["guests"]["v"]["disk"] = {**DISK, **disk}
    values["roles"]["ask"] = {
        "workload": "request_response", "from": "c", "to": "v", "duration_ns": ENDLESS_NS, "write_bytes": WRITE_BYTES,
        "write_mode": "fsync", "connections": 1, "threads": 1, "request_bytes": 64, "response_bytes": 64,
        "timeout_ns": 300 * S, "backlog": 64, "full": "wait",
    }  # fmt: skip
    values["timeline"] = [
        {"id": "asking", "do": "start", "role": "ask"},
        *(
            {**each, "disk": kind} if each["do"] == "migrate" and kind else each
            for each in values["timeline"]
        ),
        {"id": "asked", "do": "stop", "role": "ask", "after": {"event": "settle.done"}},
    ]
    values["collect"]["packets"] = ["probe", "ask"]
    values["collect"]["counters"] = ["disks", "links"]
    values["collect"]["series"] = [
        {"source": each, "every_ns": S // 10} for each in ("guest.disk", "host.disk")
    ]
    return addressed(Plan.model_validate(values))


def of_disk(sink: worlds.MemorySink, entity: str, metric: str) -> tuple[Any, Any]:
    """Instants and values of a series of disks."""
    found: list[tuple[int, float]] = []
    for stream, schema, columns in sink.blocks:
        if (stream, schema) == ("series", "series/1"):
            own = (columns["entity"] == entity) & (columns["metric"] == metric)
            found += zip(columns["t_ns"][own], columns["value"][own], strict=True)
    return np.array([t_ns for t_ns, _ in found]), np.array([value for _, value in found])


def check_every_write(sink: worlds.MemorySink, *, more: int = 0) -> None:
    """What the server wrote by its own count came to the disk of its guest, wherever that was, and nothing else."""
    writes = sink.counters("stop")["ask/server", "writes"]
    before, after = sink.counters("begin"), sink.counters("end")
    come = {
        counter: after["guests.v.disk", counter] - before["guests.v.disk", counter]
        for counter in ("disk_writes", "disk_written_bytes")
    }
    assert writes > 100
    assert abs(come["disk_writes"] - writes) <= more
    assert abs(come["disk_written_bytes"] - writes * WRITE_BYTES) <= more * WRITE_BYTES
    rows = sink.columns("ask", "response/1")
    assert (rows["error"] == 0).all(), "no request met a disk that was gone"


def check_series(sink: worlds.MemorySink, at: dict[str, int]) -> None:
    """The disk is written to under its guest's name before and after, and under that of the host where the guest is."""
    _, own = of_disk(sink, "guests.v.disk", "disk_written")
    assert (own > 0).sum() >= SAMPLES_WITH_WRITES
    assert own.max() < 50e6, "no sample counts what another disk had done before"
    there, rates = of_disk(sink, "hosts.h2.disks", "disk_written")
    assert (rates[there > at["go.resumed"] + S // 5] > 0).sum() >= SAMPLES_WITH_WRITES
    here, rates = of_disk(sink, "hosts.h1.disks", "disk_written")
    assert (rates[here < at["go.paused"]] > 0).sum() >= SAMPLES_WITH_WRITES
    assert not (here > at["go.resumed"] + S).any(), "it is there no more"


@pytest.mark.parametrize("medium", ["memory", "file"])
@pytest.mark.parametrize("kind", ["shared", "mirrored"])
def test_what_a_machine_writes_to_its_disk_while_it_moves_is_on_it(kind: str, medium: str) -> None:
    sink, outcome = played(with_disk(moving_plan(rate_byte_per_s=40_000_000), kind, medium=medium))
    assert "go.finished" in outcome.marks
    at = {event.what: event.t_ns for event in sink.events}
    check_every_write(sink, more=2)
    check_series(sink, at)
    sent = of_migration(sink, "migration_disk_sent")
    if kind == "shared":
        assert sent == []
        return
    (sent_bytes,), (total_ns,), (setup_ns,) = (
        of_migration(sink, metric) for metric in ("migration_disk_sent", "migration_time", "migration_setup")
    )
    assert SIZE_BYTES <= sent_bytes < 2 * SIZE_BYTES
    own, rates = of_disk(sink, "guests.v.disk", "disk_written")
    moving = (own > outcome.marks["go.started"].t_ns) & (own < at["go.paused"])
    again_bytes = rates[moving].sum() / 10
    assert again_bytes / 2 < sent_bytes - SIZE_BYTES < 2 * again_bytes, (
        "what is written meanwhile is sent, too"
    )
    assert total_ns > setup_ns > SIZE_BYTES / 40e6 * S * 0.8, "the limit of bandwidth is the disk's, too"
    copied, rates = of_disk(sink, "hosts.h2.disks", "disk_written")
    assert rates[copied < at["go.paused"]].max() > 1e6, "the copy is written at the destination"


def test_what_is_mirrored_over_links_crosses_them() -> None:
    world = three_hosts(memory_bytes=128 << 20)
    for link in world["links"].values():
        link["rate_bit_per_s"] = RATE_BIT_PER_S
    sink, outcome = played(
        with_disk(moving_plan(world=world, over="network", rate_byte_per_s=100_000_000), "mirrored")
    )
    check_every_write(sink, more=2)
    (disk,), (memory,) = of_migration(sink, "migration_disk_sent"), of_migration(sink, "migration_sent")
    before, after = sink.counters("begin"), sink.counters("end")
    crossed = after["links.l0.ab", "bytes"] - before["links.l0.ab", "bytes"]
    assert crossed >= disk + memory
    (total_ns,) = of_migration(sink, "migration_time")
    assert total_ns / S > (disk + memory) * 8 / RATE_BIT_PER_S
    assert "go.finished" in outcome.marks


@pytest.mark.parametrize("kind", ["shared", "mirrored"])
def test_a_disk_goes_there_and_back(kind: str) -> None:
    sink, outcome = played(with_disk(on_and_on("h1", rate_byte_per_s=60_000_000), kind))
    assert {"go.finished", "go1.finished"} <= outcome.marks.keys()
    check_every_write(sink, more=4)
    assert len(of_migration(sink, "migration_disk_sent")) == (2 if kind == "mirrored" else 0)


@pytest.fixture
def small_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of disks with room for one and a half."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a file system here")
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES * 2}", "none", str(tmp_path)], check=True
    )
    monkeypatch.setattr(disks, "FOLDER", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def filled(folder: Path) -> Callable[[], None]:
    def fill() -> None:
        state = os.statvfs(folder)
        with (folder / "other").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - SIZE_BYTES // 2)

    return fill


@pytest.mark.parametrize("when", ["set-up", "rounds"])
def test_a_disk_that_is_full_at_the_destination_is_a_failed_move_and_the_machine_runs_on(
    when: str, small_folder: Path
) -> None:
    plan = with_disk(moving_plan(rate_byte_per_s=8_000_000), "mirrored", medium="file")
    assert Testbed().check(plan) == []
    fill = filled(small_folder)
    if when == "set-up":
        sink = worlds.ActingSink(fill, at="load.started", later_s=0.2)
    else:
        sink = worlds.ActingSink(fill, at="go.started", later_s=0.5)
    sink, outcome = played(plan, sink)
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.failed"}
    (state,) = [event.details for event in sink.events if event.what == "go.state"]
    assert "No space left on device" in state["text"], state
    assert "it runs on at h1" in state["text"]
    check_every_write(sink, more=2)
    kept = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("probe", "rtt/1")]
    numbers = np.concatenate([each["seq"] for each in kept])
    at_ns = np.concatenate([each["sent_ns"] + each["rtt_ns"] for each in kept])
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert (at_ns > outcome.marks["go.failed"].t_ns).sum() > 50, "it runs on where it was"
    assert not processes.named(b"qemu-system-x86_64")


def test_a_disk_whose_copy_meets_a_cut_link_stays_and_is_written_to_again() -> None:
    def cut() -> None:
        (there,) = processes.named(b"-incoming")
        subprocess.run(
            ["nsenter", "-t", str(there), "-n", "ip", "link", "set", "dev", "up", "down"], check=True
        )

    world = three_hosts(memory_bytes=128 << 20)
    for link in world["links"].values():
        link["rate_bit_per_s"] = RATE_BIT_PER_S
    move = moving_plan(world=world, over="network", rate_byte_per_s=3_000_000, timeout_ns=6 * S)
    sink, outcome = played(with_disk(move, "mirrored"), worlds.ActingSink(cut, at="go.started", later_s=2.0))
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.cancelled"}
    check_every_write(sink, more=2)
    written, rates = of_disk(sink, "guests.v.disk", "disk_written")
    assert (rates[written > outcome.marks["go.cancelled"].t_ns] > 0).mean() > 0.5, "it runs on where it was"
