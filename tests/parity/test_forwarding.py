"""One file on both arms: the forwarding study's world, flows by way of their guests with a split load, and a search in
it.

What links decide is the same: a frame of b bytes takes (b + 20) octet times, the egress link lets so many through, and
a queue of so many frames fills before one is lost. Guests of the simulator cost nothing here (ideal profile), so the
kernel can only be slower. Tolerances, with what is compared:

- frames of each flow that are sent below capacity, and come through: equal, to the frame;
- delay of the fastest frame: at least the simulator's, at most 3 ms more (the fastest, as other work delays the rest);
- what comes through at 1.6 times the capacity: from 0.93 to 1.02 of the simulator's, in all;
- throughput found without loss in any flow: from 0.85 to 1.06 of the simulator's, width 3 %.

A machine that stalls loses frames at any load, so what comes out too low is made again; too high never passes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.results import Dataset

GUESTS = ("sut.vm1", "sut.vm2", "sut.vm3")
FRAME_BYTES, EGRESS_BIT_PER_S = 512, 5_000_000
CAPACITY_PPS = EGRESS_BIT_PER_S / (8 * (FRAME_BYTES + 20))
TRIES = 8
SEARCHES = 5
FILE = """
version: 1
name: forwarding
{world}roles:
  flows:
    workload: raw_stream
    from: {ends[0]}
    to: {ends[1]}
    size: {size} B frame
    rate: {pps} packet/s
    duration: 400 ms
    split: {{strong: 1, weak_share: 10 %}}
    via: [sut.vm1, sut.vm2, sut.vm3]
{search}timing: {{warmup: 0 s, pause: 0 s, drain: 100 ms}}
collect: {{counters: [vnics, links], series: {{}}}}
repeat: 1
"""
WORLDS = {
    "layer3": f"""hosts:
  generator: {{platform: native}}
  receiver: {{platform: native}}
  sut:
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      vm: {{count: 3, vswitches: [br0, br1], forwarding: layer3}}
links:
  ingress: {{ends: [generator, sut.br0], rate: 100 Mbit/s}}
  egress: {{ends: [sut.br1, receiver], rate: {EGRESS_BIT_PER_S} bit/s, queue: {{kind: fifo, limit: 20 packets}}}}
""",
    # At layer 2 the generator has to be on the guests' own virtual switch, and nothing but its vNIC is between.
    "layer2": """hosts:
  sut:
    vswitches: {br0: {isolate: true}, br1: {isolate: true}}
    guests:
      generator: {vswitches: [br0], isolate: false}
      receiver: {vswitches: [br1], isolate: false}
      vm: {count: 3, vswitches: [br0, br1], forwarding: layer2}
""",
}
ENDS = {"layer3": ("generator.g1", "receiver.g1"), "layer2": ("sut.generator", "sut.receiver")}
SEARCH = """search:
  variable: flows.rate
  low: 400 packet/s
  high: 2400 packet/s
  goals: [{loss: 0 %, initial_trial: 200 ms, trial: 200 ms, duration_sum: 600 ms, width: 3 %}]
  warmup: 0 s
"""


def text(forwarding: str, pps: float, search: str = "") -> str:
    return FILE.format(
        world=WORLDS[forwarding], ends=ENDS[forwarding], size=FRAME_BYTES, pps=round(pps), search=search
    )


def played(arm: str, forwarding: str, pps: float) -> tuple[list[int], int] | None:
    """(frames of each flow that came through, delay of the fastest in ns); None when the arm could not play it."""
    experiment = load_text(text(forwarding, pps))
    plan = plan_run(experiment, experiment.points()[0], 0)
    kept = Kept()
    with backend_of(arm).open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", 7), kept)
    if outcome.status not in PLAYED:
        return None
    flow, sent, received = (
        kept.column("flows", "packet/1", name) for name in ("flow", "sent_ns", "received_ns")
    )
    return np.bincount(flow, minlength=len(GUESTS)).tolist(), int((received - sent).min())


def found(arm: str, folder: Path) -> float | None:
    """What the search found, frames/s; None when its run was not to be trusted."""
    said = text("layer3", 500, SEARCH)
    experiment, backend = load_text(said), backend_of(arm)
    able = backend.capabilities()
    with open_dataset(folder, said, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend)
    made = Dataset.open(folder)
    values = run_values(made).values(MetricPath("flows", "ndr_rate", "found")) if made.runs("ok") else []
    return float(values[0]) if len(values) else None


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
def test_below_capacity_every_flow_comes_through_to_the_frame_and_no_faster(forwarding: str) -> None:
    ideal = played("simulator", forwarding, 0.5 * CAPACITY_PPS)
    assert ideal is not None
    assert sum(ideal[0]) == pytest.approx(0.4 * 0.5 * CAPACITY_PPS, abs=3)
    assert ideal[0][0] == pytest.approx(0.9 * sum(ideal[0]), abs=3)  # one strong guest, two that share 10 %
    for _ in range(TRIES):
        real = played("testbed", forwarding, 0.5 * CAPACITY_PPS)
        if real is None:
            continue
        assert all(one <= other for one, other in zip(real[0], ideal[0], strict=True))
        assert real[1] >= ideal[1] * 0.98  # an instant is stamped within microseconds
        if real[0] == ideal[0] and real[1] <= ideal[1] + 3_000_000:
            return
    pytest.fail(f"simulated {ideal}, last measured {real}")


def test_beyond_capacity_the_egress_link_lets_the_same_through() -> None:
    ideal = played("simulator", "layer3", 1.6 * CAPACITY_PPS)
    assert ideal is not None
    assert sum(ideal[0]) == pytest.approx(0.4 * CAPACITY_PPS + 20, abs=6)
    for _ in range(TRIES):
        real = played("testbed", "layer3", 1.6 * CAPACITY_PPS)
        if real is None:
            continue
        assert sum(real[0]) <= 1.02 * sum(ideal[0])
        if sum(real[0]) >= 0.93 * sum(ideal[0]):
            return
    pytest.fail(f"simulated {ideal}, last measured {real}")


def test_the_search_finds_the_same_throughput(tmp_path: Path) -> None:
    ideal = found("simulator", tmp_path / "simulator")
    assert ideal is not None
    # A queue of 20 frames forgives that much beyond the link's rate in a trial.
    assert CAPACITY_PPS * 0.97 <= ideal <= (CAPACITY_PPS + 21 / 0.2) * 1.01
    answers = []
    for attempt in range(SEARCHES):
        real = found("testbed", tmp_path / f"testbed-{attempt}")
        if real is None:
            continue
        answers.append(real)
        assert real <= 1.06 * ideal
        if real >= 0.85 * ideal:
            return
    if len(answers) < SEARCHES:
        pytest.skip(
            "the machine starved the sender: it spoilt whole runs, so what is left of them proves nothing"
        )
    pytest.fail(f"simulated {ideal:.0f} frames/s, measured {answers}")
