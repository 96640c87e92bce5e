"""Routers pinned to a processor forward there: steered, read back, counted; where that cannot be it is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed.backend import Testbed
from virtlab.testbed.build import pinning
from virtlab.testbed.build.machine import findings

sys.path.insert(0, str(Path(__file__).parent))
import testbed_world as worlds
from test_testbed_privileges import ROOT, as_nobody

CPUS = sorted(os.sched_getaffinity(0))
WHY_NOT = (findings().world or ("",))[0]
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "")
STEERS = pytest.mark.skipif(
    not pinning.STEERING.exists(), reason="this kernel has no receive packet steering"
)
FILE = """\
version: 1
name: pinned
seed: 3
hosts: {{h1: {{vswitch: linux_bridge}}, h2: {{vswitch: linux_bridge}}}}
routers: [r1, r2]
router: {{platform: {platform}, pin: {pin}, routing: {routing}}}
link: {{rate: 1 Gbit/s, realise: shaping}}
links:
  a: {{ends: [h1, r1]}}
  b: {{ends: [r1, r2]}}
  c: {{ends: [r2, h2]}}
roles:
  probe: {{workload: rtt, protocol: udp, from: h1.g1, to: h2.g1, interval: 1 ms, count: 400, size: 64 B payload}}
"""


def plan(pin: str, platform: str = "namespace", routing: str = "static") -> Plan:
    experiment = load_text(FILE.format(pin=pin, platform=platform, routing=routing))
    return plan_run(experiment, experiment.points()[0], 0)


def steered() -> list[int]:
    """How often each processor was asked to take over packets that another had received."""
    text = Path("/proc/net/softnet_stat").read_text()
    return [int(line.split()[9], 16) for line in text.splitlines()]


@ROOT
@STEERS
@pytest.mark.parametrize("platform", ["namespace", "native"])
def test_ports_of_pinned_routers_steer_to_one_processor_and_say_so(platform: str) -> None:
    planned = plan("one", platform)
    assert Testbed().check(planned) == []
    with Testbed().open(planned, worlds.Patient()) as session:
        for router in ("r1", "r2"):
            said = session.realised.objects[f"guests.{router}"].read_back["pin"]
            assert said["processor"] == CPUS[-1]
            assert len(said["rps_cpus"]) == 2
            assert all(int(text.replace(",", ""), 16) == 1 << CPUS[-1] for text in said["rps_cpus"].values())
        assert "pin" not in session.realised.objects["guests.h1.g1"].read_back


@ROOT
@STEERS
@pytest.mark.skipif(len(CPUS) < 2, reason="there is one processor")
def test_packets_through_a_pinned_router_are_taken_over_by_its_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything of the world runs on the first processor, but for what the routers' ports receive."""
    monkeypatch.setattr(pinning, "processors", lambda *_: {"r1": CPUS[-1], "r2": CPUS[-1]})
    sink = worlds.MemorySink()
    os.sched_setaffinity(0, {CPUS[0]})
    try:
        with Testbed().open(plan("one"), worlds.Patient()) as session:
            before = steered()
            outcome = session.run(Trial("t0", 1), sink)
            after = steered()
    finally:
        os.sched_setaffinity(0, CPUS)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.rows("probe", "rtt/1") > 0
    taken = [now - then for then, now in zip(before, after, strict=True)]
    assert taken[CPUS[-1]] > 0, taken


@ROOT
@STEERS
@pytest.mark.skipif(len(CPUS) < 2, reason="there is one processor")
def test_spread_routers_stand_on_different_processors() -> None:
    with Testbed().open(plan("spread"), worlds.Patient()) as session:
        on = [
            session.realised.objects[f"guests.{name}"].read_back["pin"]["processor"] for name in ("r1", "r2")
        ]
    assert on == [CPUS[-1], CPUS[-2]]


@ROOT
@STEERS
def test_a_processor_that_there_is_not_is_the_kernels_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "mask", lambda cpu: f"zz{cpu}")
    with pytest.raises(MachineError, match=r"guests\.r1\.pin.*cannot be pinned"):
        Testbed().open(plan("one"), worlds.Patient())


def test_a_router_with_processors_of_its_own_is_refused_and_so_is_what_is_no_router() -> None:
    planned = plan("one")
    guests = dict(planned.world.guests)
    guests["r1"] = guests["r1"].model_copy(update={"platform": "vm"})
    guests["h1.g1"] = guests["h1.g1"].model_copy(update={"pin": "one"})
    other = planned.model_copy(update={"world": planned.world.model_copy(update={"guests": guests})})
    said = {path: reason for path, reason, _ in pinning.why_not(other, [0, 1], root=True)}
    assert "virtual processors" in said["guests.r1.pin"]
    assert "only a guest that forwards" in said["guests.h1.g1.pin"]
    assert "guests.r2.pin" not in said


def test_nothing_is_spread_over_one_processor() -> None:
    said = pinning.why_not(plan("spread"), [0], root=True)
    assert [(path, cure) for path, _, cure in said] == [
        ("guests.r1.pin", "write 'pin: one'"), ("guests.r2.pin", "write 'pin: one'"),
    ]  # fmt: skip


@ROOT
def test_an_ordinary_user_is_told_that_only_root_can() -> None:
    planned = plan("one")

    def work() -> None:
        refused = {refusal.path: refusal for refusal in Testbed().check(planned)}
        assert set(refused) == {"guests.r1.pin", "guests.r2.pin"}
        assert "only root" in refused["guests.r1.pin"].reason

    assert as_nobody(work) == ""
