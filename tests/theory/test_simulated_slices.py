"""Guests whose vCPUs take turns on a pool's processors, through Plans, against closed forms.

The scheduler itself has its closed forms beside it (`processors/slices.rs`); here it is what a profile asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import counters, parsed
from tests.theory.test_simulated_pools import RESPONSE_NS, played, world
from tests.theory.test_simulated_requests import MS, times

from virtlab.plan import Trial
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile


def profile(**of_pool: float) -> Profile:
    """In which nothing costs anything, but pools are as said."""
    free = dict.fromkeys(
        (
            "platform.namespace.send_ns",
            "platform.qemu.send_ns",
            "vswitch.linux_bridge.packet_ns",
            "links.departure_ns",
        ),
        0.0,
    )
    pools = {f"pool.{name}": value for name, value in of_pool.items()}
    return Profile("turns", 64, {name: Parameter(value) for name, value in (free | pools).items()})


def alone(demand_ms: int) -> dict[str, Any]:
    """One request."""
    return {"rate_per_s": 1, "arrivals": "constant", "demand_ns": demand_ms * MS, "demand_distribution": "constant",
            "duration_ns": 500 * MS}  # fmt: skip


@pytest.mark.slow
def test_with_vcpus_enough_the_mean_is_erlangs_whatever_the_slices() -> None:
    role = {"rate_per_s": 16, "demand_ns": 100 * MS, "duration_ns": 500_000 * MS}
    every, means = played(world(5, role, cpus=10, host=16), profile(slice_ns=30 * MS))
    assert np.mean(np.concatenate([times(rows) for rows in every])) == pytest.approx(RESPONSE_NS, rel=0.04)
    assert sum(means[f"guests.b{number}", "cpu"] for number in range(5)) == pytest.approx(8, rel=0.04)
    short, _ = played(world(5, role, cpus=10, host=16), profile(slice_ns=MS))
    shared, _ = played(world(5, role, cpus=10, host=16), profile())
    for one, other in zip(short, shared, strict=True):
        assert times(one).mean() == pytest.approx(times(other).mean(), rel=0.005), (
            "the same requests, shared evenly"
        )


@pytest.mark.slow
def test_a_switch_takes_its_share_of_a_full_pool() -> None:
    role = {"rate_per_s": 150, "arrivals": "constant", "demand_ns": 10 * MS, "demand_distribution": "constant",
            "duration_ns": 4_000 * MS, "threads": 2, "backlog": 100_000}  # fmt: skip
    answered = {}
    for switch_ms in (0, 1):
        (rows,), _ = played(world(1, role, cpus=1), profile(slice_ns=2 * MS, switch_ns=switch_ms * MS))
        span_ns = rows["finished_ns"].max() - rows["intended_ns"].min()
        answered[switch_ms] = rows["finished_ns"].size / span_ns * 1e9
    assert answered[0] == pytest.approx(100, rel=0.01), "full: one processor by 10 ms each"
    assert answered[1] == pytest.approx(100 * 2 / 3, rel=0.03), "a third of each turn is the switch"


@pytest.mark.slow
def test_a_share_of_a_processor_is_a_quota_of_each_period() -> None:
    """70 ms of work at half of a processor: 50 ms of the first period, and 20 of the second."""
    values = world(1, alone(70), cpus=1, cpu_quota_ratio=0.5)
    (rows,), _ = played(values, profile(slice_ns=3 * MS))
    begun_ns = int(rows["intended_ns"][0]) % (100 * MS)
    in_first = min(50 * MS, 100 * MS - begun_ns)
    expected = (100 * MS - begun_ns) + (70 * MS - in_first) if in_first < 70 * MS else 70 * MS
    assert times(rows)[0] == pytest.approx(expected, rel=0.01)
    (rows,), _ = played(values, profile())
    assert times(rows)[0] == pytest.approx(140 * MS, rel=0.01), (
        "without turns it is half of a processor at all times"
    )


def weighed(weights: tuple[int, int], vcpus: tuple[int, int]) -> dict[str, Any]:
    """Two guests, each with work for as many threads as it has vCPUs at any time, on one processor."""
    role = {"rate_per_s": 1000, "arrivals": "constant", "demand_ns": 10 * MS, "demand_distribution": "constant",
            "duration_ns": 3_000 * MS, "backlog": 100_000, "timeout_ns": 3_600_000 * MS}  # fmt: skip
    values: dict[str, Any] = world(2, role, cpus=1)
    for number, (weight, count) in enumerate(zip(weights, vcpus, strict=True)):
        values["world"]["guests"][f"b{number}"]["weight"] = weight
        values["roles"][f"to-b{number}"]["threads"] = count
    return values


@pytest.mark.slow
@pytest.mark.parametrize("vcpus", [(1, 1), (1, 4), (4, 2)])
@pytest.mark.parametrize("credit_ns", [0.0, 30.0 * MS])
def test_guests_that_want_more_have_a_full_pool_by_their_weights(
    vcpus: tuple[int, int], credit_ns: float
) -> None:
    """Each has w / (sum of w) of the processor, whatever its vCPUs: 3 to 1."""
    every, _ = played(weighed((300, 100), vcpus), profile(slice_ns=3 * MS, credit_ns=credit_ns))
    begun_ns = min(rows["intended_ns"].min() for rows in every)
    done = [int((rows["finished_ns"] < begun_ns + 3_000 * MS).sum()) for rows in every]
    assert sum(done) == pytest.approx(300, abs=6)
    assert done[0] / sum(done) == pytest.approx(0.75, abs=0.02)


def test_weights_are_refused_where_a_profile_has_no_turns() -> None:
    plan = parsed(weighed((300, 100), (1, 1)))
    (found,) = Simulator(profile()).check(plan)
    assert (found.path, found.cure.partition(",")[0]) == ("guests.b0.weight", "add pool.slice_ns")
    assert not Simulator(profile(slice_ns=MS)).check(plan)


def test_a_profile_that_has_turns_without_their_length_is_refused_with_the_cure() -> None:
    plan = parsed(world(1, alone(10), cpus=1))
    (found,) = Simulator(profile(switch_ns=1000, credit_ns=1000)).check(plan)
    assert found.path == "pools"
    assert "pool.switch_ns and pool.credit_ns without pool.slice_ns" in found.reason
    assert found.cure.startswith("add pool.slice_ns")
    assert not Simulator(profile(slice_ns=1000, switch_ns=1000)).check(plan)


def test_how_vcpus_take_turns_is_part_of_what_was_realised() -> None:
    from tests.contract.test_backend_contract import Watcher

    plan = parsed(world(1, alone(10), cpus=1))
    with Simulator(profile(slice_ns=2 * MS, switch_ns=5000)).open(plan, Watcher()) as session:
        applied = session.realised.objects["pools.h2.cores"].applied
    assert (applied["slice_ns"], applied["switch_ns"], applied["credit_ns"]) == (2 * MS, 5000, 0)


def contended(threads: int, cpus: int) -> Any:
    """One server all of whose work is under its lock, asked more than it can do."""
    role = {"rate_per_s": 300, "arrivals": "constant", "demand_ns": 10 * MS, "demand_distribution": "constant",
            "duration_ns": 4_000 * MS, "threads": threads, "lock_ratio": 1.0, "backlog": 100_000,
            "timeout_ns": 3_600_000 * MS}  # fmt: skip
    return world(1, role, cpus=cpus, host=16)


def rate_of(threads: int, cpus: int, **of_pool: float) -> tuple[float, float]:
    """Answers per second in the second half of the asking, and processors used over the first of it."""
    (rows,), means = played(contended(threads, cpus), profile(**of_pool))
    begun_ns = rows["intended_ns"].min()
    inside = (rows["finished_ns"] > begun_ns + 2_000 * MS) & (rows["finished_ns"] <= begun_ns + 4_000 * MS)
    return inside.sum() / 2, means["guests.b0", "cpu"]


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "cpus"), [(2, 1), (4, 1), (5, 2), (4, 4)])
@pytest.mark.parametrize("slice_ms", [0, 0.1], ids=["at once", "in turns"])
def test_with_vcpus_that_always_spin_or_hold_a_server_does_p_of_n(
    threads: int, cpus: int, slice_ms: int
) -> None:
    """The holder has P / N of a processor, as each of the others that spin; 100 per s when they sleep."""
    turns = {"slice_ns": slice_ms * MS} if slice_ms else {}
    asleep, used = rate_of(threads, cpus, **turns)
    assert asleep == pytest.approx(100, abs=1)
    assert used == pytest.approx(1, abs=0.02), "only the holder works"
    spinning, used = rate_of(threads, cpus, spin_ns=1000 * MS, **turns)
    assert spinning == pytest.approx(100 * min(1, cpus / threads), rel=0.04)
    assert used == pytest.approx(min(threads, cpus), rel=0.02), "spinning uses all that there is"


def test_who_spins_for_less_than_the_lock_is_held_sleeps_for_the_rest() -> None:
    """Four processors for four threads: three wait, each spins 4 ms of the 30 that its turn takes; none slows the
    holder.
    """
    spinning, used = rate_of(4, 4, spin_ns=4 * MS, slice_ns=MS)
    assert spinning == pytest.approx(100, abs=1)
    assert used == pytest.approx(1 + 4 * MS / (10 * MS), rel=0.03), "each request spins once, for 4 ms"


@pytest.mark.slow
def test_spinning_is_between_sleeping_and_never_sleeping() -> None:
    """A bound: the longer threads spin, the less is done on one processor."""
    found = [rate_of(4, 1, spin_ns=spin_ms * MS, slice_ns=MS)[0] for spin_ms in (0, 2, 8, 1000)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 1.1 * found[2] > 1.1 * found[3]


@pytest.mark.slow
def test_where_no_guest_shares_processors_nothing_spins() -> None:
    values = contended(4, 1)
    del values["world"]["guests"]["b0"]["pool"], values["world"]["pools"]
    del values["world"]["hosts"]["h2"]["cpus"]
    found = [played(values, profile(spin_ns=spin_ms * MS))[0][0]["finished_ns"] for spin_ms in (0, 100)]
    assert (found[0] == found[1]).all()


HOLDS_NS, WRITE_NS = 0.5 * MS, 2 * MS


def writes_beside(busy: bool, **of_pool: float) -> tuple[float, float]:
    """How long a server's write and its disk's take in the mean, on one processor beside a guest that is busy or
    not.
    """
    closed = {"connections": 1, "threads": 1, "duration_ns": 2_000 * MS, "demand_distribution": "constant"}
    values = world(
        2, {}, cpus=1, host=16, platform="qemu", vcpus=1, disk={"size_bytes": 1 << 20, "latency_ns": WRITE_NS}
    )
    writer, other = values["roles"].values()
    del writer["arrivals"], other["arrivals"]
    writer |= closed | {"demand_ns": MS, "write_bytes": 4096, "write_mode": "fsync"}
    idle = {"demand_ns": 1, "think_ns": 100 * MS}
    other |= closed | ({"demand_ns": 10 * MS, "connections": 2} if busy else idle)
    values["collect"]["counters"] = ["disks"]
    kept = Kept()
    with Simulator(profile(**of_pool)).open(parsed(values), Watcher()) as session:
        assert session.run(Trial("t0", 1), kept).status == "ok"
    server, disk = counters(kept, "stop"), counters(kept, "end")
    of = "to-b0/server", "guests.b0.disk"
    return (
        server[of[0], "write_ns"] / server[of[0], "writes"],
        disk[of[1], "disk_write_ns"] / disk[of[1], "disk_writes"],
    )


@pytest.mark.slow
@pytest.mark.parametrize(("busy", "takes_ns"), [(False, HOLDS_NS), (True, 2 * HOLDS_NS)])
def test_a_write_is_complete_when_a_vcpu_has_done_the_work_of_it(busy: bool, takes_ns: float) -> None:
    """A closed form: beside a vCPU that is always busy, on one processor, it goes on at half of the speed."""
    written, on_disk = writes_beside(busy, completion_ns=HOLDS_NS)
    assert on_disk == pytest.approx(WRITE_NS, abs=1)
    assert written == pytest.approx(WRITE_NS + takes_ns, rel=0.01)
    assert writes_beside(busy)[0] == pytest.approx(WRITE_NS, abs=1), "without a cost it is the disk alone"


@pytest.mark.slow
def test_a_completed_write_waits_for_the_end_of_anothers_slice() -> None:
    """A bound: fair shares do not displace the vCPU that is on the processor before its slice is over."""
    alone, beside = (writes_beside(busy, completion_ns=1000, slice_ns=8 * MS)[0] for busy in (False, True))
    assert alone == pytest.approx(WRITE_NS, rel=0.01)
    assert WRITE_NS + MS < beside <= WRITE_NS + 8 * MS + 1000
