"""Servers that write to disks of their guests in the simulator, against closed forms.

A disk without a cache is one server of constant time: a request of n bytes at a rate r takes n / r, so writes that come
as a Poisson process wait as in M/D/1, rho / (2 mu (1 - rho)), and the latency comes on top of each. Source: Kleinrock
1975, 5.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept
from tests.theory.simulated import counters, parsed, simulated, values_of
from tests.theory.test_simulated_requests import MS, times

from virtlab.plan import Outcome
from virtlab.simulator.limits import refusals

RATE, WRITE = 2_000_000, 4096
HOLDS_NS = 2_048_000
LATENCY_NS = 2 * MS
DISK = {"size_bytes": 16 << 20, "rate_byte_per_s": RATE, "latency_ns": LATENCY_NS}
NETWORK_NS = 0.2 * MS  # both ways, at most


def world(disk: dict[str, Any] | None = None, **role: Any) -> Any:
    """One client of a server that writes to the disk of its guest."""
    own = {"workload": "request_response", "connections": 1, "duration_ns": 1000 * MS, "request_bytes": 64,
           "response_bytes": 64, "timeout_ns": 60_000 * MS, "write_bytes": WRITE, "write_mode": "fsync"}  # fmt: skip
    values = values_of(switches=1)
    values["roles"]["probe"] = {"from": "a", "to": "b", **own, **role}
    values["world"]["guests"]["b"] |= {"platform": "qemu", "disk": DISK | (disk or {})}
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    values["collect"] |= {
        "counters": ["disks"],
        "series": [{"source": source, "every_ns": 100 * MS} for source in ("guest.disk", "host.disk")],
    }
    return values


def played(values: Any) -> tuple[Outcome, Kept, dict[str, int], dict[str, int]]:
    """A run, what it kept, and the counters of the disk and of the server."""
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    disk = {key: value for (entity, key), value in counters(kept, "end").items() if entity == "guests.b.disk"}
    server = {
        key: value for (entity, key), value in counters(kept, "stop").items() if entity == "probe/server"
    }
    return outcome, kept, disk, server


def rows(kept: Kept) -> Any:
    blocks = kept.blocks["probe", "response/1"]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def series(kept: Kept, entity: str, metric: str) -> list[float]:
    found = []
    for block in kept.blocks["series", "series/1"]:
        at = (block["entity"] == entity) & (block["metric"] == metric)
        found += block["value"][at].tolist()
    return found


def test_one_write_at_a_time_takes_its_bytes_at_the_rate_and_the_latency_and_every_byte_is_counted() -> None:
    _, kept, disk, server = played(world())
    answers = rows(kept)
    took = times(answers)
    assert (took >= HOLDS_NS + LATENCY_NS).all()
    assert (took < HOLDS_NS + LATENCY_NS + NETWORK_NS).all()
    count = took.size
    assert (server["writes"], server["written_bytes"]) == (count, WRITE * count)
    assert server["write_ns"] == (HOLDS_NS + LATENCY_NS) * count
    time_ns = (HOLDS_NS + LATENCY_NS) * count
    written = {"disk_writes": count, "disk_written_bytes": WRITE * count, "disk_write_ns": time_ns}
    read = {"disk_reads": 0, "disk_read_bytes": 0, "disk_read_ns": 0}
    assert disk == read | written | {"disk_flushes": 0, "disk_flush_ns": 0, "disk_busy_ns": time_ns}


def test_samples_of_guest_and_host_add_up_to_the_counters() -> None:
    _, kept, disk, _ = played(world())
    for entity in ("guests.b.disk", "hosts.h2.disks"):
        written = sum(series(kept, entity, "disk_written")) / 10
        assert written <= disk["disk_written_bytes"] < written + RATE / 10
        assert set(series(kept, entity, "disk_write_time")) == {HOLDS_NS + LATENCY_NS}
        assert not any(series(kept, entity, "disk_reads"))
        assert not series(kept, entity, "disk_read_time"), "without a read there is no time of one"


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_writes_of_one_size_that_come_at_random_wait_as_in_m_d_1(load: float) -> None:
    rate = round(load * 1e9 / HOLDS_NS)
    values = world(
        rate_per_s=rate, arrivals="poisson", connections=400, threads=400, duration_ns=200_000 * MS
    )
    _, kept, disk, _ = played(values)
    load = rate * HOLDS_NS / 1e9
    mean_ns = HOLDS_NS * (1 + load / (2 * (1 - load))) + LATENCY_NS
    assert disk["disk_write_ns"] / disk["disk_writes"] == pytest.approx(mean_ns, rel=0.03)
    assert times(rows(kept)).mean() == pytest.approx(mean_ns, rel=0.05)


def test_a_cache_answers_at_once_until_it_is_full_then_at_the_rate() -> None:
    held = 64
    values = world({"write_cache_bytes": held * WRITE, "latency_ns": 0}, threads=1)
    values["roles"]["probe"]["write_mode"] = "throttled"
    _, _, disk, server = played(values)
    # A flush waits for what was cached, so each write takes what its bytes take, and then as long is waited.
    assert disk["disk_write_ns"] == 0
    assert disk["disk_flush_ns"] == HOLDS_NS * disk["disk_flushes"]
    assert server["write_ns"] == HOLDS_NS * server["writes"]
    assert server["throttled_ns"] == pytest.approx(server["write_ns"], rel=0.2)


def test_throttled_writes_leave_the_disk_half_of_the_time() -> None:
    _, kept, disk, server = played(world({"latency_ns": 0}, write_mode="throttled", connections=8, threads=8))
    in_time = 1e9 / (2 * HOLDS_NS)
    assert disk["disk_writes"] == server["writes"]
    assert in_time - 1 < server["writes"] < in_time + 9, "each connection may have one more"
    assert np.mean(series(kept, "guests.b.disk", "disk_busy")) == pytest.approx(0.5, abs=0.02)


def test_without_a_request_it_writes_as_often_as_said() -> None:
    values = world(idle_write_ns=100 * MS, rate_per_s=1, duration_ns=3000 * MS)
    _, _, disk, server = played(values)
    assert server["idle_writes"] == pytest.approx(20, abs=2), "for two seconds, between three requests"
    assert disk["disk_writes"] == server["writes"] > server["idle_writes"]


@pytest.mark.parametrize(
    ("disk", "role", "where", "what"),
    [
        (None, {}, "roles.probe.write_bytes", "has no disk"),
        (DISK | {"size_bytes": 512}, {}, "roles.probe.write_bytes", "more than the disk"),
    ],
)
def test_what_cannot_be_written_is_refused(
    disk: dict[str, Any] | None, role: dict[str, Any], where: str, what: str
) -> None:
    values = world(**role)
    guest = values["world"]["guests"]["b"]
    guest["disk"] = disk
    if disk is None:
        del guest["disk"]
    values["roles"]["probe"] = {
        key: value for key, value in values["roles"]["probe"].items() if value is not None
    }
    [refusal] = refusals(parsed(values))
    assert refusal.path == where
    assert what in refusal.reason
