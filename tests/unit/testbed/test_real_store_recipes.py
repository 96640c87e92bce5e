"""What the recipes of Swift and Gluster tell their guests, and where they are refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.testbed.services import gluster_program, installed, swift, swift_program
from virtlab.testbed.services.service import services

FILE = """
version: 1
name: real
hosts: {{h1: {{guests: {{client: {disk}, proxy: {{}}, n1: {disk}, n2: {disk}, n3: {disk}, n4: {disk}}}}}}}
services: {{depot: {service}}}
roles: {{load: {{workload: {workload}, from: h1.client, operations: create, {more}}}}}
"""
DISK = "{disk: {size: 64 MiB}}"
SWIFT = "{kind: swift, on: [h1.n1, h1.n2, h1.n3, h1.n4], proxies: h1.proxy%s}"
GLUSTER = "{kind: gluster, on: [h1.n1, h1.n2, h1.n3, h1.n4], clients: h1.client%s}"
SIMULATED = "the simulator does not play %s: a simulated guest runs no programs; write 'kind: store' with '%s"


def planned(service: str, disk: str = DISK) -> Plan:
    of_files = "gluster" in service
    workload, more = ("files", "directory: /var/tmp/depot") if of_files else ("objects", "to: depot")
    experiment = load_text(FILE.format(service=service, disk=disk, workload=workload, more=more))
    return plan_run(experiment, experiment.points()[0], 0)


def mistakes(service: str) -> str:
    with pytest.raises(FileMistakesError) as caught:
        planned(service)
    return str(caught.value)


def refused(plan: Plan) -> list[tuple[str, str, str]]:
    service = plan.world.services["depot"]
    found = services.of(service.kind).of_world(plan, "depot", service)
    return [(each.path, each.reason, each.cure) for each in found]


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.os, "geteuid", lambda: 0)
    monkeypatch.setattr(installed.shutil, "which", lambda program, path: f"/usr/bin/{program}")
    monkeypatch.setattr(swift, "kernel", lambda: (6, 12))


@pytest.mark.parametrize(
    ("service", "said"),
    [
        (SWIFT % ", copies: 5", "there are 4 nodes; write at most 4"),
        (SWIFT % ", zones: 5", "each zone has a node; write at most 4"),
        (SWIFT % ", part_power: 17", "write at most 16"),
        (SWIFT % ", interval: 5 s", "no replicator runs; write how much it does at once"),
        (SWIFT.replace("h1.proxy", "h1.n1") % "", "h1.n1 is a node; name another guest"),
        (SWIFT.replace(", proxies: h1.proxy", "") % "", "'proxies' of swift is missing"),
        (GLUSTER % ", copies: 3", "4 nodes are no whole number of groups of 3"),
        (GLUSTER.replace("h1.client", "h1.n1") % "", "h1.n1 is a node; name another guest"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_cure(service: str, said: str) -> None:
    assert said in mistakes(service)


def test_an_ordinary_user_is_told_that_root_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.os, "geteuid", lambda: 1000)
    ((_, why, cure),) = refused(planned(SWIFT % ""))
    assert why.startswith("it needs root")
    assert "kind: store" in cure
    ((_, why, cure),) = refused(planned(GLUSTER % ""))
    assert why.startswith("it needs root")
    assert "'files'" in cure


def test_one_line_names_all_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.os, "geteuid", lambda: 0)
    monkeypatch.setattr(installed.shutil, "which", lambda program, path: None)
    monkeypatch.setattr(swift, "kernel", lambda: (6, 12))
    packages = "swift-proxy swift-account swift-container swift-object memcached"
    assert [cure for _, _, cure in refused(planned(SWIFT % ""))] == [f"apt-get install {packages}"]
    packages = "glusterfs-server glusterfs-cli glusterfs-client"
    assert [cure for _, _, cure in refused(planned(GLUSTER % ""))] == [f"apt-get install {packages}"]


@pytest.mark.usefixtures("as_root")
def test_nodes_need_disks_and_swift_a_kernel_with_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(planned(SWIFT % "")) == refused(planned(GLUSTER % "")) == []
    assert len(refused(planned(SWIFT % "", disk="{}"))) == 4
    assert len(refused(planned(GLUSTER % "", disk="{}"))) == 5
    monkeypatch.setattr(swift, "kernel", lambda: (6, 1))
    assert [why for _, why, _ in refused(planned(SWIFT % ""))] == [
        "Swift needs attributes of files, which disks in memory have since Linux 6.6"
    ]


@pytest.mark.parametrize(
    ("service", "kind", "instead"),
    [(SWIFT % "", "swift", "lookup: ring'"), (GLUSTER % "", "gluster", "lookup: elastic_hash'")],
)
def test_the_simulator_refuses_a_real_store_and_names_what_it_plays(
    service: str, kind: str, instead: str
) -> None:
    said = [f"{each.reason}; {each.cure}" for each in Simulator().check(planned(service))]
    assert any(SIMULATED % (kind, instead) in each for each in said), said


def test_each_guest_is_told_the_same_of_a_swift() -> None:
    plan = planned(SWIFT % ", zones: 2, workers: 3, concurrency: 2, interval: 5 s")
    service = plan.world.services["depot"]
    invocation = services.of("swift").invocation("depot", service, plan.world.guests["h1.n1"])
    assert invocation.peers == ("h1.n1", "h1.n2", "h1.n3", "h1.n4", "h1.proxy")
    assert (invocation.user, invocation.trusted) == ("swift", False)
    told = json.loads(invocation.before[2])
    assert told["replicator"] == {"concurrency": 2, "interval_s": 5}
    assert (told["nodes"], told["zones"], told["copies"], told["workers"]) == (4, 2, 3, 3)


def test_only_gluster_is_trusted() -> None:
    plan = planned(GLUSTER % "")
    service = plan.world.services["depot"]
    invocation = services.of("gluster").invocation("depot", service, plan.world.guests["h1.n1"])
    assert invocation.trusted
    told = json.loads(invocation.before[2])
    assert (told["volume"], told["folder"], told["copies"]) == ("depot", "/var/tmp/depot", 2)


class Builder:
    """Stands for Swift's own, and keeps what it was told."""

    made: ClassVar[list[Builder]] = []

    def __init__(self, *parameters: int) -> None:
        self.parameters, self.saved = parameters, ""
        self.devices: list[dict[str, Any]] = []
        self.seeds: list[int] = []
        Builder.made.append(self)

    def add_dev(self, device: dict[str, Any]) -> None:
        self.devices.append(device)

    def rebalance(self, seed: int) -> None:
        self.seeds.append(seed)

    def get_ring(self) -> Builder:
        return self

    def save(self, path: str) -> None:
        self.saved = path


def test_nodes_are_dealt_into_zones_in_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Builder, "made", [])
    monkeypatch.setattr(swift_program, "import_module", lambda _: SimpleNamespace(RingBuilder=Builder))
    told = {"nodes": 5, "zones": 2, "part_power": 9, "copies": 3}
    addresses = [f"10.0.0.{number}" for number in range(1, 7)]  # the last is a proxy's
    swift_program.build_rings(told, addresses, tmp_path)
    assert [Path(each.saved).name for each in Builder.made] == [
        "object.ring.gz",
        "container.ring.gz",
        "account.ring.gz",
    ]
    for each in Builder.made:
        assert each.parameters == (9, 3, 0)
        assert [device["ip"] for device in each.devices] == addresses[:5]
        assert Counter(device["zone"] for device in each.devices) == {1: 3, 2: 2}
        assert each.seeds == [swift_program.SEED]


def test_servers_of_a_node_listen_at_their_ports_and_have_a_replicator_where_asked(tmp_path: Path) -> None:
    told = {"devices": str(tmp_path / "own"), "user": "swift", "workers": 0, "replicator": None}
    begun = swift_program.begin_node(told, "10.0.0.1", tmp_path)
    assert [words[0] for words in begun] == [
        "swift-object-server",
        "swift-container-server",
        "swift-account-server",
    ]
    ports = [
        re.search(r"bind_port = (\d+)", Path(words[1]).read_text())[1]  # type: ignore[index]
        for words in begun
    ]
    assert [int(port) for port in ports] == list(swift_program.PORTS.values())
    told["replicator"] = {"concurrency": 4, "interval_s": 7}
    begun = swift_program.begin_node(told, "10.0.0.1", tmp_path)
    assert "swift-object-replicator" in [words[0] for words in begun]
    assert "concurrency = 4\ninterval = 7" in (tmp_path / "object-server.conf").read_text()


def test_both_programs_say_a_line_that_tells_them_apart() -> None:
    assert swift_program.READY != gluster_program.READY
