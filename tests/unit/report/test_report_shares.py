"""A report of guests that are machines in some settings and none in others says so, and sets no share of one kind
beside the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.changes import Margins, differences
from virtlab.experiment import load_text
from virtlab.report.gather.contrasts.baseline import baseline_of
from virtlab.report.gather.contrasts.bounds import with_other_datasets
from virtlab.report.gather.dataset import gather
from virtlab.report.gather.gathered import Gathered
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: shares
factors: {{{platform}load: [50 request/s, 100 request/s]}}
hosts:
  h1:
    pools: {{cores: {{cpus: 2}}, others: {{cpus: 1}}}}
    {vcpus}
    guests: {{app: {{platform: {of}, pool: cores}}, clients: {{platform: namespace, pool: others}}}}
services: {{app: {{kind: demand_server, on: h1.app, demand: 4 ms, threads: 2}}}}
roles:
  clients: {{workload: request_response, from: h1.clients, to: app, rate: "${{load}}", connections: 8, duration: 1 s}}
collect: {{series: {{guest.cpu: 200 ms}}}}
repeat: 3
claims:
  - "guests.h1.app.cpu_share.mean grows with load"
"""
MIXED = FILE.format(
    platform="platform: {namespace: {kind: namespace, vcpus: null}, qemu: {kind: qemu, vcpus: 2}}, ",
    of='"${platform.kind}"',
    vcpus='vcpus: "${platform.vcpus}"',
)


def made(place: Path, text: str) -> Dataset:
    experiment = load_text(text)
    with Dataset.create(place, text, name="shares", seed=experiment.seed, backend="simulator") as dataset:
        run_campaign(experiment, dataset, Simulator(), CampaignObserver())
    return Dataset.open(place)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("shares")
    texts = {
        "mixed": MIXED,
        "namespace": FILE.format(platform="", of="namespace", vcpus=""),
        "qemu": FILE.format(platform="", of="qemu", vcpus="vcpus: 2"),
    }
    return {name: made(folder / f"{name}.results", text) for name, text in texts.items()}


@pytest.fixture(scope="module")
def gathered(datasets: dict[str, Dataset]) -> dict[str, Gathered]:
    return {name: gather(dataset, curves=False) for name, dataset in datasets.items()}


@pytest.mark.slow
def test_a_report_of_both_says_at_which_levels_guests_have_vcpus(gathered: dict[str, Gathered]) -> None:
    (note,) = [one for one in gathered["mixed"].notes if "not compared as numbers of vCPUs" in one]
    assert "machines with platform qemu and have vCPUs; with platform namespace they are not" in note
    assert "guests.h1.app" in note
    for alone in ("namespace", "qemu"):
        assert not [one for one in gathered[alone].notes if "vCPUs" in one]
    of = {
        one.quantity.role: one.quantity
        for one in gathered["mixed"].results
        if one.quantity.metric == "cpu_share"
    }
    assert "vCPUs in some settings" in of["guests.h1.app"].qualifier
    assert of["pools.h1.cores"].qualifier == ""


@pytest.mark.slow
def test_other_datasets_are_set_beside_but_for_such_shares(gathered: dict[str, Gathered]) -> None:
    found, _ = with_other_datasets(gathered["namespace"], [("qemu", gathered["qemu"])], {})
    paths = {one.quantity.path for one in found.comparisons}
    assert "clients.response_time.mean" in paths
    assert "pools.h1.cores.cpu_share.mean" in paths
    assert "guests.h1.app.cpu.mean" in paths
    assert "guests.h1.app.cpu_share.mean" not in paths
    (note,) = [one for one in found.notes if "is not set beside" in one]
    assert note.startswith("cpu_share of guests.h1.app in simulated")
    again, _ = with_other_datasets(gathered["qemu"], [("again", gathered["qemu"])], {})
    assert "guests.h1.app.cpu_share.mean" in {one.quantity.path for one in again.comparisons}


@pytest.mark.slow
def test_compare_leaves_such_shares_out(datasets: dict[str, Dataset], gathered: dict[str, Gathered]) -> None:
    path = "guests.h1.app.cpu_share.mean"
    lines = {name: baseline_of(datasets[name], gathered[name], every=True, paths=[path]) for name in datasets}
    found = differences(lines["namespace"], lines["qemu"], Margins())
    assert path not in {one.path for one in found.rows}
    assert "clients.response_time.mean" in {one.path for one in found.rows}
    assert any(
        f"{path} at load 50 request/s is not compared: it was a share of processors" in one
        for one in found.notes
    )
    same = differences(lines["mixed"], lines["mixed"], Margins())
    assert len([one for one in same.rows if one.path == path]) == 4
