"""Every experiment file that the testbed runs runs in the simulator: none of the studies' is refused, with any profile.

The first and the last design point of each file are looked at on the ideal platform and with a profile that has costs
for all platforms and virtual switches; the last one of some is played. What goes in bulk has no packets that could cost
something, so such files are for the ideal platform alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.shipped import shipped

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

STUDIES = Path(__file__).parents[3] / "experiments"
ELSEWHERE = {  # what no model knows, of which a refusal of the last design point says this word
    "virtual-routers/hypervisors.yaml": "ssh",  # of hosts that exist already
    "distributed-storage/real-quick.yaml": "gluster",  # of real stores
}
IN_BULK = {
    "distributed-storage/processors.yaml",
    "distributed-storage/nodes.yaml",
    "distributed-storage/mix.yaml",
    "distributed-storage/recovery.yaml",
}  # contents that are no packets
FILES = sorted(
    path
    for path in STUDIES.rglob("*.yaml")
    if path.name not in {"figures.yaml", "statements.yaml"}
    and "\nhosts:" in path.read_text(encoding="utf-8")
    and f"{path.parent.name}/{path.name}" not in ELSEWHERE
)
COSTS = {
    "send_ns": 3000,
    "message_ns": 2000,
    "crossing_ns": 500,
    "forward_ns": 2000,
    "bridge_ns": 1500,
    "steer_ns": 5000,
}
COSTLY = Profile(
    "costly",
    2,
    {
        **{
            f"platform.{name}.{what}": Parameter(float(ns))
            for name in PLATFORMS
            for what, ns in COSTS.items()
        },
        **{f"platform.qemu.{model}.send_ns": Parameter(9000.0) for model in ("e1000", "e1000e")},
        **{f"vswitch.{name}.packet_ns": Parameter(700.0) for name in VSWITCHES},
        "vswitch.ovs-netdev.upcall_ns": Parameter(50_000.0),
        "links.departure_ns": Parameter(1000.0),
    },
    {"wakeup.sleep": Quantiles((0.0, 1.0), (20_000.0, 60_000.0))},
)
PLAYED = (
    "lab-disciplines/quick.yaml",  # offloads, TCP
    "virtual-routers/full-pinned.yaml",  # pinned routers
    "virtual-switches/first-packets.yaml",  # entries of flows
)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_file_of_the_studies_is_refused(path: Path) -> None:
    experiment = shipped(path)
    points = experiment.points()
    for point in {id(point): point for point in (points[0], points[-1])}.values():
        plan = plan_run(experiment, point, 0)
        assert not Simulator(IDEAL_PROFILE).check(plan)
        refused = {refusal.path.rpartition(".")[2] for refusal in Simulator(COSTLY).check(plan)}
        assert refused == ({"transfers"} if f"{path.parent.name}/{path.name}" in IN_BULK else set())


@pytest.mark.parametrize(("name", "word"), sorted(ELSEWHERE.items()))
def test_what_no_model_knows_is_refused(name: str, word: str) -> None:
    experiment = shipped(STUDIES / name)
    refusals = Simulator(COSTLY).check(plan_run(experiment, experiment.points()[-1], 0))
    assert any(word in str(one) for one in refusals)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_what_only_a_profile_gives_a_meaning_to_is_played(name: str) -> None:
    experiment = shipped(STUDIES / name)
    plan = plan_run(experiment, experiment.points()[-1], 0)
    outcomes = []
    for _ in range(2):
        kept = Kept()
        with Simulator(COSTLY).open(plan, Watcher()) as session:
            outcome = session.run(Trial("t0", plan.seed), kept)
        assert outcome.status == "ok", outcome.reasons
        outcomes.append((outcome.marks, outcome.clocks))
    assert outcomes[0] == outcomes[1]
