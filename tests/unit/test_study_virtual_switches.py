"""The virtual-switches study is whole: forms, disciplines and places, the published tests, claims from the tables."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from virtlab.experiment import Experiment, load
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "experiments" / "virtual-switches"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name != "figures.yaml")
DISCIPLINES = ("fifo", "sfq", "codel", "fq_codel", "htb", "hfsc")


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: load(path) for path in FILES}


def test_the_study_has_its_forms_and_each_has_claims(experiments: dict[str, Experiment]) -> None:
    forms = {
        "quick.yaml",
        "full.yaml",
        "full-machines.yaml",
        "published.yaml",
        "native.yaml",
        "machines.yaml",
        "kernel.yaml",
    }
    assert forms <= set(experiments)
    assert all(experiment.claims for experiment in experiments.values())
    assert len({experiment.name for experiment in experiments.values()}) == len(experiments)


def test_six_disciplines_on_every_virtual_switch_of_the_source(experiments: dict[str, Experiment]) -> None:
    for name in (
        "quick.yaml",
        "full.yaml",
        "full-machines.yaml",
        "published.yaml",
        "machines.yaml",
        "native.yaml",
        "kernel.yaml",
    ):
        assert experiments[name].factors["qdisc"] == DISCIPLINES, name
    assert experiments["published.yaml"].factors["platform"] == ("container", "qemu")
    assert experiments["published.yaml"].factors["vswitch"] == ("linux_bridge", "ovs-kernel")
    assert experiments["kernel.yaml"].factors["vswitch"] == ("linux_bridge", "ovs-kernel")
    assert experiments["full-machines.yaml"].factors["platform"] == ("container", "qemu")


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


def test_orderings_that_are_claimed_are_those_of_the_tables(experiments: dict[str, Experiment]) -> None:
    """`A < B where platform = P, vswitch = V` of one discipline against another holds in the printed means."""
    with (ROOT / "published" / "ovs_scheduling.csv").open(newline="") as table:
        printed = {
            (row["table"], row["platform"], row["bridge"], row["qdisc"].lower().replace("-", "_")): float(
                row["value"]
            )
            for row in csv.DictReader(table)
        }
    checked = 0
    for claim in experiments["published.yaml"].claims:
        found = re.search(
            r": qdisc (\w+) ([<>]) (\w+) where platform = qemu, vswitch = ([\w-]+)$", claim.text
        )
        if found is None:
            continue
        assert claim.published is not None
        bridge = {"linux_bridge": "Linux bridge", "ovs-kernel": "Open vSwitch"}[found[4]]
        one, other = (printed[claim.published["where"]["table"], "KVM", bridge, found[at]] for at in (1, 3))
        assert one != other, claim.text
        assert (one < other) == (found[2] == "<"), claim.text
        checked += 1
    assert checked >= 15


def test_what_the_source_says_of_open_vswitch_is_judged_on_its_kernel_datapath_only(
    experiments: dict[str, Experiment],
) -> None:
    """A claim with a published number beside it compares or names `ovs-kernel`, or is of the bridge alone."""
    judged = 0
    for name, experiment in experiments.items():
        for claim in experiment.claims:
            if claim.published is None:
                continue
            assert "ovs-netdev" not in claim.text, f"{name}: {claim.text}"
            if "ovs-netdev" in experiment.factors.get("vswitch", ()):
                assert "vswitch = linux_bridge" in claim.text, f"{name}: {claim.text}"
            judged += "ovs-kernel" in claim.text
    assert judged >= 20


def test_published_orderings_of_the_virtual_switches_are_those_of_the_tables(
    experiments: dict[str, Experiment],
) -> None:
    """`vswitch A < B` of a platform holds in the printed mean of every discipline that the claim is about."""
    with (ROOT / "published" / "ovs_scheduling.csv").open(newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["table"] in {"Table 3", "Table 4", "Table 5"}]
    bridges = {"linux_bridge": "Linux bridge", "ovs-kernel": "Open vSwitch"}
    checked = 0
    for name in ("kernel.yaml", "published.yaml"):
        for claim in experiments[name].claims:
            found = re.search(r": vswitch ([\w-]+) ([<>]) ([\w-]+)", claim.text)
            if found is None or claim.published is None:
                continue
            where = claim.published["where"]
            mean: dict[str, list[tuple[str, float]]] = {bridge: [] for bridge in bridges.values()}
            for row in rows:
                kind = row["qdisc"].lower().replace("-", "_")
                asked = re.search(r"qdisc (!?=) (\w+)", claim.text)
                wanted = asked is None or (kind == asked[2]) == (asked[1] == "=")
                if wanted and (row["table"], row["platform"]) == (where["table"], where["platform"]):
                    mean[row["bridge"]].append((kind, float(row["value"])))
            one, other = (dict(mean[bridges[found[at]]]) for at in (1, 3))
            assert set(one) == set(other) != set()
            sums = sum(one.values()), sum(other.values())
            assert sums[0] != sums[1]
            assert (sums[0] < sums[1]) == (found[2] == "<"), f"{name}: {claim.text}"
            checked += 1
    assert checked >= 9


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_every_form_can_be_simulated(name: str, experiments: dict[str, Experiment]) -> None:
    experiment = experiments[name]
    for point in experiment.points():
        assert Simulator().check(plan_run(experiment, point, 0)) == []
