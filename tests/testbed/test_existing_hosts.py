"""Hosts that exist already, played by sshd in namespaces: measured, left as they were, and one clear error each when
not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import far_world as far_worlds
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError, MachineError
from virtlab.plan import Event, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.ssh.existing import Existing
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
COUNT = 20


def plan_of(first: str = "host-a", second: str = "host-b", network: str = "own", **roles: Any) -> Plan:
    """Guests `a` and `b` at two addresses, and what they do."""
    guests = {}
    for number, name in enumerate(("a", "b"), start=1):
        vnic: dict[str, Any] = {"network": network, "mac": "", "offloads": "default"}
        if network == "vxlan":
            vnic = {
                "network": network,
                "mac": f"02:00:00:00:00:0{number}",
                "ip": [f"10.9.0.{number}/24"],
                "mtu_bytes": 1450,
            }
        guests[name] = {"platform": "ssh", "host": f"h{number}", "vnics": {"eth0": vnic}}
    hosts = {"h1": {"at": "ssh", "address": first}, "h2": {"at": "ssh", "address": second}}
    plan = worlds.echo_plan({"hosts": hosts, "guests": guests}, source="a", target="b", count=COUNT)
    probe = plan.roles["probe"].model_copy(update=roles)
    collect = plan.collect.model_copy(update={"counters": ("vnics",)})
    return plan.model_copy(update={"roles": {"probe": probe}, "collect": collect})


def opened(plan: Plan) -> TestbedSession:
    session = Testbed().open(plan, worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def existing(session: TestbedSession) -> Existing:
    """The hosts of a session that were there before."""
    return cast("Existing", session._guests.owners["a"])


def untouched(far: far_worlds.FarHosts, name: str) -> str:
    """All that a host's network is, without counters and the times of addresses."""
    return (
        far.run(name, "ip", "-o", "address")
        + far.run(name, "ip", "route")
        + far.run(name, "ip", "-o", "link")
    )


def test_a_role_between_existing_hosts_is_played_as_anywhere_and_nothing_is_left(
    far: far_worlds.FarHosts,
) -> None:
    before = [untouched(far, name) for name in far_worlds.NAMES]
    plan = plan_of()
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        assert all(far.agents(name) == [] for name in far_worlds.NAMES), "the copy goes as soon as it runs"
        assert [untouched(far, name) for name in far_worlds.NAMES] == before
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        columns = next(columns for _, schema, columns in sink.blocks if schema == "rtt/1")
        begin, end = outcome.windows["measured"]
        for name in ("a", "b"):
            assert outcome.clocks[name]["bound_ns"] > 0
        slack = outcome.clocks["a"]["bound_ns"] + 1_000_000
        assert all(begin - slack <= t_ns <= end + slack for t_ns in columns["sent_ns"])
        vnic = session.realised.objects["guests.a.vnics.eth0"]
        assert (vnic.by, vnic.applied["interface"]) == ("own", "lan1")
        assert "10.77.0.1/24" in vnic.read_back["addresses"]
        assert session.realised.objects["guests.a"].read_back["root"] is True
        counters = sink.counters("end")
        assert counters.get(("guests.a.vnics.eth0", "received_packets"), 0) >= COUNT, sorted(counters)
    assert [untouched(far, name) for name in far_worlds.NAMES] == before
    assert far.ended()
    assert list(far_ledger.folder().glob("*")) == []


def test_a_vxlan_that_was_asked_for_carries_the_plans_addresses_and_ends_with_the_run(
    far: far_worlds.FarHosts,
) -> None:
    before = [untouched(far, name) for name in far_worlds.NAMES]
    with opened(plan_of(network="vxlan")) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        vnic = session.realised.objects["guests.b.vnics.eth0"]
        assert (vnic.by, vnic.read_back["kind"], vnic.read_back["mac"]) == (
            "vxlan",
            "vxlan",
            "02:00:00:00:00:02",
        )
    assert [untouched(far, name) for name in far_worlds.NAMES] == before


def test_a_vxlan_larger_than_what_carries_it_is_refused_with_the_mtu_that_fits() -> None:
    plan = plan_of(network="vxlan")
    world = plan.world.model_dump(mode="json", exclude_none=True)
    for guest in world["guests"].values():
        guest["vnics"]["eth0"]["mtu_bytes"] = 1500
    plan = plan.model_copy(update={"world": type(plan.world).model_validate(world)})
    with pytest.raises(GuestError, match=r"guests\.a: an MTU of 1500 B does not fit .*mtu: 1450 B"):
        opened(plan)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("host-nowhere", r"guests\.b: host-nowhere cannot be reached by ssh: .*(timed out|No route)"),
        ("host-closed", r"guests\.b: host-closed cannot be reached by ssh: .*Connection refused"),
        ("stranger-a", r"guests\.b: stranger-a cannot be reached by ssh: .*Permission denied \(publickey\)"),
    ],
)
def test_a_host_that_does_not_let_us_in_is_named_with_sshs_words(
    far: far_worlds.FarHosts, address: str, words: str
) -> None:
    with pytest.raises(MachineError, match=words):
        opened(plan_of(second=address))
    assert far.ended()
    assert far.agents("a") == []


@pytest.mark.parametrize("network", ["own", "vxlan"])
def test_one_machine_that_is_named_twice_is_not_measured_through_its_loopback(
    far: far_worlds.FarHosts, network: str
) -> None:
    words = (
        r"guests\.a: is the same machine as guests\.b, which has its address 10\.77\.0\.1 too; write another"
    )
    with pytest.raises(GuestError, match=words):
        opened(plan_of(second="root@host-a", network=network))
    assert far.ended()


def test_a_machine_of_another_architecture_is_told_before_it_is_given_anything(
    far: far_worlds.FarHosts,
) -> None:
    there = far.folder / "bin" / "uname"
    there.parent.mkdir()
    there.write_text('#!/bin/sh\n[ "$1" = -m ] && echo riscv64 || echo Linux\n')
    there.chmod(0o755)
    far_worlds.restart(far, "b", f"SetEnv PATH={there.parent}:{os.environ['PATH']}")
    try:
        with pytest.raises(
            GuestError, match=r"guests\.b: host-b is a Linux machine of architecture riscv64; "
        ):
            opened(plan_of())
    finally:
        far_worlds.restart(far, "b")
    assert far.agents("b") == []


def test_a_host_that_dies_in_mid_run_fails_the_run_by_name() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, far_worlds.far_hosts(Path(folder)) as mortal:
        os.environ["VIRTLAB_SSH"] = mortal.command
        with opened(plan_of(count=4000)) as session:
            outcome = session.run(Trial("t0", 1), worlds.ActingSink(lambda: mortal.cut("b")))
    assert outcome.status == "failed"
    assert any(
        reason.startswith("guests.b: its connection to host-b ended with code 255")
        for reason in outcome.reasons
    ), outcome.reasons


def test_a_host_that_dies_as_its_role_ends_fails_the_run_by_name_all_the_same() -> None:
    import tempfile

    class Cutting(worlds.MemorySink):
        def event(self, event: Event) -> None:
            super().event(event)
            if event.what == "measure.finished":
                mortal.cut("b")

    with tempfile.TemporaryDirectory() as folder, far_worlds.far_hosts(Path(folder)) as mortal:
        os.environ["VIRTLAB_SSH"] = mortal.command
        with opened(plan_of()) as session:
            try:
                reasons = session.run(Trial("t0", 1), Cutting()).reasons
            except GuestError as error:
                reasons = (str(error),)
    assert reasons[0].startswith("guests.b: its connection to host-b ended with code 255"), reasons
    assert "(ssh -o BatchMode=yes host-b true)" in reasons[0], "the cure"


def test_what_a_dead_owner_left_is_removed_at_the_next_start(far: far_worlds.FarHosts) -> None:
    entry = far_ledger.note("ssh", "host-a", "virtlab-agent-0123456789abcdef")
    far.run("a", "touch", "/tmp/virtlab-agent-0123456789abcdef")
    assert len(far.agents("a")) == 1
    entry.close(gone=False)  # as the death of its owner would
    with opened(plan_of()):
        assert far.agents("a") == []
    assert list(far_ledger.folder().glob("*")) == []
    assert far.agents("a") == []


def test_a_role_from_an_existing_host_to_a_guest_that_is_made_is_refused() -> None:
    plan = plan_of()
    world = plan.world.model_dump(mode="json", exclude_none=True)
    vnic = {"vswitch": "h2.br", "mac": "02:00:00:00:00:09", "ip": ["10.0.0.9/24"]}
    world["guests"]["b"] = {"platform": "namespace", "host": "h2", "vnics": {"eth0": vnic}}
    world["hosts"]["h2"] = {}
    world["vswitches"] = {"h2.br": {"kind": "linux_bridge", "host": "h2"}}
    plan = plan.model_copy(update={"world": type(plan.world).model_validate(world)})
    assert "its ends are on networks that nothing joins" in [
        refusal.reason for refusal in Testbed().check(plan)
    ]
