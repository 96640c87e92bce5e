"""Disks of guests on a store in the simulator, against closed forms, and while nodes are lost.

With as many nodes as copies every node holds every block. A write of a whole block is done when the W-th fastest node
has it, so it takes the W-th smallest of the nodes' disk times; a write of a part of a block reads the block first. The
network of 10 Gbit/s takes less than a millisecond of either.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.theory.simulated import Values, counters, parsed, simulated, values_of

from virtlab.simulator.limits import refusals

MS = 1_000_000
BLOCK = 65_536
RATE, RECORD_BYTES = 1_000_000_000, 512
LATENCIES_NS = (2 * MS, 5 * MS, 20 * MS)
NETWORK_NS = 1 * MS


def world(
    latencies: tuple[int, ...] = LATENCIES_NS, store: Values | None = None, *, far: bool = False, **role: Any
) -> Values:
    """A client of one server, the disk of whose guest is on a store; one request at a time."""
    values = values_of(switches=1)
    guests = values["world"]["guests"]
    for number, latency_ns in enumerate(latencies):
        near = guests["a" if far else "b"]
        vnic = near["vnics"]["eth0"] | {
            "mac": f"02:00:00:00:01:{number:02x}",
            "ip": [f"10.0.0.{number + 10}/24"],
        }
        disk = {"size_bytes": 1 << 30, "rate_byte_per_s": RATE, "latency_ns": latency_ns}
        guests[f"n{number}"] = near | {"platform": "qemu", "vnics": {"eth0": vnic}, "disk": disk}
    disk = {"size_bytes": 16 << 20, "medium": "service", "service": "depot", "block_bytes": BLOCK}
    guests["b"] |= {"platform": "qemu", "disk": disk}
    own = {
        "copies": len(latencies), "lookup": "elastic_hash", "written_by": "client", "ack": "disk",
        "question_ns": 50 * MS, "timeout_ns": 1_000 * MS,
    }  # fmt: skip
    on = [f"n{number}" for number in range(len(latencies))]
    values["world"]["services"] = {
        "depot": {"kind": "store", "on": on, "ready": {"port": 7100}, **own, **(store or {})}
    }
    asks = {"workload": "request_response", "from": "a", "to": "b", "connections": 1, "duration_ns": 1000 * MS,
            "request_bytes": 64, "response_bytes": 64, "timeout_ns": 60_000 * MS, "write_bytes": BLOCK,
            "write_mode": "fsync"}  # fmt: skip
    values["roles"]["probe"] = asks | role
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    values["collect"] |= {
        "counters": ["disks", "links"],
        "series": [{"source": "guest.disk", "every_ns": 100 * MS}],
    }
    return values


def played(values: Values) -> tuple[dict[str, int], dict[str, int], dict[tuple[str, str], int]]:
    """Counters of the disk, of the server, and all."""
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    every = counters(kept, "end")
    disk = {key: value for (entity, key), value in every.items() if entity == "guests.b.disk"}
    server = {
        key: value for (entity, key), value in counters(kept, "stop").items() if entity == "probe/server"
    }
    return disk, server, every


def on_disk_ns(latency_ns: int) -> int:
    return (BLOCK + RECORD_BYTES) * 10**9 // RATE + latency_ns


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_a_write_of_a_block_takes_what_the_node_takes_that_completes_the_quorum(quorum: int) -> None:
    disk, server, _ = played(world(store={"write_quorum": quorum}))
    mean_ns = disk["disk_write_ns"] / disk["disk_writes"]
    # Of those that confirm, so many are whole that one of them has what any quorum confirmed before.
    waited = max(quorum, len(LATENCIES_NS) - quorum + 1)
    wanted_ns = on_disk_ns(sorted(LATENCIES_NS)[waited - 1])
    assert mean_ns == wanted_ns
    assert (disk["disk_reads"], disk["disk_retries"], disk["disk_lost_blocks"]) == (0, 0, 0)
    assert (server["writes"], server["write_ns"]) == (disk["disk_writes"], disk["disk_write_ns"])


@pytest.mark.slow
def test_a_write_of_a_part_reads_its_block_first_but_where_the_block_is_new() -> None:
    alike = (5 * MS, 5 * MS, 5 * MS)
    disk, _, _ = played(world(alike, write_bytes=4096, count=None))
    parts = BLOCK // 4096
    once_ns = on_disk_ns(5 * MS)
    blocks, rest = divmod(disk["disk_writes"], parts)
    writes = disk["disk_writes"]
    reads = writes - blocks - (rest > 0)
    mean_ns = disk["disk_write_ns"] / writes
    wanted_ns = once_ns * (writes + reads) / writes
    assert mean_ns == pytest.approx(wanted_ns, rel=1e-9)
    assert disk["disk_written_bytes"] == 4096 * writes


@pytest.mark.slow
def test_nodes_at_another_host_get_every_copy_over_its_wire() -> None:
    disk, _, every = played(world(far=True))
    sent_bytes = {
        entity: value
        for (entity, key), value in every.items()
        if key == "bytes" and entity.startswith("links.")
    }
    assert max(sent_bytes.values()) >= 3 * BLOCK * disk["disk_writes"]
    mean_ns = disk["disk_write_ns"] / disk["disk_writes"]
    assert on_disk_ns(5 * MS) < mean_ns < on_disk_ns(5 * MS) + NETWORK_NS


def lost(*calls: tuple[str, int]) -> Values:
    """The last nodes are lost while requests go on."""
    values = world((5 * MS, 5 * MS, 5 * MS), timeout_ns=10_000 * MS, duration_ns=4000 * MS)
    after = {"event": "measure.started", "plus_ns": 500 * MS}
    values["timeline"] = [
        {"id": "measure", "do": "run", "role": "probe"},
        *(
            {
                "id": f"{op}{node}",
                "do": "call",
                "service": "depot",
                "op": op,
                "args": {"guest": f"n{node}"},
                "after": after,
            }
            for op, node in calls
        ),
    ]
    return values


@pytest.mark.slow
def test_a_disk_goes_on_without_one_node_and_stands_still_without_two_until_one_is_healed() -> None:
    whole, _, _ = played(world((5 * MS, 5 * MS, 5 * MS), duration_ns=4000 * MS))
    one, _, _ = played(lost(("fail_node", 2)))
    assert one["disk_writes"] == pytest.approx(whole["disk_writes"], rel=0.02)
    values = lost(("fail_node", 2), ("fail_node", 1))
    late = {"event": "measure.started", "plus_ns": 2500 * MS}
    values["timeline"].append(
        {"id": "heal", "do": "call", "service": "depot", "op": "heal", "args": {"guest": "n1"}, "after": late}
    )
    two, _, _ = played(values)
    assert two["disk_retries"] >= 1
    assert two["disk_lost_blocks"] == 0
    assert whole["disk_writes"] / 4 < two["disk_writes"] < whole["disk_writes"] * 3 / 4


@pytest.mark.slow
def test_a_wiped_node_gets_the_blocks_back_and_none_is_lost() -> None:
    disk, _, _ = played(lost(("wipe_node", 0)))
    assert (disk["disk_retries"], disk["disk_lost_blocks"]) == (0, 0)


def test_what_the_simulator_would_play_wrongly_is_refused_with_the_cure() -> None:
    assert refusals(parsed(world())) == []
    values = world(write_mode="buffered")
    [found] = refusals(parsed(values))
    assert (found.path, found.cure) == ("roles.probe.write_mode", "write 'write_mode: fsync'")
    values = world()
    values["timeline"].append({"id": "again", "do": "reset", "guest": "b", "for_ns": MS})
    assert any("what a reset leaves" in found.reason for found in refusals(parsed(values)))
