"""Queues at the ports of a host: where the file puts them, how both arms build them, what is refused and with which
cure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.experiment import Experiment
from virtlab.experiment.load import load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.plan import Plan, Queue, Trial, Unobserved
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import with_port_links
from virtlab.simulator import Simulator
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.ports import as_built, port_refusals
from virtlab.testbed.play.queue_waits import Waiting
from virtlab.testbed.queues.ovs import LEFT_ALONE, NOTHING_OF_OURS, qos_of
from virtlab.testbed.refusals import refusals
from virtlab.testbed.steps.operations import ClassAdd, FilterAdd, QdiscAdd
from virtlab.testbed.vswitches.ovs_rules import rules, transaction

FILE = """
version: 1
name: ports
hosts: {{h1: {{}}, h2: {{}}}}
host: {{guests: 1, {host}}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 10 ms, count: 5}}
"""
CLASSES = (
    "classes: {all: {rate: 20 Mbit/s}, gold: {parent: all, rate: 15 Mbit/s, ceil: 20 Mbit/s}, "
    "rest: {parent: all, rate: 5 Mbit/s, ceil: 20 Mbit/s}}, "
    "match: [{class: gold, dscp: EF}], default: rest"
)
FULL = replace(HERE, qdiscs={**HERE.qdiscs, "cls_u32": None}, switch_qdiscs=("fifo", "fq_codel", "htb"))


def experiment(host: str) -> Experiment:
    return load_text(FILE.format(host=host), name="ports.yaml")


def planned(host: str) -> Plan:
    return planned_text(FILE.format(host=host))


def planned_text(text: str) -> Plan:
    made = load_text(text, name="ports.yaml")
    return plan_run(made, made.points()[0], 0)


def at_port(plan: Plan, link: str) -> list[Any]:
    built = as_built(plan, "soft_switch")
    kinds = QdiscAdd | ClassAdd | FilterAdd
    return [step.op for step in lower(built).steps if isinstance(step.op, kinds) and step.op.link == link]


@pytest.mark.parametrize(
    ("place", "at_guests", "at_uplinks"),
    [("guest", "tbf", "fifo"), ("uplink", None, "tbf"), ("both", "tbf", "tbf"), ("none", None, "fifo")],
)
def test_a_queue_stands_where_the_host_says(place: str, at_guests: str | None, at_uplinks: str) -> None:
    plan = planned(f"queue: {{kind: tbf, rate: 50 Mbit/s, burst: 10 kB}}, queue_at: {place}")
    for guest in plan.world.guests.values():
        queue = guest.vnics["eth0"].queue
        assert (queue.kind if queue is not None else None) == at_guests
    leaving = (plan.world.links["h1-s1"].queue.ab, plan.world.links["s1-h2"].queue.ba)
    arriving = (plan.world.links["h1-s1"].queue.ba, plan.world.links["s1-h2"].queue.ab)
    assert [queue.kind for queue in leaving] == [at_uplinks, at_uplinks]
    assert [queue.kind for queue in arriving] == ["fifo", "fifo"], "a switch's port is not the host's"


def test_the_two_ends_can_have_different_queues() -> None:
    text = FILE.format(host="platform: namespace").replace(
        "hosts: {h1: {}, h2: {}}",
        "hosts: {h1: {queue: {kind: codel}, queue_at: uplink}, h2: {queue: {kind: sfq}, queue_at: guest}}",
    )
    made = load_text(text, name="ports.yaml")
    world = plan_run(made, made.points()[0], 0).world
    assert world.links["h1-s1"].queue.ab.kind == "codel"
    assert world.guests["h1.g1"].vnics["eth0"].queue is None
    assert world.guests["h2.g1"].vnics["eth0"].queue is not None
    assert world.links["s1-h2"].queue.ba.kind == "fifo"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("queue_at: both", "there is no queue to place"),
        ("queue: {kind: codel}, vswitch: none", "there is no port of a virtual switch towards a guest"),
        ("port_rate: 1 Mbit/s, vswitch: none", "there is no port of a virtual switch towards a guest"),
        ("queue: {kind: codle}", "there is no queue discipline 'codle'"),
    ],
)
def test_a_queue_that_can_stand_nowhere_is_a_mistake(host: str, said: str) -> None:
    with pytest.raises(FileMistakesError, match=said):
        experiment(host)


@pytest.mark.parametrize("place", ["uplink", "both"])
@pytest.mark.parametrize("where", ["host", "hosts.h1"])
def test_a_queue_towards_the_wire_of_a_host_without_a_link_is_a_mistake_where_it_is_said(
    where: str, place: str
) -> None:
    said = f"queue: {{kind: codel}}, queue_at: {place}"
    own, shared = (said, "") if where == "hosts.h1" else ("", said)
    text = FILE.format(host=shared).replace("topology: {shape: line, switches: 1}\n", "")
    text = text.replace("hosts: {h1: {}, h2: {}}", f"hosts: {{h1: {{{own}}}}}").replace(
        "guests: 1, ", "guests: 2, "
    )
    text = text.replace("link: {rate: 100 Mbit/s}\n", "").replace("to: h2.g1", "to: h1.g2")
    with pytest.raises(FileMistakesError) as caught:
        load_text(text, name="ports.yaml")
    (mistake,) = caught.value.mistakes
    assert f"{where}.queue_at" in str(mistake)
    assert "there is no port of 'h1' towards the wire" in str(mistake)
    assert "write 'queue_at: guest', or a link that leads to it" in str(mistake)
    world = planned_text(text.replace(place, "guest")).world
    queue = world.guests["h1.g2"].vnics["eth0"].queue
    assert queue is not None
    assert queue.kind == "codel"


def test_a_port_with_a_rate_has_a_fifo_where_the_hosts_queue_stands_elsewhere() -> None:
    world = planned("queue: {kind: codel}, queue_at: uplink, port_rate: 50 Mbit/s").world
    vnic = world.guests["h1.g1"].vnics["eth0"]
    assert vnic.queue is not None
    assert (vnic.queue.kind, vnic.port_rate_bit_per_s) == ("fifo", 50_000_000)
    assert world.links["h1-s1"].queue.ab.kind == "codel"


def test_without_a_rate_the_kernels_discipline_stands_alone_at_the_port() -> None:
    (made,) = at_port(planned("queue: {kind: fifo, limit: 30 packets, by: kernel}"), "h1.g1.eth0")
    assert (made.namespace, made.parent, made.handle, made.discipline.kind) == (
        "host:h1",
        "root",
        "10:",
        "pfifo",
    )


def test_a_ports_rate_is_held_by_htb_with_the_discipline_inside() -> None:
    plan = planned("queue: {kind: fifo, limit: 30 packets, by: kernel}, port_rate: 50 Mbit/s")
    top, paced, inner = at_port(plan, "h1.g1.eth0")
    assert (top.handle, paced.discipline.options["rate_bit_per_s"], inner.parent) == ("1:", 50_000_000, "1:1")


def test_a_port_of_the_soft_switch_is_a_link_between_virtual_switch_and_guest() -> None:
    plan = planned("queue: {kind: fq_codel}, port_rate: 50 Mbit/s")
    built = as_built(plan, "soft_switch")
    link = built.world.links["h1.g1.eth0"]
    assert (link.rate_bit_per_s, link.queue.ab.kind, link.queue.ba.kind) == (50_000_000, "fq_codel", "fifo")
    assert link.ends[0] in built.world.vswitches["h1.br"].uplinks
    assert built.world.guests["h1.g1"].vnics["eth0"].uplink == link.ends[1]
    assert as_built(built, "soft_switch") is built
    assert refusals(plan, FULL) == []


def test_a_plan_without_port_queues_stays_as_it_is() -> None:
    plan = planned("platform: namespace")
    assert with_port_links(plan, lambda vnic: True) is plan


def test_what_the_kernel_lacks_is_refused_with_both_ways_out() -> None:
    found = list(port_refusals(planned("queue: {kind: codel, by: kernel}"), HERE))
    assert [refusal.path for refusal in found] == [f"guests.h{n}.g1.vnics.eth0.queue.kind" for n in (1, 2)]
    assert "'by: virtlab' and a 'port_rate'" in found[0].cure
    assert "--in lab-vm" in found[0].cure


@pytest.mark.parametrize(
    ("queue", "place", "path"),
    [
        ("{kind: tbf, rate: 5 Mbit/s, burst: 1513 B, by: kernel}", "guest", "queue.parameters.burst_bytes"),
        ("{kind: tbf, rate: 5 Mbit/s, burst: 1513 B}", "uplink", "parameters.burst_bytes"),
        ("{kind: bfifo, limit: 1 kB}, port_rate: 5 Mbit/s", "guest", "queue.limit_bytes"),
        ("{kind: tbf, rate: 5 Mbit/s, burst: 1514 B, limit: 1514 B, by: kernel}", "guest", None),
        ("{kind: tbf, rate: 5 Mbit/s, burst: 600 B, by: kernel}, mtu: 586 B", "guest", None),
    ],
)
def test_a_queue_that_no_full_frame_passes_is_refused(queue: str, place: str, path: str | None) -> None:
    found = [
        each
        for each in refusals(planned(f"queue: {queue}, queue_at: {place}"), FULL)
        if "every full frame" in each.reason
    ]
    assert bool(found) is (path is not None)
    assert all(each.path.endswith(path) and " B'" in each.cure for each in found if path is not None)


def test_virtlabs_own_needs_a_port_with_a_rate() -> None:
    found = list(port_refusals(planned("queue: {kind: codel, by: virtlab}"), HERE))
    assert {refusal.path.rpartition(".")[2] for refusal in found} == {"by"}
    assert all("port_rate" in refusal.cure for refusal in found)


def test_open_vswitch_is_told_of_queues_with_the_defaults_first() -> None:
    plan = planned(f"queue: {{kind: htb, by: kernel, {CLASSES}}}, vswitch: ovs-netdev")
    lowered = lower(as_built(plan, "soft_switch"))
    bridge = lowered.vswitches["h1.br"]
    said = " ".join(transaction([bridge]))
    assert "type=linux-htb other_config:max-rate=20000000 queues:0=@queue1.0 queues:1=@queue1.1" in said
    assert "--id=@queue1.0 create queue other_config:min-rate=5000000 other_config:max-rate=20000000" in said
    assert f"create qos type={NOTHING_OF_OURS}" in said, "what we set at the uplink is not taken away"
    queue = lowered.queues["h1.g1.eth0", "ab"]
    assert (queue.top, dict(queue.classes)) == ("1:", {"all": "1:fffe", "rest": "1:1", "gold": "1:2"})
    rules = [op for op in bridge.afterwards if isinstance(op, FilterAdd)]
    assert {rule.target for rule in rules} == {"1:2"}
    assert not [
        step for step in lowered.steps if isinstance(step.op, QdiscAdd) and step.op.link == queue.link
    ]


@pytest.mark.parametrize(
    ("values", "rate", "kind"),
    [
        ({"kind": "fq_codel"}, None, "linux-fq_codel"),
        ({"kind": "codel", "parameters": {"target_ns": 5_000_000}}, None, "linux-codel"),
        ({"kind": "sfq", "parameters": {"perturb_ns": 10**10}}, None, "linux-sfq"),
        ({"kind": "sfq", "limit_packets": 60}, None, None),
        ({"kind": "codel", "parameters": {"target_ns": 5_000_500}}, None, None),
        ({"kind": "codel", "parameters": {"ecn": True}}, None, None),
        ({"kind": "codel"}, 10**7, None),
        ({"kind": "hfsc", "parameters": {"m2_bit_per_s": 10**7}}, None, None),
        ({"kind": "hfsc", "parameters": {"m2_bit_per_s": 10**7}}, 10**7, None),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 12_000}}, None, "linux-htb"),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 11_999}}, None, None),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**7}}, 10**7, None),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**6, "ceil_bit_per_s": 10**8}}, None, None),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**7, "ceil_bit_per_s": 10**6}}, None, None),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": (8 << 32) - 8}}, None, "linux-htb"),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 8 << 32}}, None, None),
        ({"kind": "prio", "classes": {"a": {}}, "default": "a"}, None, None),
    ],
)
def test_open_vswitch_is_asked_only_for_what_it_has_words_for(
    values: dict[str, Any], rate: int | None, kind: str | None
) -> None:
    qos = qos_of(Queue.model_validate(values), rate)
    assert (qos.kind if qos is not None else None) == kind


def classed(kind: str, default: str, **classes: tuple[str | None, dict[str, int]]) -> Queue:
    """A queue with classes: of each its parent, and its parameters in bit/s."""
    units = {"burst": "burst_bytes", "prio": "prio"}
    entries = {
        name: {"parent": parent, "parameters": {units.get(key, f"{key}_bit_per_s"): said for key, said in values.items()}}
        for name, (parent, values) in classes.items()
    }  # fmt: skip
    return Queue.model_validate({"kind": kind, "default": default, "classes": entries})


def test_a_class_borrows_at_an_open_vswitch_from_whom_it_borrows_anywhere_else() -> None:
    """Its queues borrow from the class 1:fffe, and without a parent a class of tc has nobody to borrow from."""
    gold, rest = {"rate": 10**7, "ceil": 4 * 10**7}, {"rate": 3 * 10**7}
    assert qos_of(classed("htb", "rest", gold=(None, gold), rest=(None, rest)), None) is None
    below = qos_of(
        classed("htb", "rest", all=(None, {"rate": 4 * 10**7}), gold=("all", gold), rest=("all", rest)), None
    )
    assert below is not None
    assert (below.config, below.handles()) == (
        {"max-rate": 4 * 10**7},
        {"all": "1:fffe", "rest": "1:1", "gold": "1:2"},
    )
    apart = qos_of(classed("htb", "rest", gold=(None, {"rate": 10**7}), rest=(None, rest)), None)
    assert apart is not None
    assert apart.config == {"max-rate": 4 * 10**7}, "each has its own, as where none is above them"


@pytest.mark.parametrize(
    "above",
    [{"rate": 4 * 10**7, "burst": 20_000}, {"rate": 3 * 10**7}, {"rate": 4 * 10**7, "ceil": 5 * 10**7}],
    ids=["burst", "less than a class may have", "borrows"],
)
def test_a_class_above_of_which_its_record_cannot_tell_is_tcs(above: dict[str, int]) -> None:
    gold = {"rate": 10**7, "ceil": 4 * 10**7}
    assert (
        qos_of(classed("htb", "rest", all=(None, above), gold=("all", gold), rest=("all", gold)), None)
        is None
    )


def test_curves_of_queues_without_a_class_above_them_are_bounded_by_their_own_limits_alone() -> None:
    curves = {"rt_m2": 10**7, "ls_m2": 10**7, "ul_m2": 2 * 10**7}
    qos = qos_of(classed("hfsc", "rest", gold=(None, curves), rest=(None, curves)), None)
    assert qos is not None
    assert qos.config == {"max-rate": 4 * 10**7}


def test_a_ports_rate_counts_what_a_wire_adds_to_a_frame_at_an_open_vswitch_too() -> None:
    host = "queue: {kind: htb, by: kernel, rate: 20 Mbit/s}, port_rate: 20 Mbit/s, vswitch: "
    for kind in ("linux_bridge", "ovs-netdev"):
        operations = at_port(planned(host + kind), "h1.g1.eth0")
        told = [
            tuple(op.discipline.options[key] for key in ("rate_bit_per_s", "overhead_bytes"))
            for op in operations
            if isinstance(op, ClassAdd)
        ]
        assert told == [(20_000_000, 24), (20_000_000, 0)]


def test_a_rate_that_open_vswitch_would_cut_to_the_ports_is_tcs_and_stays_as_it_is() -> None:
    queue = "queue: {kind: htb, by: kernel, rate: 50 Mbit/s}, port_rate: 20 Mbit/s, vswitch: ovs-netdev"
    plan = planned(queue)
    bridge = lower(as_built(plan, "soft_switch")).vswitches["h1.br"]
    assert bridge.port("h1.g1.eth0").qos == LEFT_ALONE
    rates = [
        op.discipline.options["rate_bit_per_s"]
        for op in at_port(plan, "h1.g1.eth0")
        if isinstance(op, ClassAdd)
    ]
    assert rates == [20_000_000, 50_000_000], "the port's, and the queue's inside"


@pytest.mark.parametrize("arp", ["static", "live"])
@pytest.mark.parametrize("vswitch", ["ovs-netdev", "ovs-kernel"])
def test_frames_find_their_queue_by_openflow_only_where_rules_can_name_the_port_behind_which_an_address_is(
    vswitch: str, arp: str
) -> None:
    host = f"queue: {{kind: htb, by: kernel, {CLASSES}}}, vswitch: {vswitch}"
    plan = planned_text(FILE.format(host=host) + f"network: {{arp: {arp}}}\n")
    bridge = lower(as_built(plan, "kernel")).vswitches["h1.br"]
    qos = bridge.port("h1.g1.eth0").qos
    assert qos is not None
    assert qos.kind == "linux-htb"
    by_tc = {op.target for op in bridge.afterwards if isinstance(op, FilterAdd)}
    by_openflow = [rule for rule in rules(bridge) if "set_queue:1," in rule]
    if (vswitch, arp) == ("ovs-kernel", "static"):
        assert (bool(by_openflow), by_tc) == (True, set())
    else:
        assert (by_openflow, by_tc) == ([], {"1:2"})


def test_the_interval_of_fq_codel_is_the_kernels_and_not_open_vswitchs() -> None:
    qos = qos_of(Queue(kind="fq_codel"), None)
    assert qos is not None
    assert (qos.config["interval"], qos.config["target"]) == (100_000, 5_000)
    assert LEFT_ALONE.queues == ()


def test_the_mean_wait_is_the_backlog_over_time_per_packet() -> None:
    queue = lower(planned("queue: {kind: fifo, by: kernel}")).queues["h1.g1.eth0", "ab"]
    waiting = Waiting()
    waiting.take(
        {
            "t_ns": np.array([0, 10, 20, 0]),
            "entity": np.array([f"{queue.namespace}/{queue.link}"] * 3 + ["host:h1/other"], dtype=object),
            "metric": np.array(["backlog_packets"] * 4, dtype=object),
            "value": np.array([0.0, 4.0, 1.0, 9.0]),
        }
    )
    rows = {
        (mark, name): value for _, mark, _, name, value in waiting.rows({("h1.g1.eth0", "ab"): queue}, 0, 30)
    }
    assert rows["end", "residence_ns"] - rows["begin", "residence_ns"] == 4 * 10 + 1 * 10
    assert rows["end", "backlog_max_packets"] == 4
    assert Waiting().rows({("h1.g1.eth0", "ab"): queue}, 0, 30) == [], (
        "what was not sampled is missing, not zero"
    )


class Sink:
    """Keeps what the probe measured."""

    def __init__(self) -> None:
        self.rtt_ns: list[int] = []

    def block(self, stream: str, schema: str, columns: Any) -> None:
        if schema == "rtt/1":
            self.rtt_ns += (columns["received_ns"] - columns["sent_ns"]).tolist()

    def event(self, event: Any) -> None: ...

    def artefact(self, name: str, chunks: Any) -> None: ...


def simulated_rtt_ns(host: str) -> int:
    plan, sink = planned(host), Sink()
    assert Simulator().check(plan) == []
    with Simulator().open(plan, Unobserved()) as session:
        assert session.run(Trial("t0", 1), sink).status == "ok"
    (rtt_ns,) = set(sink.rtt_ns)
    return rtt_ns


@pytest.mark.slow
def test_a_simulated_port_holds_a_frame_for_its_time_at_the_ports_rate() -> None:
    without = simulated_rtt_ns("platform: namespace")
    # 100 B of IP packet are 126 octets from preamble to FCS: 100.8 us at 10 Mbit/s, at two ports, there and back.
    paced = simulated_rtt_ns("queue: {kind: fifo}, port_rate: 10 Mbit/s")
    assert paced - without == 4 * 126 * 8 * 100
    assert simulated_rtt_ns("queue: {kind: fifo}") - without < 100
    # A token bucket has its burst at hand, so a lone frame does not wait for it.
    assert simulated_rtt_ns("queue: {kind: tbf, rate: 1 Mbit/s, burst: 3 kB}") - without < 100
