"""Who queues on a host that does not say: by platform and switch, alike over a file, and as its dataset began."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.experiment import Experiment, load_text
from virtlab.planner import plan_run
from virtlab.planner.queues.default_pushback import default_pushback, keep_pushback
from virtlab.results import Dataset, RunRecord

CORPUS = Path(__file__).parents[2] / "golden/corpus"
ROLE = "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"
LINE = "topology: line\nlink: {rate: 10 Mbit/s}\n"


def experiment_of(text: str) -> Experiment:
    return load_text("version: 1\nname: t\n" + text + ROLE)


def pushbacks(experiment: Experiment) -> list[str]:
    """Of the first host, by design point."""
    plans = [plan_run(experiment, point, 0) for point in experiment.points()]
    return [plan.world.hosts["h1"].pushback for plan in plans]


@pytest.mark.parametrize("platform", ["namespace", "container", "qemu", "xen"])
@pytest.mark.parametrize("vswitch", VSWITCHES)
def test_each_platform_and_switch_has_one_default(platform: str, vswitch: str) -> None:
    found = pushbacks(experiment_of(f"hosts: 2\nhost: {{platform: {platform}, vswitch: {vswitch}}}\n{LINE}"))
    assert found == ["guest" if vswitch == "ovs-netdev" else "uplink"]


def test_the_page_has_the_defaults_of_the_declarations() -> None:
    page = (CORPUS.parents[2] / "docs/explanation/faithful-links.md").read_text()
    told = dict(re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", page, re.MULTILINE))
    assert {name: told.get(name) for name in VSWITCHES} == {
        name: vswitch.pushback for name, vswitch in VSWITCHES.items()
    }
    (behind,) = re.findall(r"^\| guests behind \| (.+) \|$", page, re.MULTILINE)
    measured = {
        name
        for name, platform in PLATFORMS.items()
        if platform.pushback == "uplink" and not platform.agentless
    }
    assert set(re.findall(r"`(\S+)`", behind)) == measured


def test_platforms_behind_no_switch_share_nothing() -> None:
    alone = {name for name, platform in PLATFORMS.items() if platform.pushback == "guest"}
    assert alone == {name for name, platform in PLATFORMS.items() if not platform.vswitch}


@pytest.mark.parametrize(
    "rest",
    [
        "host: {guests: 2}\nlink: {queue: fq_codel}\n",
        "host: {guests: 2, queue: codel, queue_at: uplink}\n",
        "host: {guests: 2, queue: {kind: fifo, limit: 10 packets}}\n",
        "host: {guests: 2, port_rate: 5 Mbit/s}\n",
    ],
)
def test_another_discipline_and_ports_that_queue_are_not_put_behind_a_shared_queue(rest: str) -> None:
    assert pushbacks(experiment_of(f"hosts: 2\ntopology: line\n{rest}")) == ["guest"]


def test_a_fifo_of_a_links_own_is_no_other_discipline() -> None:
    text = f"hosts: 2\n{LINE.replace('}', ', queue: {kind: fifo, limit: 20 packets}}')}"
    assert pushbacks(experiment_of(text)) == ["uplink"]


def test_a_factor_changes_no_second_thing() -> None:
    """One level that cannot share keeps all from it; what a host says itself stays."""
    text = 'factors: {vswitch: [linux_bridge, ovs-netdev]}\nhosts: {h1: {%s}, h2: {}}\nhost: {vswitch: "${vswitch}"}\n'
    assert pushbacks(experiment_of(text % "" + LINE)) == ["guest", "guest"]
    assert pushbacks(experiment_of(text % "pushback: uplink" + LINE)) == ["uplink", "uplink"]


def test_a_host_that_only_forwards_has_the_links_own_queues() -> None:
    text = """
hosts:
  h1: {platform: native}
  r: {guests: {f: {vswitches: [br0, br1], forwarding: layer3}}, vswitches: {br0: {}, br1: {}}}
  h2: {}
links:
  l0: {ends: [h1, r.br0], rate: 10 Mbit/s}
  l1: {ends: [r.br1, h2], rate: 10 Mbit/s}
"""
    experiment = experiment_of(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert {name: host.pushback for name, host in plan.world.hosts.items()} == {
        "h1": "guest", "r": "guest", "h2": "uplink",
    }  # fmt: skip


def planned_again(experiment: Experiment, record: RunRecord) -> str:
    point = experiment.points()[record.point]
    return plan_run(experiment, point, record.repetition).identity()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_a_dataset_of_before_the_choice_keeps_its_plans(name: str) -> None:
    """The vNICs of its guests held back their senders, and a run that is added to it has the Plan it always had."""
    with Dataset.open(CORPUS / name / "dataset") as dataset:
        experiment, records = load_text(dataset.experiment_text), dataset.runs()
        assert {host.pushback for record in records for host in record.plan.world.hosts.values()} == {"guest"}
        fresh = [planned_again(experiment, record) for record in records]
        keep_pushback(experiment, ((record.point, record.plan) for record in records))
        kept = [planned_again(experiment, record) for record in records]
    recorded = [record.plan_identity for record in records]
    assert kept == recorded
    assert default_pushback(experiment) == "guest" or name == "deadlines-testbed"  # that has no wire
    changes = name in {"guests-testbed", "imported", "search-simulator", "search-testbed-killed"}
    assert (fresh != recorded) == changes  # its file, begun today, would share the queue
