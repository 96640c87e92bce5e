"""A missing program, /dev/net/tun that cannot be opened, a daemon that dies: one clear error each, and nothing is
left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.campaign import refused
from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
]
OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
MACHINES = pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
FILE = """
version: 1
name: lacking
factors: {{kind: [{kinds}]}}
hosts: {{h1: {what}, h2: {{}}}}
topology: line
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 5 ms, count: 10}}
"""
PLATFORM = ('{platform: "${kind}"}', "namespace")
VSWITCH = ('{vswitch: "${kind}"}', "linux_bridge")
OPENS = """
import sys
sys.path.insert(0, sys.argv[1])
import machine_world as machines, testbed_world as worlds
from virtlab.errors import VirtlabError
from virtlab.testbed import Testbed
world = worlds.one_host(2)
if sys.argv[2] == "qemu":
    machines.machines(world, "g1")
else:
    world["vswitches"]["h.br"]["kind"] = sys.argv[2]
plan = worlds.plan(world)
for refusal in Testbed().check(plan):
    print(f"refused {refusal.path}: {refusal.reason}; {refusal.cure}")
try:
    with Testbed().open(plan, worlds.Patient()):
        print("open")
except VirtlabError as error:
    print(f"failed {error}")
"""


@pytest.mark.parametrize(
    ("what", "other", "kind", "program", "cure"),
    [
        pytest.param(*PLATFORM, "qemu", "qemu-system-x86_64", "install qemu-system-x86", marks=MACHINES),
        (*PLATFORM, "container", "runc and crun", "install runc (or crun)"),
        pytest.param(*VSWITCH, "ovs-netdev", "ovs-vswitchd", "install openvswitch-switch", marks=OVS),
    ],
    ids=["qemu", "container", "open-vswitch"],
)
def test_a_missing_program_is_told_before_anything_is_built_with_the_points_that_want_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, other: str, kind: str, program: str, cure: str
) -> None:
    experiment = load_text(FILE.format(kinds=f"{other}, {kind}", what=what))
    Testbed().check(
        plan_run(experiment, experiment.points()[0], 0)
    )  # what does not change is asked with all programs
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [one for one in refused(experiment, Testbed()) if cure in one.refusal.cure]
    assert len(found) == 1, "one mistake is told once"
    assert program in found[0].refusal.reason
    kinds = {point.index: point.levels["kind"] for point in experiment.points()}
    assert {kinds[point] for point in found[0].points} == {kind}, "the other design points can run"


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        pytest.param("qemu", "guests.g1", marks=MACHINES),
        pytest.param("ovs-netdev", "vswitches.h.br", marks=OVS),
    ],
)
def test_a_tun_device_that_cannot_be_opened_is_refused_and_is_one_error_where_it_vanishes_later(
    kind: str, where: str
) -> None:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("only root can hide a device in a mount namespace")
    before = worlds.own_processes()
    hide = 'mount -t tmpfs none /dev/net && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", hide, "-", sys.executable, "-c", OPENS]
    done = subprocess.run(
        [*argv, str(Path(__file__).parent), kind], capture_output=True, text=True, check=False
    )
    refused, failed = done.stdout.splitlines()
    assert refused.startswith(f"refused {where}")
    assert "/dev/net/tun is missing" in refused
    assert "load the module tun" in refused
    assert failed.startswith(f"failed {where.partition('.')[0]}")
    assert "/dev/net/tun" in failed
    assert worlds.own_processes() <= before


@OVS
def test_a_switch_that_dies_in_mid_run_fails_the_run_by_name_and_the_next_goes_on() -> None:
    world = worlds.one_host(2)
    world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
    plan = worlds.echo_plan(world, source="g1", target="g2", count=2000)
    with Testbed().open(plan, worlds.Patient()) as session:
        victim = descendant(session.leader.process.pid, b"ovs-vswitchd")  # type: ignore[attr-defined]
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL))
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    assert any(
        reason.startswith("vswitches: ovs-vswitchd of h ended with signal 9") for reason in outcome.reasons
    )
    short = worlds.echo_plan(world, source="g1", target="g2", count=10)
    with Testbed().open(short, worlds.Patient()) as session:
        assert session.run(Trial("t1", 1), worlds.MemorySink()).status in {"ok", "tainted"}


def descendant(pid: int, name: bytes) -> int:
    """The process of that name below another."""
    waiting = [pid]
    while waiting:
        found = waiting.pop()
        if Path(f"/proc/{found}/cmdline").read_bytes().startswith(name):
            return found
        for task in Path(f"/proc/{found}/task").iterdir():
            waiting += [int(child) for child in (task / "children").read_text().split()]
    raise AssertionError(f"no {name.decode()} runs")
