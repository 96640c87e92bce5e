"""Tests after a search on the real kernel: a guest that is reset forwards again by itself, delays are told per guest,
and the load changes within a trial.

How long a reset takes is the kernel's affair; that it takes at least as long as the guest was down, that only its own
flow suffers, and that everything is forwarded afterwards is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import testbed_world as worlds
from search_world import searching

from virtlab.campaign.execution.trial import Tries, as_tested
from virtlab.campaign.search import TrialRequest
from virtlab.campaign.tests import BenchmarkTrial
from virtlab.campaign.trials.journal import Journal, TrialLine
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

FILE = searching(
    "tested", low="100 packet/s", high="2 kpacket/s", forwarding="FORWARDING", vswitch="VSWITCH",
    goal="loss: 0 %, trial: 200 ms, initial_trial: 200 ms, duration_sum: 200 ms",
    role="{workload: raw_stream, from: sut.generator, to: sut.receiver, size: 64 B frame, duration: 300 ms, "
    "via: [sut.vm1, sut.vm2], split: {strong: 1, weak_share: 25 %}}",
    more="tests: {pace: quick, latency: {}, recovery: {}, reset: {guest: sut.vm1}}",
)  # fmt: skip
DOWN_NS = 150 * 10**6
RATE_PPS = 1000.0


@dataclass
class World:
    """A built world with what makes trials in it."""

    tries: Tries

    def trial(self, asked: BenchmarkTrial) -> TrialLine:
        line = self.tries.tested(asked)
        assert isinstance(line, TrialLine), line.reasons
        return line

    def delays(self) -> TrialLine:
        return self.trial(BenchmarkTrial("latency", RATE_PPS, 0.3, "delay", "at100"))


NO_OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
WORLDS = [
    ("layer3", "linux_bridge"), ("layer2", "linux_bridge"),
    pytest.param(("layer3", "ovs-netdev"), marks=NO_OVS), pytest.param(("layer2", "ovs-netdev"), marks=NO_OVS),
]  # fmt: skip


def text(forwarding: str, vswitch: str = "linux_bridge") -> str:
    return FILE.replace("FORWARDING", forwarding).replace("VSWITCH", vswitch)


@pytest.fixture(scope="module", params=WORLDS, ids="-".join)
def tested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    experiment = load_text(text(*request.param))
    point = experiment.points()[0]
    plan, search = plan_run(experiment, point, 0), experiment.study(point).search
    assert search is not None
    backend = Testbed()
    for played in as_tested(search, plan):
        assert backend.check(played) == []
    journal = Journal.open(Path(tmp_path_factory.mktemp("journal")), "p0000-r00-a0", {})
    with backend.open(plan, worlds.Patient()) as session:
        yield World(Tries(search, plan, session, journal, worlds.Patient()))


def test_delays_are_told_of_every_guest(tested: World) -> None:
    line = tested.delays()
    assert line.flows_ns is not None
    assert len(line.flows_ns) == 2
    assert line.measured is not None
    assert all(delay is not None and 0 < delay < 10**9 for delay in line.flows_ns)
    assert min(line.flows_ns) <= line.measured <= max(line.flows_ns)  # type: ignore[type-var, operator]


def test_a_guest_that_was_reset_forwards_again_and_only_its_own_flow_suffered(tested: World) -> None:
    asked = BenchmarkTrial(
        "reset", RATE_PPS, 1.0, "reset", then_after_s=0.2, guest="sut.vm1", down_s=DOWN_NS / 1e9
    )
    line = tested.trial(asked)
    assert line.measured is not None, line.note
    assert DOWN_NS <= line.measured < 10**9
    assert line.lost >= 0.75 * RATE_PPS * DOWN_NS / 1e9 - 2  # the strong flow goes by way of it
    again = tested.delays()
    assert again.flows_ns is not None
    assert None not in again.flows_ns


def test_the_load_drops_within_a_trial(tested: World) -> None:
    """Repeated before it is judged: a sender that is not given the processor sends less anyway."""
    asked = BenchmarkTrial("recovery", RATE_PPS, 0.8, "overload", then_after_s=0.4, then_load=RATE_PPS / 2)
    sent = [tested.trial(asked).sent or 0 for _ in range(2)]
    assert min(sent) < 0.9 * RATE_PPS * 0.8
    assert max(sent) > 0.3 * RATE_PPS * 0.8


def test_a_load_is_judged_by_its_worst_flow(tested: World) -> None:
    line = tested.tries.searched(TrialRequest(RATE_PPS, 0.3), lambda one: one)
    assert isinstance(line, TrialLine)
    assert line.sent is not None
    assert line.received is not None
    whole = line.sent + (line.unsent or 0)
    assert line.lost / whole <= line.loss_ratio <= 1.0
    assert line.loss_ratio == 0.0 or line.lost > 0


def refused(platform: str, guest: str) -> set[str]:
    """Paths of refusals of a reset of a guest, were it of that platform."""
    experiment = load_text(text("layer3"))
    point = experiment.points()[0]
    plan, search = plan_run(experiment, point, 0), experiment.study(point).search
    guests = dict(plan.world.guests)
    guests[guest] = guests[guest].model_copy(update={"platform": platform})
    plan = plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
    played = as_tested(search, plan)[-1]
    timeline = tuple(
        one.model_copy(update={"guest": guest}) if one.do == "reset" else one for one in played.timeline
    )
    return {one.path for one in Testbed().check(played.model_copy(update={"timeline": timeline}))}


def test_what_cannot_be_reset_is_refused_before_anything_is_built() -> None:
    assert "timeline.benchmark.guest" in refused("libvirt", "sut.vm1")  # no button that is reached
    assert "timeline.benchmark.guest" in refused("qemu", "sut.receiver")  # its role would end with it
    assert "timeline.benchmark.guest" not in refused("qemu", "sut.vm1")
