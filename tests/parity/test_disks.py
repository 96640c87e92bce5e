"""Servers that write to disks of their guests, on both arms: the same operations and bytes, and about the same time.

The disk dominates: 4 KiB at 2 MB/s hold its medium for 2.048 ms, and 2 ms of latency follow. On the testbed a virtual
machine's kernel, its emulated device and the descriptor to the disk's server are added to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.parity.responses import played, rows_of

from virtlab.testbed.platforms.qemu.platform import machines_missing

pytestmark = [pytest.mark.skipif(machines_missing() is not None, reason=str(machines_missing()))]

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


def both(disk: str = DISK, role: str = "write: 4 KiB, write_mode: fsync") -> dict[str, Any]:
    """What each arm kept of the same file."""
    text = FILE.replace("DISK", disk).replace("ROLE", role)
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
