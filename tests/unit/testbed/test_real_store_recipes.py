"""What the recipes of Swift and Gluster tell their guests, and where they are refused."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from virtlab.errors import GuestError
from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.testbed.services import (
    gluster,
    gluster_program,
    installed,
    recovery_program,
    swift,
    swift_program,
)
from virtlab.testbed.services.operations import Doing
from virtlab.testbed.services.service import Invocation, services
from virtlab.testbed.services.services import Services

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


def planned(service: str, disk: str = DISK, directory: str = "/var/tmp/depot") -> Plan:
    of_files = "gluster" in service
    workload, more = ("files", f"directory: {directory}") if of_files else ("objects", "to: depot")
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
        (SWIFT % ", interface: s4", "'s4' is not one of swift, s3"),
        (
            SWIFT % ", access_key: 'a:b'",
            "neither signed nor bear a token; write 'interface: s3' or 'auth: tempauth', or remove it",
        ),
        (
            SWIFT % ", interface: s3, auth: tempauth",
            "requests of S3 are signed, and bear no token; write 'interface: swift'",
        ),
        (GLUSTER % ", access: smb", "'smb' is not one of fuse, nfs"),
        (SWIFT % ", interface: s3, access_key: ab", "'ab' is not an account and a user"),
        (SWIFT % ", interface: s3, secret_key: 'a b'", "a secret key has 1 to 128 letters, digits"),
        (SWIFT.replace("h1.proxy", "h1.n1") % "", "h1.n1 is a node; name another guest"),
        (SWIFT.replace(", proxies: h1.proxy", "") % "", "'proxies' of swift is missing"),
        (GLUSTER % ", copies: 3", "4 nodes are not a whole number of groups of 3"),
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
    packages = "swift-proxy swift-account swift-container swift-object memcached rsync"
    assert [cure for _, _, cure in refused(planned(SWIFT % ""))] == [f"apt-get install {packages}"]
    packages = "glusterfs-server glusterfs-cli glusterfs-client"
    assert [cure for _, _, cure in refused(planned(GLUSTER % ""))] == [f"apt-get install {packages}"]


@pytest.mark.slow
@pytest.mark.usefixtures("as_root")
def test_in_containers_the_programs_are_those_of_an_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in swift.PACKAGES:
        (tmp_path / "usr/bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/bin" / program).touch()
    monkeypatch.setattr(installed, "find_rootfs", lambda _: tmp_path)

    def of_guests(kind: str, image: str) -> list[str]:
        plan = planned(kind % "", disk=f"{{platform: container{image}, disk: {{size: 64 MiB}}}}")
        service = plan.world.services["depot"]
        guests = [plan.world.guests[name] for name in service.on]
        found = [
            each for guest in guests for each in services.of(service.kind).refusals("at", service, guest)
        ]
        return [each.reason for each in found] + [why for _, why, _ in refused(plan)]

    assert of_guests(SWIFT, ", image: swift") == []
    assert set(of_guests(SWIFT, "")) == {"a container without 'image' has no programs of packages"}
    (tmp_path / "usr/bin/rsync").unlink()
    assert of_guests(SWIFT, ", image: swift") == ["the image 'swift' has no rsync"]
    assert "CAP_SYS_ADMIN" in of_guests(GLUSTER, ", image: swift")[0]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_bucket_of_s3_needs_a_name_that_is_one(as_root: None) -> None:
    plan = planned(SWIFT % ", interface: s3")
    assert refused(plan) == []
    asked = swift.IMPLEMENTATION.client_parameters(plan, "load", plan.roles["load"])["swift"]
    assert asked["path"] == "/load"
    assert asked["keys"] == {"access_key": "test:tester", "secret_key": "testing", "region": "us-east-1"}
    for folder, bucket in (("Many_files", "many-files"), ("a", "a00"), ("A_", "a00")):
        text = FILE.format(
            service=SWIFT % ", interface: s3",
            disk=DISK,
            workload="objects",
            more=f"to: depot, folder: {folder}",
        )
        experiment = load_text(text)
        ((path, _, cure),) = refused(plan_run(experiment, experiment.points()[0], 0))
        assert (path, cure) == ("roles.load.folder", f"write e.g. 'folder: {bucket}'")


@pytest.mark.slow
def test_roles_of_several_guests_share_a_folder_of_a_swift_one_after_the_other(as_root: None) -> None:
    text = FILE.format(service=SWIFT % "", disk=DISK, workload="objects", more="to: depot, folder: same")
    other = "roles: {other: {workload: objects, from: h1.%s, to: depot, operations: read, folder: same}, "
    text = text.replace("guests: {", "guests: {second: {}, ")
    at_once = "timeline: [{id: load, do: run, role: load}, {id: other, do: run, role: other}]"
    for guest, timeline, folders in (
        ("client", at_once, []),
        ("second", "", []),  # the usual timeline has one role after the other
        ("second", at_once, ["roles.load.folder"]),
    ):
        experiment = load_text(text.replace("roles: {", other % guest) + timeline)
        found = refused(plan_run(experiment, experiment.points()[0], 0))
        assert [path for path, _, _ in found] == folders
    assert found[0][1:] == (
        "load and other may work in one folder at once, from different guests",
        "begin one with 'after' the end of the other, let both be of one guest, or give each a 'folder' of its own",
    )


def test_requests_of_swift_are_not_signed_and_go_to_a_container() -> None:
    plan = planned(SWIFT % "")
    asked = swift.IMPLEMENTATION.client_parameters(plan, "load", plan.roles["load"])["swift"]
    assert (asked["path"], asked["keys"], asked["login"]) == ("/v1/AUTH_virtlab/load", None, None)


@pytest.mark.slow
def test_who_logs_in_is_a_user_of_the_account_that_has_the_objects(as_root: None) -> None:
    plan = planned(SWIFT % ", auth: tempauth, access_key: 'lab:client'")
    assert refused(plan) == []
    asked = swift.IMPLEMENTATION.client_parameters(plan, "load", plan.roles["load"])["swift"]
    assert (asked["path"], asked["keys"]) == ("/v1/AUTH_lab/load", None)
    assert asked["login"] == {"user": "lab:client", "key": "testing"}


@pytest.mark.slow
@pytest.mark.parametrize("client", ["fuse", "nfs"])
def test_a_mount_by_nfs_is_refused_whatever_the_kernel_mounts(
    client: str, as_root: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = tmp_path / "filesystems"
    known.write_text(f"nodev\ttmpfs\nnodev\t{client}\n")
    monkeypatch.setattr(gluster, "FILE_SYSTEMS", known)
    ((path, why, cure),) = refused(planned(GLUSTER % ", access: nfs"))
    assert path == "services.depot.access"
    assert why.startswith("virtlab mounts Gluster's volumes by FUSE alone")
    assert ("mounts no NFS" in why) == (client == "fuse")
    assert cure == "write 'access: fuse', or remove it"


def test_a_proxy_of_s3_checks_signatures_and_no_other_does(tmp_path: Path) -> None:
    told: dict[str, Any] = {"port": 8080, "user": "swift", "workers": 0, "keys": None, "login": None}
    swift_program.begin_proxy(told, "10.0.0.1", tmp_path)
    conf = tmp_path / "proxy-server.conf"
    assert "pipeline = catch_errors cache proxy-server\n" in conf.read_text()
    assert "s3api" not in conf.read_text()
    told["keys"] = {"access_key": "lab:client", "secret_key": "a/b", "region": "us-east-1"}
    told["login"] = {"user": "lab:client", "key": "a/b"}
    swift_program.begin_proxy(told, "10.0.0.1", tmp_path)
    assert "pipeline = catch_errors cache s3api tempauth proxy-server\n" in conf.read_text()
    assert "user_lab_client = a/b .admin\n" in conf.read_text()
    assert "memcache_servers = 127.0.0.1:11211\n" in conf.read_text()


def test_proxies_that_give_tokens_share_their_caches(tmp_path: Path) -> None:
    told = {
        "port": 8080, "user": "swift", "workers": 0, "keys": None, "proxies": ["10.0.0.1", "fd00::2"],
        "login": {"user": "lab:client", "key": "a/b"},
    }  # fmt: skip
    cache, _ = swift_program.begin_proxy(told, "10.0.0.1", tmp_path)
    text = (tmp_path / "proxy-server.conf").read_text()
    assert "pipeline = catch_errors cache tempauth proxy-server\n" in text
    assert "memcache_servers = 10.0.0.1:11211,[fd00::2]:11211\n" in text
    assert cache[1:3] == ["-l", "10.0.0.1"]


def test_the_check_of_a_proxy_is_signed_as_the_documentation_of_aws_says() -> None:
    """'Authenticating Requests (AWS Signature Version 4)': the example of GET Object."""
    keys = {
        "access_key": "AKIAIOSFODNN7EXAMPLE",
        "secret_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "region": "us-east-1",
    }
    fields = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9"}
    found = swift_program.signed(keys, "20130524T000000Z", "GET", "/test.txt", fields, b"")
    assert found["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


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
    for kind in swift_program.PORTS:
        assert f"swift-{kind}-replicator" in [words[0] for words in begun]
        conf = (tmp_path / f"{kind}-server.conf").read_text()
        assert f"[{kind}-replicator]\nconcurrency = 4\ninterval = 7\n" in conf
        assert (f"rsync_module = rsync://{{replication_ip}}:8730/{kind}\n" in conf) == (kind != "object")
    assert begun[-1][0] == "rsync"
    modules = re.findall(r"^\[(\w+)\]$", (tmp_path / "rsyncd.conf").read_text(), re.M)
    assert modules == ["container", "account"]


def test_the_programs_say_lines_that_tell_them_apart() -> None:
    said = {swift_program.READY, gluster_program.READY, recovery_program.RECOVERED, recovery_program.NUMBERS}
    assert len(said) == 4


def calling(service: str, *timeline: str) -> list[tuple[str, str, str]]:
    """Why a file with such calls is refused."""
    text = FILE.format(
        service=service,
        disk=DISK,
        workload="files" if "gluster" in service else "objects",
        more="directory: /var/tmp/depot" if "gluster" in service else "to: depot",
    )
    actions = "".join(f"\n  - {{id: a{at}, {action}}}" for at, action in enumerate(timeline))
    experiment = load_text(f"{text}timeline:\n  - {{id: load, do: run, role: load}}{actions}")
    return refused(plan_run(experiment, experiment.points()[0], 0))


REVOKE = "do: call, service: depot, op: revoke_tokens%s, after: load.started"
WIPE = "do: call, service: depot, op: wipe_node, args: {guest: h1.n%d}, after: load.finished"
AWAY = "do: call, service: depot, op: fail_node, args: {guest: h1.n%d}, after: load.finished"
HEAL = "do: call, service: depot, op: heal%s, after: a0.done"
WAIT = "do: wait, until: {call: depot.recovered}, timeout: 9 s, on_timeout: censor, after: %s"


@pytest.mark.slow
@pytest.mark.usefixtures("as_root")
def test_what_of_a_loss_is_not_counted_is_refused() -> None:
    replicated = SWIFT % ", concurrency: 1"
    for service in (replicated, GLUSTER % ""):
        assert calling(service, WIPE % 1, WAIT % "a0.done") == []
        ((path, why, _),) = calling(service, WIPE % 1, WIPE % 2)
        assert (path, why) == ("timeline[2].op", "a run loses one node of 'depot', once")
        assert calling(service, AWAY % 1, HEAL % "", WAIT % "a0.done") == []
        assert calling(service, AWAY % 1, HEAL % ", args: {guest: h1.n1}") == []
        for healed in ((), (HEAL % ", args: {guest: h1.n2}",)):
            ((path, why, cure),) = calling(service, AWAY % 1, *healed)
            assert (path, cure) == ("timeline[1].op", "call 'heal' of it later, or write 'op: fail'")
        ((path, why, cure),) = calling(service, WAIT % "load.finished")
        assert path == "timeline[1].until"
        assert cure.startswith("call fail_node or wipe_node")
        assert cure.endswith(" before it, or remove it")
        assert "no node of 'depot' is lost before it" in why
    ((path, why, cure),) = calling(SWIFT % "", WIPE % 1)
    assert (path, cure) == ("timeline[1].op", "write 'concurrency: 1' in 'services.depot'")
    reset = WIPE.replace("wipe_node", "reset_brick")
    assert calling(GLUSTER % "", reset % 1, WAIT % "a0.done") == []
    ((path, why, _),) = calling(GLUSTER % "", reset % 1, WIPE % 2)
    assert (path, why) == ("timeline[2].op", "a run loses one node of 'depot', once")
    ((path, why, cure),) = calling(GLUSTER % ", copies: 1", WIPE % 1)
    assert why == "no other node has a copy, so nothing would come back"


@pytest.mark.slow
@pytest.mark.usefixtures("as_root")
def test_tokens_are_revoked_where_there_are_some_at_all_proxies_together() -> None:
    assert calling(SWIFT % ", auth: tempauth", REVOKE % "") == []
    for service in (SWIFT % "", SWIFT % ", interface: s3"):
        ((path, why, cure),) = calling(service, REVOKE % "")
        assert (path, why) == ("timeline[1].op", "no role has a token")
        assert cure == "write 'auth: tempauth' in 'services.depot'"
    ((path, _, cure),) = calling(SWIFT % ", auth: tempauth", REVOKE % ", args: {guest: h1.n1}")
    assert (path, cure) == ("timeline[1].args", "remove 'args'")


def test_a_token_is_taken_out_of_the_cache_with_its_user_and_one_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"AUTH_/user/lab:client": "AUTH_tk1", "AUTH_/token/AUTH_tk1": "1", "AUTH_/token/AUTH_tk2": "1"}
    ring = SimpleNamespace(get=kept.get, delete=kept.pop)
    monkeypatch.setattr(
        swift_program, "import_module", lambda _: SimpleNamespace(MemcacheRing=lambda servers: ring)
    )
    told = {"proxies": ["10.0.0.1"], "login": {"user": "lab:client", "key": "a"}}
    swift_program.revoke(told)
    assert kept == {"AUTH_/token/AUTH_tk2": "1"}
    with pytest.raises(SystemExit, match="no token was given"):
        swift_program.revoke(told)


def test_tokens_are_not_revoked_where_no_proxy_runs() -> None:
    down: Any = SimpleNamespace(down=True, ended=None, guest="h1.proxy", where="services.depot")
    with pytest.raises(GuestError, match=r"services\.depot: no server runs in h1\.proxy; call 'heal' before"):
        Doing([down], services.of("swift").besides["revoke_tokens"]).step()


@pytest.mark.parametrize("service", [SWIFT % ", concurrency: 1", GLUSTER % ""])
def test_a_proxy_or_a_client_cannot_be_wiped_and_a_node_has_to_be_named(service: str) -> None:
    other = "h1.client" if "gluster" in service else "h1.proxy"
    for args in ("", f", args: {{guest: {other}}}"):
        with pytest.raises(FileMistakesError):
            calling(service, f"do: call, service: depot, op: wipe_node{args}, after: load.finished")


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Rings:
    """Stands for a builder in whose ring the partitions 1 and 2 belong to node 0."""

    def get_part_devices(self, part: int) -> list[dict[str, int]]:
        return [{"id": 0 if part in {1, 2} else 9}]


def test_what_a_node_of_swift_holds_is_what_others_make_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    write(disk / "objects/1/abc/one/10.data", b"old")
    write(disk / "objects/1/abc/one/20.data", b"newer")
    write(disk / "objects/2/abc/gone/30.data", b"deleted")
    write(disk / "objects/2/abc/gone/40.ts", b"")
    write(disk / "objects/7/abc/anothers/10.data", b"of a node that was away")
    database = write(disk / "containers/2/abc/base/base.db", b"rows")
    write(disk / "objects/auditor_status.json", b"{}")
    note = tmp_path / "lost.json"
    swift_program.lose(tmp_path, dict.fromkeys(swift_program.PORTS, Rings()), 0, note)
    held = json.loads(note.read_text())
    assert held["over"] is None
    assert held["missing"] == {str(disk / "objects/1/abc/one"): 5}
    assert held["beside"] == [str(database)]
    assert sorted(held["signs"]) == [str(disk / f"objects/{part}/.lock-replication") for part in (1, 2)]
    assert [*disk.iterdir()] == []
    assert {*tmp_path.iterdir()} == {disk, note}


def test_what_a_brick_of_gluster_holds_are_its_files(tmp_path: Path) -> None:
    brick = tmp_path / "brick"
    one = write(brick / "folder/one", b"12345")
    two = write(brick / "two", b"")
    write(brick / ".glusterfs/ab/one", b"12345")
    write(brick / "folder/elsewhere", b"").chmod(0o1000)
    assert gluster_program.held(brick) == {"folder/one": 5, "two": 0}
    assert gluster_program.copies(brick).keys() == {"folder/one", "two"}
    lost = json.loads(gluster_program.lose(tmp_path, 7.5).read_text())
    assert lost["missing"] == {str(one): 5, str(two): 0}
    assert lost["began_s"] == 7.5
    assert [*brick.iterdir()] == []


def test_what_a_node_of_swift_lacks_is_what_others_have_newer(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    write(disk / "objects/1/abc/same/20.data", b"there")
    write(disk / "objects/1/abc/older/10.data", b"old")
    lock = write(disk / "objects/1/.lock-replication", b"")
    lists = [
        {
            "objects/1/abc/same": ["20.data", 5],
            "objects/1/abc/older": ["20.data", 7],
            "objects/2/abc/new": ["30.data", 9],
            "objects/2/abc/deleted": ["30.ts", 0],
            "objects/7/abc/anothers": ["30.data", 9],
        },
        {"objects/1/abc/older": ["25.data", 8], "objects/2/abc/new": ["30.data", 9]},
    ]
    rings = dict.fromkeys(swift_program.PORTS, Rings())
    lacking = swift_program.behind(disk, {"began_s": 7.5, "lists": lists}, rings, 0)
    older, new = (str(disk / "objects" / each) for each in ("1/abc/older", "2/abc/new"))
    assert lacking["missing"] == {older: 8, new: 9}
    assert lacking["newest"] == {older: "25.data", new: "30.data"}
    assert lacking["signs"] == [str(disk / f"objects/{part}/.lock-replication") for part in (1, 2)]
    assert not lock.exists(), "it says that another node sends once it is there again"
    assert swift_program.names(disk)["objects/1/abc/older"] == ("10.data", 3)


def test_an_object_that_was_missed_counts_once_it_is_as_new_as_elsewhere(tmp_path: Path) -> None:
    older = tmp_path / "older"
    write(older / "10.data", b"old")
    sign = tmp_path / ".lock-replication"
    recovery = recovering(
        tmp_path, missing={str(older): 5}, newest={str(older): "25.data"}, signs=[str(sign)]
    )
    sign.touch()
    recovery.look()
    write(older / "20.data", b"older")
    recovery.look()
    assert (recovery.made, recovery.done) == (0, False)
    write(older / "30.data", b"later still")
    recovery.look()
    assert (recovery.made, recovery.bytes, recovery.done) == (1, 11, True)


def test_what_a_mirror_notes_of_files_is_what_is_missing_until_the_note_is_gone(tmp_path: Path) -> None:
    own = tmp_path / "brick/.glusterfs"
    file, folder = "ab12", "cd34"
    write(own / "ab/12" / file, b"content")
    (own / "cd/34").mkdir(parents=True)
    (own / "cd/34" / folder).symlink_to("../../elsewhere")
    for note in (file, folder, "xattrop-base", "ef56"):
        write(own / "indices/xattrop" / note, b"")
    pending = gluster_program.pending(tmp_path / "brick")
    note = own / "indices/xattrop" / file
    assert pending == {str(note): 7}
    recovery = recovering(tmp_path, missing=pending, pending=True)
    recovery.look()
    assert recovery.numbers() == {"recovery_missing": 1, "recovery_made": 0, "recovery_bytes": 0}
    note.unlink()
    recovery.look()
    assert (recovery.made, recovery.bytes, recovery.done, len(recovery.times)) == (1, 7, True, 5)


@pytest.mark.parametrize(("guest", "mirror"), [("h1.n1", "h1.n2"), ("h1.n2", "h1.n1"), ("h1.n4", "h1.n3")])
def test_a_mirror_of_a_node_is_of_its_group(guest: str, mirror: str) -> None:
    service = planned(GLUSTER % "").world.services["depot"]  # 2 copies on 4 nodes
    assert gluster.IMPLEMENTATION.missed is not None
    assert gluster.IMPLEMENTATION.missed.guest(service, guest) == mirror


def recovering(tmp_path: Path, **more: Any) -> recovery_program.Recovery:
    told = {"began_s": time.monotonic() - 1, "missing": {}, "beside": [], "signs": [], "over": None}
    return recovery_program.Recovery(told | more)


def test_copies_count_once_they_are_whole(tmp_path: Path) -> None:
    objects = [tmp_path / f"object{number}" for number in range(4)]
    sign = tmp_path / ".lock-replication"
    recovery = recovering(
        tmp_path,
        missing={str(path): 9 for path in objects},
        signs=[str(sign)],
        beside=[str(tmp_path / "base.db")],
    )
    recovery.look()
    assert recovery.numbers() == {"recovery_missing": 4, "recovery_made": 0, "recovery_bytes": 0}
    objects[0].mkdir()
    write(objects[3] / "10.data", b"1234")
    recovery.look()
    assert (recovery.made, recovery.times) == (1, {}), "a client has written it"
    sign.touch()
    recovery.look()
    assert recovery.times.keys() == {"recovery_known_ns", "recovery_first_ns"}
    assert recovery.times["recovery_known_ns"] >= 10**9
    write(objects[0] / "10.data", b"123456789")
    write(objects[1] / "20.ts", b"")
    recovery.look()
    assert recovery.numbers()["recovery_bytes"] == 13
    assert recovery.times.keys() == {"recovery_known_ns", "recovery_first_ns", "recovery_half_ns"}
    for path in objects[2:]:
        write(path / "10.data", b"1234")
    recovery.look()
    numbers = recovery.numbers()
    assert (numbers["recovery_made"], numbers["recovery_bytes"], len(recovery.times)) == (4, 17, 5)
    assert numbers["recovery_half_ns"] < numbers["recovery_most_ns"] == numbers["recovery_whole_ns"]
    assert not recovery.done, "a database is not there yet"
    (tmp_path / "base.db").touch()
    recovery.look()
    assert recovery.done


def test_a_file_that_is_made_and_not_filled_does_not_count_and_a_deleted_one_is_missing_no_more(
    tmp_path: Path,
) -> None:
    hollow, gone, over = tmp_path / "hollow", tmp_path / "gone", tmp_path / "over"
    recovery = recovering(tmp_path, missing={str(hollow): 9000, str(gone): 9000}, over=str(over))
    hollow.touch()
    recovery.look()
    with hollow.open("wb") as file:
        file.truncate(9000)
    recovery.look()
    assert recovery.made == 0
    hollow.write_bytes(b"x" * 9000)
    recovery.look()
    assert (recovery.made, recovery.missing) == (1, 2)
    over.touch()
    recovery.look()
    assert (recovery.made, recovery.missing, recovery.done) == (1, 1, True)


def test_nothing_that_was_lost_is_there_again_at_once(tmp_path: Path) -> None:
    recovery = recovering(tmp_path)
    recovery.look()
    assert recovery.done
    assert "recovery_whole_ns" in recovery.times


def test_copies_of_an_older_version_and_damaged_ones_are_missing() -> None:
    plan = planned(SWIFT % "")  # 3 copies
    service = plan.world.services["depot"]
    lists = [
        {"load": {"a": ["10.data", True], "b": ["20.data", True], "c": ["30.ts", False]}},
        {"load": {"a": ["10.data", True], "b": ["20.data", False], "c": ["10.data", True]}},
        {"load": {"a": ["10.data", True], "b": ["15.data", True]}, "another": {"d": ["10.data", True]}},
        {},
    ]
    assert swift.counted(service, "load", lists) == {"object_copies": 4, "missing_copies": 2}
    assert swift.counted(service, "nothing", lists) == {"object_copies": 0, "missing_copies": 0}


def test_mirrors_are_compared_within_their_group() -> None:
    service = planned(GLUSTER % "").world.services["depot"]  # 2 copies on 4 nodes
    lists = [{"a": "1", "b": "2"}, {"a": "1"}, {"c": "3"}, {"c": "4"}]
    assert gluster.counted(service, "", lists) == {"object_copies": 4, "missing_copies": 2}


@pytest.mark.slow
def test_which_roles_have_their_objects_in_a_store() -> None:
    swift_plan, gluster_plan = planned(SWIFT % ""), planned(GLUSTER % "")
    copies = {kind: services.of(kind).copies for kind in ("swift", "gluster")}
    assert copies["swift"] is not None
    assert copies["swift"].roles(swift_plan, "depot") == {"load": "load"}
    assert copies["gluster"] is not None
    assert copies["gluster"].roles(gluster_plan, "depot") == {"load": "/var/tmp/depot"}
    assert copies["gluster"].roles(planned(GLUSTER % "", directory="/var/tmp/depot2"), "depot") == {}


class Node:
    """Stands for the process of a node."""

    def __init__(self, number: int, listed: Any, back: dict[str, int] | None = None) -> None:
        self.name, self.guest, self.listed = "depot", f"h1.n{number}", listed
        self.down, self.ended, self.back, self.copies = False, None, back or {}, None

    def ask(self, question: Invocation) -> Any:
        assert question.before[-1] == swift_program.LIST
        return SimpleNamespace(channel=0)

    def answer(self, _: Any) -> Any:
        return self.listed

    def came_back(self) -> dict[str, int]:
        return self.back


def told(nodes: list[Node]) -> dict[tuple[str, str], int]:
    control = SimpleNamespace(ended=lambda _: "code 0", await_news=lambda _: None)
    running = Services(SimpleNamespace(control=control), planned(SWIFT % ", copies: 2"), nodes)  # type: ignore[arg-type]
    return {(entity, counter): value for entity, counter, value in running.role_counts()}


def test_a_role_is_told_of_copies_and_of_the_node_that_was_wiped() -> None:
    listed = {"load": {"a": ["10.data", True]}}
    nodes = [Node(1, listed), Node(2, {}, {"recovery_missing": 2}), Node(3, {}), Node(4, {})]
    found = told(nodes)
    assert found == {
        ("load/depot", "recovery_missing"): 2,
        ("load/depot", "object_copies"): 1,
        ("load/depot", "missing_copies"): 1,
    }
    nodes[2].down = True
    assert told(nodes) == {("load/depot", "recovery_missing"): 2}, "a node that is away lists nothing"


def test_a_brick_is_reset_once_no_other_command_holds_the_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(False, "Another transaction is in progress for depot."), (True, ""), (False, "no such brick")]
    monkeypatch.setattr(gluster_program, "gluster", lambda *_: answers.pop(0))
    monkeypatch.setattr(gluster_program, "LOOK_S", 0.0)
    gluster_program.done("reset")
    assert len(answers) == 1
    with pytest.raises(SystemExit, match="the brick cannot be reset: no such brick"):
        gluster_program.done("reset")
