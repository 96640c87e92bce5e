"""Twelve guests between two virtual switches, on the real kernel: what is sent to one goes through it, through no
other, and comes out once.

Frames are counted by the kernel, at every vNIC; they are sent by a program in a guest, so nothing here depends on a
workload.
"""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed_world as worlds
from killing import everyone, held_namespaces, still_held, surroundings

from virtlab.errors import GuestError
from virtlab.experiment import load
from virtlab.plan import Action, Plan, Trial, Trigger
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

GUESTS = 12
FRAMES = 40  # to each guest
# Frames with an IPv4 and a UDP header and a type of their own inside, so that both ways of forwarding take them.
SENDER = """
import socket, struct, sys, time
own, target, count, *macs = sys.argv[1:]
raw = lambda text: bytes.fromhex(text.replace(":", ""))
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff
head = bytes([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]) + socket.inet_aton("192.0.2.1") + socket.inet_aton(target)
head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
body = struct.pack("!HHHH", 9, 9, 26, 0) + bytes(18)
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("eth0", 0x0800))
for number in range(int(count)):
    for mac in macs:
        port.send(raw(mac) + raw(own) + b"\\x08\\x00" + head + body)
    time.sleep(0.003)
"""


NO_OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
KINDS = ["linux_bridge", pytest.param("ovs-netdev", marks=NO_OVS)]


def world(forwarding: str, folder: Path, isolate: bool = True, kind: str = "linux_bridge") -> Plan:
    """The study's world: generator on br0, receiver on br1, guests on both."""
    file = folder / "forwarding.yaml"
    file.write_text(
        textwrap.dedent(f"""
            version: 1
            name: forwarding
            hosts:
              sut:
                vswitch: {kind}
                vswitches: {{br0: {{isolate: {str(isolate).lower()}}}, br1: {{isolate: {str(isolate).lower()}}}}}
                guests:
                  generator: {{vswitches: [br0], isolate: false}}
                  receiver: {{vswitches: [br1], isolate: false}}
                  vm: {{count: {GUESTS}, vswitches: [br0, br1], forwarding: {forwarding}}}
            roles:
              probe: {{workload: rtt, from: sut.generator, to: sut.receiver, interval: 5 ms, count: 4}}
            collect: {{counters: [vnics], series: {{}}}}
        """)
    )
    experiment = load(file)
    return plan_run(experiment, experiment.points()[0], 0)


def sending(plan: Plan, guest: str, macs: list[str], frames: int = FRAMES) -> Plan:
    """The Plan with a guest that sends frames to each address first, and time for them to arrive."""
    own = plan.world.guests[guest].vnics["eth0"].mac
    receivers = plan.world.guests["sut.receiver"].vnics["eth0"].ip
    target = receivers[0].partition("/")[0]
    # A command sees no home, where an interpreter may lie.
    argv = ("/usr/bin/python3", "-c", SENDER, own, target, str(frames), *macs)
    begin = Action(id="send", do="exec", guest=guest, argv=argv)
    rest = Action(id="rest", do="wait", for_ns=300_000_000, after=Trigger(event="send.finished"))
    return plan.model_copy(update={"timeline": (begin, rest), "roles": plan.roles, "windows": {}})


def received(plan: Plan) -> dict[tuple[str, str], int]:
    """(guest, vNIC) -> frames that came to it."""
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = sink.counters("begin"), sink.counters("end")
    return {
        (guest, vnic): sum(
            end[key] - begin.get(key, 0)
            for key in end
            if key[0] == f"guests.{guest}.vnics.{vnic}" and key[1] in {"received_packets", "rx_packets"}
        )
        for guest, entry in plan.world.guests.items()
        for vnic in entry.vnics
    }


def forwarders(plan: Plan) -> Iterator[str]:
    return (name for name in plan.world.guests if name.startswith("sut.vm"))


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_goes_through_the_guest_it_is_addressed_to_and_comes_out_once(
    kind: str, forwarding: str, tmp_path: Path
) -> None:
    plan = world(forwarding, tmp_path, kind=kind)
    macs = [plan.world.guests[name].vnics["eth0"].mac for name in forwarders(plan)]
    for _ in range(3):  # a switch that is a process may find its buffer full, where the machine is loaded
        found = received(sending(plan, "sut.generator", macs))
        assert max(found[name, "eth0"] for name in forwarders(plan)) <= FRAMES
        if found["sut.receiver", "eth0"] == GUESTS * FRAMES:
            break
    assert {found[name, "eth0"] for name in forwarders(plan)} == {FRAMES}
    assert {found[name, "eth1"] for name in forwarders(plan)} == {0}
    assert found["sut.receiver", "eth0"] == GUESTS * FRAMES
    assert found["sut.generator", "eth0"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_broadcast_reaches_each_layer_2_guest_once_and_makes_no_storm(kind: str, tmp_path: Path) -> None:
    plan = world("layer2", tmp_path, kind=kind)
    found = received(sending(plan, "sut.generator", ["ff:ff:ff:ff:ff:ff"], frames=5))
    assert {found[name, "eth0"] for name in forwarders(plan)} == {5}
    assert {found[name, "eth1"] for name in forwarders(plan)} == {0}
    assert found["sut.receiver", "eth0"] == GUESTS * 5
    assert found["sut.generator", "eth0"] == 0


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_frame_of_an_isolated_guest_reaches_another(kind: str, forwarding: str, tmp_path: Path) -> None:
    plan = world(forwarding, tmp_path, kind=kind)
    other = [plan.world.guests["sut.vm2"].vnics[name].mac for name in ("eth0", "eth1")]
    others = [(name, vnic) for name in forwarders(plan) if name != "sut.vm1" for vnic in ("eth0", "eth1")]
    for _ in range(3):  # as above
        found = received(sending(plan, "sut.vm1", [*other, "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:77"]))
        assert {at: found[at] for at in others if found[at]} == {}
        if found["sut.generator", "eth0"] >= FRAMES:
            break
    assert found["sut.generator", "eth0"] >= FRAMES  # a guest that is not isolated has the broadcast


@pytest.mark.parametrize("kind", KINDS)
def test_without_isolation_the_same_frame_does_reach_it(kind: str, tmp_path: Path) -> None:
    plan = world("layer3", tmp_path, isolate=False, kind=kind)
    for _ in range(3):  # as above
        found = received(sending(plan, "sut.vm1", [plan.world.guests["sut.vm2"].vnics["eth0"].mac]))
        if found["sut.vm2", "eth0"] >= FRAMES:
            break
    assert found["sut.vm2", "eth0"] >= FRAMES


def test_guests_that_are_isolated_from_each_other_are_found_out_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    plan = world("layer3", tmp_path)
    role = plan.roles["probe"].model_copy(update={"from_": "sut.vm1", "to": "sut.vm2"})
    with pytest.raises(GuestError, match="does not reach"):
        Testbed().open(plan.model_copy(update={"roles": {"probe": role}}), worlds.Patient())


def test_the_rules_of_ports_are_read_back(tmp_path: Path) -> None:
    plan = world("layer2", tmp_path)
    with Testbed().open(plan, worlds.Patient()) as session:
        rules = {
            path: thing.read_back["port_rules"]["isolated"]
            for path, thing in session.realised.objects.items()
            if ".vnics." in path
        }
    isolated = {path for path, on in rules.items() if on}
    assert len(isolated) == 2 * GUESTS
    assert all(".vm" in path for path in isolated)


def test_layer_2_guests_side_by_side_without_isolation_are_refused(tmp_path: Path) -> None:
    plan = world("layer2", tmp_path)
    guests = {
        name: guest.model_copy(
            update={
                "vnics": {
                    vnic: entry.model_copy(update={"isolated": False}) for vnic, entry in guest.vnics.items()
                }
            }
        )
        for name, guest in plan.world.guests.items()
    }
    open_world = plan.world.model_copy(update={"guests": guests})
    refused = Testbed().check(plan.model_copy(update={"world": open_world}))
    assert any("loop" in refusal.reason for refusal in refused)


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
def test_a_killed_world_of_forwarding_guests_leaves_nothing(forwarding: str, tmp_path: Path) -> None:
    plan = world(forwarding, tmp_path)
    own, before = held_namespaces({os.getpid()}), worlds.own_processes()
    around = surroundings()
    session = Testbed().open(plan, worlds.Patient())
    leader = session.leader.process.pid  # type: ignore[attr-defined]
    family = {pid for pid in everyone() if _ancestor(pid, leader)}
    namespaces = held_namespaces(family) - own
    assert len(namespaces) >= GUESTS
    os.kill(leader, signal.SIGKILL)
    assert still_held(namespaces) == set()
    session.__exit__(None, None, None)
    assert worlds.own_processes() <= before
    assert surroundings() == around


def _ancestor(pid: int, wanted: int) -> bool:
    """Whether a process is the wanted one or comes from it."""
    while pid > 1:
        if pid == wanted:
            return True
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


@NO_OVS
def test_on_open_vswitch_guests_are_reached_and_parted_by_rules_of_openflow(tmp_path: Path) -> None:
    plan = world("layer3", tmp_path, kind="ovs-netdev")
    with Testbed().open(plan, worlds.Patient()) as session:
        rules = session.realised.objects["vswitches.sut.br0"].read_back["rules"]
    for name in forwarders(plan):
        mac = plan.world.guests[name].vnics["eth0"].mac
        of_guest = [rule for rule in rules if f"dl_dst={mac}" in rule]
        assert sum("actions=drop" in rule for rule in of_guest) == GUESTS - 1  # from each of the others
        assert sum("actions=output" in rule for rule in of_guest) == 1
