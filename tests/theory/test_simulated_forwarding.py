"""Forwarding guests in the simulator against what can be computed: every frame is accounted for flow by flow, a guest's
cost makes its capacity, and a search finds it.

With c the time that a frame takes its guest, k strong guests that carry 1 - q of the load together, and P processors,
the guests keep up with a load of 1 / (c s), s the share of the busiest guest or of a processor, 1 / P, whichever is
more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.catalogue import split
from virtlab.experiment import Experiment, load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

GUESTS = 4
COST_NS = 20_000
ROUSE_NS = 50_000
BACKLOG = 1000


def profile(processors: int, **parts: float) -> Profile:
    """Costs of a namespace by their short names."""
    parameters = {f"platform.namespace.{name}": Parameter(value) for name, value in parts.items()}
    parameters["vswitch.linux_bridge.packet_ns"] = Parameter(0.0)
    return Profile("forwarding", processors, parameters, {"wakeup.sleep": Quantiles((0.0, 1.0), (0.0, 0.0))})


def file(
    *, forwarding: str = "layer3", isolate: bool = True, rate: str = "", shares: tuple[float, ...] = (),
    search: str = "", guest: str = "", drain: str = "300 ms", frame_bytes: int = 64,
) -> str:  # fmt: skip
    """Guests between two virtual switches, a generator on the one and a receiver on the other."""
    names = ", ".join(f"sut.vm{number + 1}" for number in range(GUESTS))
    parts = f"shares: [{', '.join(f'{100 * share:.10g} %' for share in shares)}]" if shares else ""
    return textwrap.dedent(
        f"""
        version: 1
        name: flows
        seed: 7
        hosts:
          sut:
            vswitches: {{br0: {{isolate: {isolate}}}, br1: {{isolate: {isolate}}}}}
            guests:
              generator: {{vswitches: [br0], isolate: false}}
              receiver: {{vswitches: [br1], isolate: false}}
              vm: {{count: {GUESTS}, vswitches: [br0, br1], forwarding: {forwarding}{guest}}}
        roles:
          load:
            workload: raw_stream
            from: sut.generator
            to: sut.receiver
            size: {frame_bytes} B frame
            {f"rate: {rate}" if rate else "flows: " + str(GUESTS)}
            duration: 400 ms
            via: [{names}]
            {parts}
        {search}
        collect: {{counters: [vnics], packets: [load], series: {{}}}}
        timing: {{warmup: 0 s, pause: 0 s, drain: {drain}}}
        repeat: 1
    """.replace("False", "false").replace("True", "true")
    )


def played(text: str, costs: Profile = IDEAL_PROFILE) -> tuple[Kept, Mapping[tuple[str, str], int]]:
    """One pass: samples, and the counters at its end."""
    experiment = load_text(text)
    kept = Kept()
    plan = plan_run(experiment, experiment.points()[0], 0)
    with Simulator(costs).open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", 1), kept)
    assert outcome.status == "ok", outcome.reasons
    (block,) = kept.blocks["counters", "counter/1"]
    rows = zip(block["mark"], block["entity"], block["counter"], block["value"], strict=True)
    return kept, {(entity, name): int(value) for mark, entity, name, value in rows if mark in {"end", "stop"}}


def searched(text: str, folder: Path, costs: Profile) -> Dataset:
    """A campaign of one run that searches."""
    experiment: Experiment = load_text(text)
    backend = Simulator(costs)
    with open_dataset(
        folder, text, name=experiment.name, seed=experiment.seed, backend=backend.capabilities()
    ) as dataset:
        run_campaign(experiment, dataset, backend)
    return Dataset.open(folder)


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
def test_every_frame_of_every_flow_goes_through_its_own_guest_and_arrives_once(forwarding: str) -> None:
    kept, counters = played(
        file(forwarding=forwarding, rate="10 kpacket/s", shares=split.shares(GUESTS, 1, 0.01))
    )
    packets = kept.blocks["load", "packet/1"][0]
    for flow in range(GUESTS):
        sent = counters["load/client", f"flow{flow}.sent_packets"]
        assert sent == counters["load/server", f"flow{flow}.received_packets"]
        assert counters["load/client", f"flow{flow}.unsent_packets"] == 0
        mine = packets["seq"][packets["flow"] == flow]
        assert sorted(mine) == list(range(sent))
        for word in ("received", "sent"):
            assert sent == sum(
                value
                for (entity, name), value in counters.items()
                if entity.startswith(f"guests.sut.vm{flow + 1}.") and name == f"{word}_packets"
            )
    assert counters["load/client", "flow0.sent_packets"] == pytest.approx(0.99 * 4000, abs=1)


@pytest.mark.slow
def test_an_overloaded_guest_loses_frames_of_its_own_flow_alone_and_none_unaccounted() -> None:
    # The first flow brings its guest twice what it forwards; three wait for nobody: processors enough for all.
    rate = round(2e9 / COST_NS / 0.99)
    text = file(rate=f"{rate} packet/s", shares=split.shares(GUESTS, 1, 0.01))
    _, counters = played(text, profile(GUESTS, forward_ns=COST_NS))
    sent, came = (
        [counters[f"load/{side}", f"flow{flow}.{word}_packets"] for flow in range(GUESTS)]
        for side, word in (("client", "sent"), ("server", "received"))
    )
    assert sent[1:] == came[1:]
    dropped = sum(
        value
        for (entity, name), value in counters.items()
        if entity.startswith("guests.sut.vm1.") and name == "rx_dropped"
    )
    assert sent[0] - came[0] == dropped
    forwarded_in_time = 0.4e9 / COST_NS
    assert came[0] == pytest.approx(forwarded_in_time + BACKLOG, abs=3)


@pytest.mark.slow
@pytest.mark.parametrize(("processors", "ratio"), [(1, 1.0), (2, 2.0)])
def test_a_search_finds_the_capacity_and_fairness_pays_where_processors_are_left_over(
    tmp_path: Path, processors: int, ratio: float
) -> None:
    search = (
        "search: {variable: load.rate, low: 1 kpacket/s, high: 400 kpacket/s, warmup: 0 s, goals: [{loss: 0 %, "
        "initial_trial: 500 ms, trial: 4 s, duration_sum: 4 s, width: 2 %}]}"
    )
    found = []
    for strong in (1, GUESTS):
        shares = split.shares(GUESTS, strong, 0.01)
        text = file(shares=shares, search=search, drain="100 ms")
        table = run_values(searched(text, tmp_path / str(strong), profile(processors, forward_ns=COST_NS)))
        low, high = (table.values(MetricPath("load", "ndr_rate", end))[0] for end in ("lower", "upper"))
        busiest = max(*shares[:1], 1 / processors)  # of a guest, or of a processor
        capacity = 1e9 / COST_NS / busiest
        room = GUESTS * BACKLOG / 4 / busiest  # what the backlogs swallow within a trial of 4 s
        assert low <= capacity + room
        assert high >= capacity
        assert high - low <= 0.02 * high
        found.append(low)
    assert found[1] / found[0] == pytest.approx(ratio, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("frame_bytes", [64, 512, 1518])
def test_between_links_a_search_finds_the_wire_whatever_forwards(tmp_path: Path, frame_bytes: int) -> None:
    text = textwrap.dedent(f"""
        version: 1
        name: wire
        hosts:
          generator: {{platform: native}}
          receiver: {{platform: native}}
          sut:
            platform: namespace
            vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
            guests:
              vm: {{count: 2, vswitches: [br0, br1], forwarding: layer3}}
        links:
          ingress: {{ends: [generator, sut.br0], rate: 100 Mbit/s}}
          egress: {{ends: [sut.br1, receiver], rate: 50 Mbit/s, queue: {{kind: fifo, limit: 10 packets}}}}
        roles:
          load:
            workload: raw_stream
            from: generator.g1
            to: receiver.g1
            size: {frame_bytes} B frame
            via: [sut.vm1, sut.vm2]
        search:
          variable: load.rate
          low: 1 kpacket/s
          warmup: 0 s
          goals: [{{loss: 0 %, initial_trial: 500 ms, duration_sum: 2 s}}]
        timing: {{warmup: 0 s, drain: 50 ms}}
        repeat: 1
    """)
    table = run_values(searched(text, tmp_path, IDEAL_PROFILE))
    low, high = (table.values(MetricPath("load", "ndr_rate", end))[0] for end in ("lower", "upper"))
    exact = 50e6 / (8 * (frame_bytes + 20))
    assert low <= exact + 10 + 1  # the queue holds ten frames of the trial that decides
    assert high >= exact
    assert high - low <= 0.005 * high


@pytest.mark.parametrize(("idle", "roused"), [("sleep", ROUSE_NS), ("poll", 0)])
def test_at_a_low_load_every_frame_finds_its_guest_asleep_unless_it_polls(idle: str, roused: int) -> None:
    costs = profile(GUESTS, forward_ns=COST_NS, rouse_ns=ROUSE_NS)
    kept, _ = played(file(rate="400 packet/s", guest=f", idle: {idle}"), costs)
    packets = kept.blocks["load", "packet/1"][0]
    delays = np.asarray(packets["received_ns"]) - np.asarray(packets["sent_ns"])
    assert set(delays) == {COST_NS + roused}


@pytest.mark.slow
def test_an_awake_guest_is_not_roused_so_delay_falls_with_the_load_before_it_rises() -> None:
    costs = profile(GUESTS, forward_ns=COST_NS, rouse_ns=ROUSE_NS)
    means = []
    for rate in ("400 packet/s", "180 kpacket/s", "220 kpacket/s"):  # capacity: 200 thousand a second
        kept, _ = played(file(rate=rate), costs)
        packets = kept.blocks["load", "packet/1"][0]
        means.append(np.mean(np.asarray(packets["received_ns"]) - np.asarray(packets["sent_ns"])))
    assert means[0] == COST_NS + ROUSE_NS
    assert means[0] > means[1]
    assert means[2] > 10 * means[0]


@pytest.mark.slow
def test_a_guest_falls_asleep_only_after_it_has_had_nothing_to_do_for_a_while() -> None:
    costs = profile(GUESTS, forward_ns=COST_NS, rouse_ns=ROUSE_NS, doze_ns=200_000.0)
    # Frames come to each guest every 400 and every 211 us; what it has to do takes 20, or 70 with being roused.
    for rate, later in (("10 kpacket/s", COST_NS + ROUSE_NS), ("19 kpacket/s", COST_NS)):
        kept, _ = played(file(rate=rate), costs)
        packets = kept.blocks["load", "packet/1"][0]
        delays = np.asarray(packets["received_ns"]) - np.asarray(packets["sent_ns"])
        first = np.asarray(packets["seq"]) == 0
        assert set(delays[first]) == {COST_NS + ROUSE_NS}
        assert set(delays[~first]) == {later}


@pytest.mark.slow
def test_cost_per_byte_is_paid_by_layer_2_and_3_under_their_own_names() -> None:
    costs = profile(GUESTS, forward_ns=3000.0, forward_byte_ns=2.0, bridge_ns=1000.0, bridge_byte_ns=1.0)
    for forwarding, exact in (("layer3", 3000 + 2 * 996), ("layer2", 1000 + 996)):  # 1000 B with checksum
        kept, _ = played(file(forwarding=forwarding, rate="400 packet/s", frame_bytes=1000), costs)
        packets = kept.blocks["load", "packet/1"][0]
        delays = np.asarray(packets["received_ns"]) - np.asarray(packets["sent_ns"])
        assert set(delays) == {exact}


@pytest.mark.parametrize("flooding", [True, False])
def test_a_frame_to_nobody_known_leaves_by_every_port_that_is_not_isolated_where_the_switch_floods(
    flooding: bool,
) -> None:
    # At layer 2 a flow's address is that of its guest, behind which br1 knows nobody once two guests stand there.
    text = file(forwarding="layer2", rate="10 kpacket/s")
    text = text.replace("br1: {isolate: true}", f"br1: {{isolate: true, flooding: {str(flooding).lower()}}}")
    text = text.replace("      vm: {", "      bystander: {vswitches: [br1], isolate: false}\n      vm: {")
    _, counters = played(text)
    sent = counters["load/client", "sent_packets"]
    strangers = {
        entity.split(".")[2]: value
        for (entity, name), value in counters.items()
        if name == "rx_dropped" and value
    }
    assert counters["load/server", "received_packets"] == (sent if flooding else 0)
    assert strangers == (
        {"bystander": sent} if flooding else {}
    )  # and none at the other guests' isolated ports
