"""Which roles may stand above other processes of the machine: those that are known to sleep most of the time."""

from __future__ import annotations

from typing import Any

import pytest

from virtlab.plan import Action, Guest, Plan, Role, World
from virtlab.testbed.play.priority import Priorities

ECHO = {"workload": "rtt", "interval_ns": 1_000_000, "ip_packet_bytes": 1500}
BURSTS = {"workload": "burst_load", "burst_bytes": 65_000, "period_ns": 10_000_000, "streams": 2}


def priority(role: dict[str, Any], platform: str = "namespace", **guest: Any) -> int | None:
    own = Guest(platform=platform, host="h", vnics={}, **guest)
    plan = Plan(world=World(hosts={"h": {}}, guests={"g": own}), roles={"r": Role(**role)})
    return Priorities.of(plan, machine=True).fifo("r", plan.roles["r"].parameters, "g")


@pytest.mark.parametrize("role", [ECHO, BURSTS])
def test_roles_of_few_packets_have_it_in_guests_that_nothing_bounds(role: dict[str, Any]) -> None:
    assert priority(role) == 1
    assert priority(role, platform="native") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"interval_ns": 50_000},
        {"interval_ns": 1_000_000, "ip_packet_bytes": 60_000},
        {"interval_ns": 0},
        {"meter": "ping"},
    ],
)
def test_roles_of_many_packets_or_of_other_meters_do_not(change: dict[str, Any]) -> None:
    assert priority(ECHO | change) is None


def test_a_large_load_of_bursts_does_not() -> None:
    assert priority(BURSTS | {"burst_bytes": 2_000_000, "streams": 40}) is None


def test_a_stream_does_not_whatever_its_rate() -> None:
    assert priority({"workload": "udp_stream", "rate_bit_per_s": 1_000, "payload_bytes": 100}) is None


@pytest.mark.parametrize("bound", [{"cpu_quota_ratio": 0.5}, {"pool": "h.cores"}, {"idle": "poll"}])
def test_guests_whose_processors_are_shared_out_or_that_poll_do_not(bound: dict[str, Any]) -> None:
    assert priority(ECHO, **bound) is None


@pytest.mark.parametrize("platform", ["container", "qemu", "ssh"])
def test_guests_with_processes_of_their_own_do_not(platform: str) -> None:
    assert priority(ECHO, platform=platform) is None


def test_roles_that_are_few_packets_each_and_many_together_do_not() -> None:
    guest = Guest(platform="namespace", host="h", vnics={})
    roles = {f"r{number}": Role(**ECHO) for number in range(6)}
    for count, expected in ((5, 1), (6, None)):
        some = dict(list(roles.items())[:count])
        plan = Plan(world=World(hosts={"h": {}}, guests={"g": guest}), roles=some)
        assert Priorities.of(plan, machine=True).fifo("r0", roles["r0"].parameters, "g") == expected


def test_a_run_says_whose_probes_stand_above() -> None:
    plan = Plan(world=World(hosts={"h": {}}, guests={}), roles={"a": Role(**ECHO), "b": Role(**BURSTS)})
    assert Priorities.of(plan, machine=True).condition() == "SCHED_FIFO 1 (burst_load, rtt)"
    assert Priorities.of(plan, machine=False).condition() == "none"


@pytest.mark.parametrize("value", [2_000_000, 10**12])
def test_a_load_that_a_search_or_the_timeline_raises_does_not(value: int) -> None:
    guest = Guest(platform="namespace", host="h", vnics={})
    role = Role(**BURSTS | {"burst_bytes": 1000, "streams": 40, "tunable": ["burst_bytes"]})
    small = Plan(world=World(hosts={"h": {}}, guests={"g": guest}), roles={"r": role})
    assert Priorities.of(small, machine=True).fifo("r", role.parameters, "g") == 1
    assert Priorities.of(small, machine=True).fifo("r", role.parameters | {"burst_bytes": value}, "g") is None
    raised = small.model_copy(
        update={"timeline": (Action(id="raise", do="set", role="r", args={"burst_bytes": value}),)}
    )
    assert Priorities.of(raised, machine=True).fifo("r", role.parameters, "g") is None


@pytest.mark.slow
def test_two_hundred_guests_have_it_together_or_not_at_all() -> None:
    guests = {f"g{number}": Guest(platform="namespace", host="h", vnics={}) for number in range(200)}
    for interval_ns, expected in ((20_000_000, 1), (10_000_000 // 2, None)):
        roles = {
            f"r{n}": Role(**{**ECHO, "from": f"g{2 * n}", "to": f"g{2 * n + 1}", "interval_ns": interval_ns})
            for n in range(100)
        }
        priorities = Priorities.of(
            Plan(world=World(hosts={"h": {}}, guests=guests), roles=roles), machine=True
        )
        found = {priorities.fifo(f"r{n}", roles[f"r{n}"].parameters, f"g{2 * n}") for n in range(100)}
        assert found == {expected}
