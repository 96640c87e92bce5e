"""The virtual-switches study is whole: forms, disciplines and places, references, one wire for all that is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.shipped import shipped

from virtlab.experiment import Experiment
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import guest_ports
from virtlab.simulator import Simulator
from virtlab.testbed.build import fabric
from virtlab.testbed.build import ports as port_queues

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "virtual-switches"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name not in {"figures.yaml", "statements.yaml"})
DISCIPLINES = ("fifo", "sfq", "codel", "fq_codel", "htb", "hfsc")


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: shipped(path) for path in FILES}


@pytest.mark.slow
def test_the_study_has_its_forms_and_each_has_claims(experiments: dict[str, Experiment]) -> None:
    forms = {
        "quick.yaml",
        "full.yaml",
        "full-machines.yaml",
        "published.yaml",
        "native.yaml",
        "machines.yaml",
        "kernel.yaml",
        "native-kernel.yaml",
        "native-published.yaml",
        "ends.yaml",
        "packets.yaml",
        "packets-kernel.yaml",
        "first-packets.yaml",
        "first-packets-kernel.yaml",
    }
    assert forms <= set(experiments)
    assert all(experiment.claims for experiment in experiments.values())
    assert len({experiment.name for experiment in experiments.values()}) == len(experiments)


@pytest.mark.slow
def test_six_disciplines_on_every_virtual_switch_of_the_source(experiments: dict[str, Experiment]) -> None:
    for name in (
        "quick.yaml",
        "full.yaml",
        "full-machines.yaml",
        "published.yaml",
        "machines.yaml",
        "native.yaml",
        "native-kernel.yaml",
        "kernel.yaml",
    ):
        assert experiments[name].factors["qdisc"] == DISCIPLINES, name
    assert experiments["published.yaml"].factors["platform"] == ("container", "qemu")
    assert experiments["published.yaml"].factors["vswitch"] == ("linux_bridge", "ovs-kernel")
    assert experiments["kernel.yaml"].factors["vswitch"] == ("linux_bridge", "ovs-kernel")
    assert experiments["full-machines.yaml"].factors["platform"] == ("container", "qemu")
    for pair in ("packets", "first-packets"):
        kinds = [
            {
                vswitch.kind
                for point in form.points()
                for vswitch in plan_run(form, point, 0).world.vswitches.values()
            }
            for form in (experiments[f"{pair}.yaml"], experiments[f"{pair}-kernel.yaml"])
        ]
        assert kinds == [{"linux_bridge", "ovs-netdev"}, {"linux_bridge", "ovs-kernel"}]


@pytest.mark.slow
def test_the_published_tests_are_the_sources(experiments: dict[str, Experiment]) -> None:
    published = experiments["published.yaml"]
    assert published.repeat.minimum == 100
    roles = published.study(published.points()[0]).roles
    assert set(roles) == {"rr", "stream", "udp"}
    stream = roles["stream"].parameters
    assert (stream["duration_ns"], stream["message_bytes"]) == (10 * 10**9, 256)
    assert (stream["send_buffer_bytes"], stream["receive_buffer_bytes"]) == (32_768, 32_768)
    assert (roles["rr"].parameters["request_bytes"], roles["rr"].parameters["response_bytes"]) == (1, 1)
    # 95 Mbit/s of 1470 B payload, as the tool counts them; the rate is of IP packets, 28 B more each.
    assert roles["udp"].parameters["rate_bit_per_s"] == pytest.approx(95e6 * 1498 / 1470, rel=1e-4)


@pytest.mark.slow
def test_the_published_discipline_is_the_kernels_at_the_port_towards_the_guest(
    experiments: dict[str, Experiment],
) -> None:
    published = experiments["published.yaml"]
    for point in published.points():
        world = plan_run(published, point, 0).world
        for guest in world.guests.values():
            queue = guest.vnics["eth0"].queue
            assert queue is not None
            assert (queue.kind, queue.by) == (point.levels["qdisc"], "kernel")
        assert {link.queue.ab.kind for link in world.links.values()} == {"fifo"}


def test_udp_at_95_mbit_per_s_fills_the_wire_as_the_page_says() -> None:
    wire_octets, payload_bytes = 1470 + 8 + 20 + 14 + 4 + 8 + 12, 1470
    assert wire_octets == 1536
    assert round(95 * wire_octets / payload_bytes, 1) == 99.3
    assert "99.3 %" in (STUDY / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("automatic", ["netem", "soft_switch", "kernel"])
@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_no_form_compares_across_realisations(
    name: str, automatic: str, experiments: dict[str, Experiment]
) -> None:
    """On a kernel with everything (`netem`), on one without it, and in the laboratory machine (`kernel`)."""
    links, ports = set(), set()
    for point in experiments[name].points():
        plan = plan_run(experiments[name], point, 0)
        links |= set(fabric.realisations(plan, automatic).values())
        switched = port_queues.in_switch(plan, automatic)
        ports |= {switched(vnic) for _, _, vnic in guest_ports(plan)}
    assert len(links) == (0 if "packets" in name else 1), "who holds the links"
    assert len(ports) <= 1, "who queues at the ports towards guests"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "form", "levels", "longer"),
    [
        ("native.yaml", "quick.yaml", {}, False),
        ("native.yaml", "machines.yaml", {}, False),
        ("native.yaml", "full-machines.yaml", {}, True),
        ("native-kernel.yaml", "full.yaml", {}, False),
        ("native-published.yaml", "published.yaml", {"form": "published"}, False),
        ("native-published.yaml", "kernel.yaml", {"form": "kernel"}, False),
    ],
)
def test_every_form_has_a_native_reference_with_the_same_tests_on_the_same_links(
    reference: str, form: str, levels: dict[str, str], longer: bool, experiments: dict[str, Experiment]
) -> None:
    native, other = experiments[reference], experiments[form]
    checked = 0
    for here in native.points():
        if any(here.levels[factor] != level for factor, level in levels.items()):
            continue
        for there in other.points():
            if any(
                there.levels[factor] != here.levels[factor]
                for factor in here.levels.keys() & there.levels.keys()
            ):
                continue
            plans = plan_run(native, here, 0), plan_run(other, there, 0)
            assert {guest.platform for guest in plans[0].world.guests.values()} == {"native"}
            links = [{link.rate_bit_per_s for link in plan.world.links.values()} for plan in plans]
            assert links[0] == links[1]
            for automatic in ("netem", "soft_switch", "kernel"):
                held = [set(fabric.realisations(plan, automatic).values()) for plan in plans]
                assert held[0] == held[1], automatic
            offloads = [
                {vnic.offloads for guest in plan.world.guests.values() for vnic in guest.vnics.values()}
                for plan in plans
            ]
            assert offloads[0] == offloads[1]
            assert measured(plans[0], longer) == measured(plans[1], longer)
            checked += 1
    assert checked >= 6


def measured(plan: Plan, without_length: bool) -> dict[str, dict[str, Any]]:
    """Parameters of all that measures; those that say how long it lasts only where they are to be equal."""
    length = {"duration_ns", "count"} if without_length else set()
    return {
        name: {key: value for key, value in role.parameters.items() if key not in length}
        for name, role in plan.roles.items()
        if name not in {"bulk", "heavy"}
    }


@pytest.mark.slow
def test_each_end_queues_by_its_own_discipline(experiments: dict[str, Experiment]) -> None:
    ends = experiments["ends.yaml"]
    seen = set()
    for point in ends.points():
        links = plan_run(ends, point, 0).world.links
        kinds = links["h1-s1"].queue.ab.kind, links["s1-h2"].queue.ba.kind
        assert kinds == (point.levels["sender"], point.levels["receiver"])
        seen.add(kinds)
    assert len(seen) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_every_form_can_be_simulated(name: str, experiments: dict[str, Experiment]) -> None:
    experiment = experiments[name]
    for point in experiment.points():
        assert Simulator().check(plan_run(experiment, point, 0)) == []
