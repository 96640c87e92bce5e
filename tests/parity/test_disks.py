"""Servers that write to disks of their guests, on both arms: the same operations and bytes, and about the same time.

A folder in memory has a size alone: its server writes over and over, on both arms, and nothing of the disk is counted.

The disk dominates: 4 KiB at 2 MB/s hold its medium for 2.048 ms, and 2 ms of latency follow. On the testbed a virtual
machine's kernel, its emulated device and the descriptor to the disk's server are added to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.parity.responses import played, rows_of

from virtlab.testbed.platforms.qemu.platform import machines_missing

machines = pytest.mark.skipif(machines_missing() is not None, reason=str(machines_missing()))

MS = 1_000_000
WRITE = 4096
MODEL_NS = 2.048 * MS + 2 * MS
FILE = """
version: 1
name: written
hosts:
  h1:
    guests:
      client: {}
      app: {platform: qemu, disk: {DISK}}
topology: none
roles:
  ask: {workload: request_response, from: h1.client, to: h1.app, duration: 2 s, ROLE}
timeline:
  - {id: ask, do: run, role: ask}
collect: {counters: [disks], series: {guest.disk: 200 ms, host.disk: 200 ms}}
repeat: 1
"""
DISK = "size: 16 MiB, rate: 2 MB/s, latency: 2 ms"


def both(
    disk: str = DISK, role: str = "write: 4 KiB, write_mode: fsync", duration: str = "duration: 2 s, "
) -> dict[str, Any]:
    """What each arm kept of the same file."""
    text = FILE.replace("DISK", disk).replace("duration: 2 s, ROLE", duration + role)
    return {arm: played(arm, text) for arm in ("testbed", "simulator")}


def counters(kept: Any) -> dict[tuple[str, str], int]:
    """The last value of each counter."""
    found = {}
    for block in kept.blocks["counters", "counter/1"]:
        rows = zip(block["t_ns"], block["entity"], block["counter"], block["value"], strict=True)
        found |= {(entity, counter): int(value) for _, entity, counter, value in sorted(rows)}
    return found


def of_disk(kept: Any) -> dict[str, int]:
    return {key: value for (entity, key), value in counters(kept).items() if entity == "guests.h1.app.disk"}


def of_server(kept: Any) -> dict[str, int]:
    return {key: value for (entity, key), value in counters(kept).items() if entity == "ask/server"}


def written(kept: Any, entity: str) -> float:
    """Bytes by the samples of the rate."""
    total = 0.0
    for block in kept.blocks["series", "series/1"]:
        at = (block["entity"] == entity) & (block["metric"] == "disk_written")
        total += float(block["value"][at].sum()) * 0.2
    return total


@machines
def test_every_write_of_a_server_is_one_operation_of_its_bytes_and_takes_the_time_of_the_model() -> None:
    for arm, kept in both().items():
        answers = rows_of(kept, "ask")
        disk, server = of_disk(kept), of_server(kept)
        assert not answers["error"].any()
        assert disk["disk_writes"] == server["writes"] == len(answers["error"]), arm
        assert disk["disk_flushes"] == 0, "without a cache there is nothing to flush"
        assert disk["disk_written_bytes"] == server["written_bytes"] == WRITE * server["writes"]
        # A kernel looks at a new disk for partitions; the model has no kernel.
        assert (disk["disk_reads"] > 0) == (arm == "testbed")
        assert disk["disk_write_ns"] == pytest.approx(MODEL_NS * disk["disk_writes"], rel=1e-9)
        write_ns = server["write_ns"] / server["writes"]
        assert MODEL_NS <= write_ns < (2 if arm == "testbed" else 1 + 1e-9) * MODEL_NS
        took = np.median(answers["finished_ns"] - answers["sent_ns"])
        assert MODEL_NS <= took < (3 if arm == "testbed" else 1.1) * MODEL_NS
        for entity in ("guests.h1.app.disk", "hosts.h1.disks"):
            assert written(kept, entity) == pytest.approx(disk["disk_written_bytes"], rel=0.25)


@machines
def test_a_long_write_and_a_flush_are_the_same_operations_on_both_arms() -> None:
    disk = "size: 16 MiB, medium: file, rate: 20 MB/s, write_cache: 1 MiB"
    for arm, kept in both(disk, "write: 300000 B, write_mode: fsync").items():
        found, server = of_disk(kept), of_server(kept)
        assert found["disk_writes"] == 2 * server["writes"], arm
        assert found["disk_written_bytes"] == (262_144 + 37_888) * server["writes"]
        assert found["disk_flushes"] == server["writes"]
        holds_ns = (262_144 + 37_888) * 1e9 / 20e6
        write_ns = server["write_ns"] / server["writes"]
        assert holds_ns <= write_ns < (2 if arm == "testbed" else 1.001) * holds_ns


@machines
def test_what_a_kernel_holds_comes_to_the_disk_when_it_is_much_and_all_of_it_in_the_end() -> None:
    """64 KiB 50 times per second: 9.8 MB, of which a kernel of 96 MiB holds 2.4 MB before it begins to write."""
    disk = "size: 64 MiB, medium: file, rate: 5 MB/s"
    for arm, kept in both(disk, "rate: 50 request/s, duration: 3 s, write: 64 KiB", "").items():
        found, server = of_disk(kept), of_server(kept)
        assert server["writes"] == 150, arm
        assert found["disk_written_bytes"] == server["written_bytes"] == 150 << 16, arm
        assert found["disk_writes"] < 50, "neighbours go together"
        assert server["write_ns"] < 150 * 3 * MS, "a write takes what copying takes, not 13 ms of the disk"
        assert found["disk_flushes"] == 0
        held = (150 << 16) - written(kept, "guests.h1.app.disk")
        assert 0 <= held < 4 << 20, (arm, held)


@machines
def test_little_stays_in_the_kernel_until_the_server_ends() -> None:
    """Each of 200 writes of 4 KiB fills a page; those of 512 B fill the same two, which are read first, over and
    over.
    """
    for arm, kept in both("size: 16 MiB", "rate: 100 request/s, write: 4 KiB").items():
        found = of_disk(kept)
        assert found["disk_written_bytes"] == 200 * WRITE, arm
        assert written(kept, "guests.h1.app.disk") == 0, arm
    for arm, kept in both("size: 8 KiB", "rate: 100 request/s, write: 512 B").items():
        found = of_disk(kept)
        assert (found["disk_writes"], found["disk_written_bytes"]) == (1, 8192), arm


def test_a_folder_in_memory_is_written_over_and_over_and_counts_nothing() -> None:
    text = FILE.replace("platform: qemu, disk: {DISK}", "disk: {size: 64 KiB}")
    text = text.replace(
        "ROLE", "write: 10000 B, write_mode: fsync, rate: 100 request/s, duration: 1 s"
    ).replace("duration: 2 s, ", "")
    text = text.replace("collect: {counters: [disks], series: {guest.disk: 200 ms, host.disk: 200 ms}}\n", "")
    for arm in ("testbed", "simulator"):
        kept = played(arm, text)
        answers, server = rows_of(kept, "ask"), of_server(kept)
        assert not answers["error"].any()
        assert server["writes"] == len(answers["error"])
        assert server["written_bytes"] == 10_000 * server["writes"] > 64 << 10, (
            "more than its disk holds at once"
        )
        assert not of_disk(kept)
        series = [name for name in kept.blocks if name == ("series", "series/1")]
        entities = {str(one) for name in series for block in kept.blocks[name] for one in block["entity"]}
        assert not [one for one in entities if one.endswith((".disk", ".disks"))], arm
