"""Where frames wait for a host's wire: what the file says, else what its guests and switches have by default."""

from __future__ import annotations

import json

import pytest

from virtlab.experiment import DesignPoint, Experiment, load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.plan import Plan
from virtlab.plan.model import identity_of
from virtlab.planner import plan_run
from virtlab.planner.queues.pushback import is_held, shared_queues
from virtlab.simulator import Simulator

ROLE = "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"
LINE = "topology: line\nlink: {rate: 10 Mbit/s}\n"


def experiment_of(text: str) -> Experiment:
    return load_text("version: 1\nname: t\n" + text + ROLE)


def plan_of(text: str, point: int = 0) -> Plan:
    experiment = experiment_of(text)
    return plan_run(experiment, experiment.points()[point], 0)


def chosen(plan: Plan) -> tuple[str, list[int | None]]:
    """What the first host has, and the rates at which its guests' vNICs hold back their senders."""
    rates = [
        vnic.pushback_bit_per_s
        for guest in plan.world.guests.values()
        if guest.host == "h1"
        for vnic in guest.vnics.values()
    ]
    return plan.world.hosts["h1"].pushback, rates


@pytest.mark.parametrize(
    ("host", "pushback", "rate"),
    [
        ("{guests: 2}", "uplink", None),
        ("{guests: 2, vswitch: ovs-netdev}", "guest", 10_000_000),
        ("{guests: 2, pushback: uplink}", "uplink", None),
        ("{guests: 2, pushback: guest}", "guest", 10_000_000),
        ("{guests: 2, pushback: none}", "none", None),
        ("{platform: native}", "guest", 10_000_000),
        ("{platform: native, pushback: uplink}", "guest", 10_000_000),  # its port is the wire's
        ("{platform: native, pushback: none}", "none", None),
        ("{vswitch: none, pushback: uplink}", "guest", 10_000_000),
    ],
)
def test_a_host_has_what_it_says_or_the_default(host: str, pushback: str, rate: int | None) -> None:
    guests = 2 if "guests: 2" in host else 1
    assert chosen(plan_of(f"hosts: 2\nhost: {host}\n{LINE}")) == (pushback, [rate] * guests)


def test_a_shared_queue_stands_in_front_of_the_wire_at_its_rate() -> None:
    plan = plan_of(f"hosts: 2\nhost: {{guests: 3, mtu: 9000 B, pushback: uplink}}\n{LINE}")
    found = [
        (each.path, each.link, each.direction, each.rate_bit_per_s, each.mtu_bytes)
        for each in shared_queues(plan)
    ]
    assert found == [
        ("uplinks.h1.up", "h1-s1", "ab", 10_000_000, 9000),
        ("uplinks.h2.up", "s1-h2", "ba", 10_000_000, 9000),
    ]


def test_guests_without_a_wire_share_nothing() -> None:
    plan = plan_run(
        *_only_point(
            "hosts: {h1: {guests: 2, pushback: uplink}}\nroles: {p: {workload: rtt, from: h1.g1, to: h1.g2}}\n"
        )
    )
    assert list(shared_queues(plan)) == []
    assert chosen(plan) == ("guest", [None, None])


def _only_point(text: str) -> tuple[Experiment, DesignPoint, int]:
    experiment = load_text("version: 1\nname: t\n" + text)
    return experiment, experiment.points()[0], 0


def test_a_plan_that_says_nothing_of_it_has_the_guests_and_its_own_name() -> None:
    """As an older virtlab wrote it."""
    plan = plan_of(f"hosts: 2\nhost: {{guests: 2, pushback: guest}}\n{LINE}")
    text = plan.canonical()
    assert "uplink" not in json.loads(text)["world"]["hosts"]["h1"].values()
    again = Plan.parse(text)
    assert again.world.hosts["h1"].pushback == "guest"
    assert identity_of(text) == plan.identity() == again.identity()


def test_another_word_and_a_host_that_exists_are_mistakes() -> None:
    with pytest.raises(FileMistakesError, match="pushback"):
        experiment_of(f"hosts: 2\nhost: {{pushback: sometimes}}\n{LINE}")
    existing = "hosts: {h1: {platform: ssh, address: a, pushback: uplink}, h2: {platform: ssh, address: b}}\n"
    with pytest.raises(FileMistakesError, match="pushback of a host that exists already"):
        experiment_of(existing)


@pytest.mark.parametrize("platform", ["namespace", "container", "qemu", "appliance"])
@pytest.mark.parametrize("vswitch", ["linux_bridge", "ovs-kernel", "ovs-netdev"])
def test_a_sender_is_held_back_where_the_kernel_carries_its_frames_all_the_way(
    platform: str, vswitch: str
) -> None:
    values = json.loads(plan_of(f"hosts: 2\n{LINE}").canonical())
    values["world"]["guests"]["h1.g1"]["platform"] = platform
    values["world"]["vswitches"]["h1.br"]["kind"] = vswitch
    held = is_held(Plan.parse(json.dumps(values)), "h1.g1", "eth0")
    assert held == (platform in {"namespace", "container"} and vswitch != "ovs-netdev")


@pytest.mark.parametrize("pushback", ["uplink", "guest", "none"])
def test_the_simulator_plays_all_of_them(pushback: str) -> None:
    assert Simulator().check(plan_of(f"hosts: 2\nhost: {{guests: 2, pushback: {pushback}}}\n{LINE}")) == []
