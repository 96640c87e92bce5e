"""Containers before they run: bundles, control groups of both versions, images, refusals."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.errors import VirtlabError
from virtlab.experiment import load
from virtlab.plan import Guest, Host, Plan, Refusal, World
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.kinds.container_home import allowed
from virtlab.testbed.leader import ledger
from virtlab.testbed.leader.groups import Groups
from virtlab.testbed.leader.memory_accounts import Account, accounts_for_swap, hierarchies
from virtlab.testbed.platforms.container import engine
from virtlab.testbed.platforms.container.bundle import Bundle, Limits, archive, prepare
from virtlab.testbed.platforms.container.containers import as_files
from virtlab.testbed.platforms.container.platform import container_refusals
from virtlab.testbed.steps.operations import TapAdd, VethAdd

FILE = """
version: 1
name: containers
hosts: {h1: {guests: 1, platform: container, cpu: 50 %, memory: 64 MiB, image: small}, h2: {platform: namespace}}
topology: line
link: {rate: 100 Mbit/s}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B payload, interval: 10 ms, count: 10}}
"""
BOUNDED = Limits((50_000, 100_000), 64 << 20)


def refused(guest: Guest) -> list[Refusal]:
    plan = Plan(world=World(hosts={guest.host: Host()}, guests={"a": guest}))
    return list(container_refusals("guests.a", "a", plan, HERE))


def planned(tmp_path: Path, text: str = FILE) -> Plan:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    experiment = load(path)
    return plan_run(experiment, experiment.points()[0], 0)


def bundle(
    cgroup: str | None = "/virtlab-1/a", image: Path | None = None, busybox: Path | None = None
) -> Bundle:
    return Bundle("a", "/agent", image, busybox, BOUNDED, cgroup)


def test_a_file_says_limits_and_image_of_a_container(tmp_path: Path) -> None:
    guest = planned(tmp_path).world.guests["h1.g1"]
    assert (guest.platform, guest.image, guest.memory_bytes, guest.cpu_quota_ratio) == (
        "container",
        "small",
        64 << 20,
        0.5,
    )


@pytest.mark.parametrize("other", ["namespace", "native", "qemu"])
def test_an_image_is_a_mistake_where_there_is_nothing_to_choose(tmp_path: Path, other: str) -> None:
    with pytest.raises(VirtlabError, match="no root file system of their own"):
        planned(tmp_path, FILE.replace("platform: container", f"platform: {other}"))


def test_a_containers_network_is_built_like_a_namespaces(tmp_path: Path) -> None:
    own, other = (
        lower(
            planned(
                tmp_path,
                FILE.replace(", image: small", "").replace("platform: container", f"platform: {name}"),
            )
        )
        for name in ("container", "namespace")
    )
    assert [step.op for step in own.steps] == [step.op for step in other.steps]
    assert own.machines == {}
    assert not any(isinstance(step.op, TapAdd) for step in own.steps)
    assert sum(isinstance(step.op, VethAdd) for step in own.steps) == 4  # two guests, two uplinks


def test_a_bundle_has_no_network_of_its_own_and_few_powers() -> None:
    config = bundle().config()
    assert {each["type"] for each in config["linux"]["namespaces"]} == {
        "pid",
        "mount",
        "ipc",
        "uts",
        "cgroup",
    }
    assert config["linux"]["cgroupsPath"] == "/virtlab-1/a"
    assert config["linux"]["resources"] == {
        "cpu": {"quota": 50_000, "period": 100_000},
        "memory": {"limit": 64 << 20},
    }
    granted = config["process"]["capabilities"]["effective"]
    assert "CAP_SYS_ADMIN" not in granted
    assert config["process"]["noNewPrivileges"] is True
    assert next(each for each in config["mounts"] if each["destination"] == "/virtlab-agent")["options"] == [
        "bind",
        "ro",
    ]


def test_an_ordinary_users_bundle_has_no_control_group() -> None:
    config = bundle(cgroup=None).config()
    assert "cgroupsPath" not in config["linux"]
    assert "resources" not in config["linux"]
    assert not any(each["type"] == "cgroup" for each in [*config["linux"]["namespaces"], *config["mounts"]])


def test_capabilities_that_this_machine_does_not_have_are_not_asked_for() -> None:
    assert allowed("CapBnd:\t0000000000000001\n") == ("CAP_CHOWN",)
    assert allowed("") == ()


def test_bundles_travel_as_one_archive() -> None:
    content = archive([bundle(busybox=Path("/bin/busybox")), bundle(image=Path("/images/x"))], ["sh", "ls"])
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        names = tar.getnames()
        inner = tar.extractfile("bare.tar")
        assert inner is not None
        with tarfile.open(fileobj=inner) as within:
            assert {"bin/sh", "proc", "etc/passwd"} <= set(within.getnames())
        stream = tar.extractfile("1/config.json")
        assert stream is not None
        assert json.load(stream)["root"] == {"path": "rootfs"}
    assert {"0/config.json", "0/rootfs", "1/upper", "1/work"} <= set(names)


def test_an_image_lies_under_a_layer_of_the_containers_own() -> None:
    script = prepare("/mnt", [bundle(), bundle(image=Path("/images/x"))])
    assert "lowerdir=/images/x,upperdir=/mnt/1/upper,workdir=/mnt/1/work" in script
    assert (script.count("overlay"), script.count("bare.tar")) == (1, 1)


def version_1(root: Path) -> Account:
    files = {
        "cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.stat": "nr_periods 3\nnr_throttled 1\nthrottled_time 700\n", "cpuacct/cpuacct.usage": "12345\n",
        "memory/memory.limit_in_bytes": "67108864\n", "memory/memory.usage_in_bytes": "4096\n",
        "memory/memory.max_usage_in_bytes": "8192\n",
        "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    }  # fmt: skip
    for name, text in files.items():
        controller, _, file = name.partition("/")
        (root / controller / "x" / "a").mkdir(parents=True, exist_ok=True)
        (root / controller / "x" / "a" / file).write_text(text)
    return Account("/x/a", root)


def version_2_account(root: Path) -> Account:
    (root / "x" / "a").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory\n")
    files = {
        "cpu.max": "50000 100000\n", "memory.max": "67108864\n", "memory.current": "4096\n", "memory.peak": "8192\n",
        "cpu.stat": "usage_usec 12\nuser_usec 1\nthrottled_usec 7\n", "memory.events": "low 0\noom 2\noom_kill 2\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / "x" / "a" / name).write_text(text)
    return Account("/x/a", root)


def test_an_account_of_version_1_is_read(tmp_path: Path) -> None:
    account = version_1(tmp_path)
    assert account.limits() == {
        "cpu.cfs_quota_us": "50000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": "67108864",
    }
    assert dict(account.counters()) == {
        "cpu_ns": 12345, "throttled_ns": 700, "memory_bytes": 4096, "memory_max_bytes": 8192, "oom_kills": 2,
    }  # fmt: skip
    assert account.starved()


def test_an_account_of_version_2_is_read_in_the_same_units(tmp_path: Path) -> None:
    account = version_2_account(tmp_path)
    assert account.limits() == {"cpu.max": "50000 100000", "memory.max": "67108864"}
    assert dict(account.counters()) == {
        "cpu_ns": 12_000, "throttled_ns": 7_000, "memory_bytes": 4096, "memory_max_bytes": 8192, "oom_kills": 2,
    }  # fmt: skip


@pytest.mark.parametrize("version_2", [False, True])
def test_a_limit_of_memory_leaves_no_swap_where_the_kernel_accounts_for_swap(
    version_2: bool, tmp_path: Path
) -> None:
    account = version_2_account(tmp_path) if version_2 else version_1(tmp_path)
    assert not accounts_for_swap(tmp_path), "no group has the file"
    place = tmp_path / "x" if version_2 else tmp_path / "memory"
    (place / ("memory.swap.max" if version_2 else "memory.memsw.limit_in_bytes")).write_text("max\n")
    assert accounts_for_swap(tmp_path)
    limits = Limits(memory_bytes=64 << 20, swaps=True)
    assert limits.json() == {"memory": {"limit": 64 << 20, "swap": 64 << 20}}
    wanted = as_files(limits, version_2=version_2)
    for file, value in wanted.items():
        (account.root / ("" if version_2 else "memory") / "x/a" / file).write_text(f"{value}\n")
    assert wanted.items() <= account.limits().items(), "what is wanted is read back"
    assert wanted == (
        {"memory.max": str(64 << 20), "memory.swap.max": "0"}
        if version_2
        else {"memory.limit_in_bytes": str(64 << 20), "memory.memsw.limit_in_bytes": str(64 << 20)}
    )


def test_a_kernel_that_does_not_account_for_swap_is_not_asked_to_bound_it() -> None:
    limits = Limits(memory_bytes=64 << 20)
    assert limits.json() == {"memory": {"limit": 64 << 20}}
    assert as_files(limits, version_2=False) == {"memory.limit_in_bytes": str(64 << 20)}


def test_what_is_not_there_is_not_zero(tmp_path: Path) -> None:
    account = Account("/gone", tmp_path)
    assert (account.limits(), dict(account.counters()), account.starved()) == ({}, {}, False)


def test_groups_of_containers_are_in_the_ledger_in_every_hierarchy(tmp_path: Path) -> None:
    root, folder = tmp_path / "cgroup", tmp_path / "ledger"
    for name in ("cpu", "memory", "systemd"):
        (root / name).mkdir(parents=True)
    groups = Groups(root=root, folder=folder)
    paths = groups.of_containers(["a", "b"])
    _, noted = ledger.noted(next(folder.glob("*.json")))
    for hierarchy in hierarchies(root):
        for path in paths.values():
            assert str(hierarchy / path.lstrip("/")) in noted
            (hierarchy / path.lstrip("/")).mkdir(parents=True)  # as a runtime does
    groups.remove()
    assert [list(hierarchy.iterdir()) for hierarchy in hierarchies(root)] == [[], [], []]
    assert ledger.sweep(folder) == []


def test_what_is_missing_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    guest = Guest(
        platform="container", host="h", vnics={}, image="small", memory_bytes=1 << 20, routing="ospf"
    )
    found = {refusal.path: refusal for refusal in refused(guest)}
    assert found["guests.a.platform"].reason == "runc and crun are missing"
    assert "there is no image 'small'" in found["guests.a.image"].reason
    assert found["guests.a.memory_bytes"].cure == "write at least '16 MiB'"
    assert "guests.a.routing" in found
    monkeypatch.setenv(runtime.FORCED, "crun")
    assert runtime.missing() == "crun is missing"


def test_a_runtime_that_nobody_knows_is_told_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.FORCED, "runk")
    guest = Guest(platform="container", host="h", vnics={})
    (told,) = refused(guest)
    assert told.reason == "$VIRTLAB_RUNTIME is 'runk', which is not a runtime"
    assert told.cure == "unset VIRTLAB_RUNTIME, or set it to runc, crun or podman"
    assert runtime.find() is None, "no other runs in its place"
    if runtime.find("runc") is not None:
        assert not list(refused(guest.model_copy(update={"runtime": "runc"})))


def test_each_runtime_is_asked_in_its_own_way() -> None:
    runc = runtime.Runtime("runc", "/r").run("/s", "/b", "c", descriptors=1, rootless=False)
    crun = runtime.Runtime("crun", "/c").run("/s", "/b", "c", descriptors=1, rootless=True)
    assert runc[:3] == ["/r", "--root", "/s"]
    assert "--cgroup-manager=disabled" in crun
    assert not any("cgroup-manager" in word for word in runc)
    assert runc[-1] == crun[-1] == "c"


def test_podman_is_told_what_a_guest_needs_and_left_its_own_configuration_for_the_rest() -> None:
    argv = engine.run("/p", "/mnt", 3, bundle(busybox=Path("/bin/busybox")))
    assert argv[: argv.index("run")] == engine.base("/p", "/mnt")
    assert argv[argv.index("--network") + 1] == "host", "it stays where the vNICs are"
    assert argv[-6:] == ["--rootfs", "/mnt/3/rootfs", "/virtlab-agent", "inside", "--control-fd", "3"]
    assert argv[argv.index("--cgroup-parent") + 1] == "/virtlab-1/a"
    assert argv[argv.index("--cpu-quota") + 1] == "50000"
    assert argv[argv.index("--memory") + 1] == f"{64 << 20}b"
    assert "/bin/busybox:/bin/busybox:ro" in argv
    assert not {"--runtime", "--security-opt", "--privileged", "--cap-drop"} & set(argv)
    written = [word for word in argv if word.startswith("/mnt/")]
    assert len(written) == 5, "all that it keeps is where the world's bundles are"


def test_podman_of_an_ordinary_user_makes_no_control_group() -> None:
    argv = engine.run("/p", "/mnt", 0, bundle(cgroup=None))
    assert argv[argv.index("--cgroups") + 1] == "disabled"
    assert not {"--memory", "--cpu-quota", "--cgroup-parent"} & set(argv)


def test_the_group_that_podman_makes_below_ours_goes_with_it(tmp_path: Path) -> None:
    place = tmp_path / "ledger"
    entry = ledger.open_entry(place)
    entry.plan(tmp_path / "virtlab-1")
    inner = tmp_path / "virtlab-1" / "a" / "libpod-77ab"
    inner.mkdir(parents=True)
    (tmp_path / "memory" / "x" / "a" / "libpod-77ab").mkdir(parents=True)
    assert Account("/x/a", tmp_path).inside() == ["libpod-77ab"]
    entry.close()
    assert not (tmp_path / "virtlab-1").exists()
    assert list(place.glob("*")) == []


def test_a_file_says_what_runs_a_container_and_no_other_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace("platform: container", "platform: container, runtime: podman")
    guest = planned(tmp_path, text).world.guests["h1.g1"]
    assert guest.runtime == "podman"
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {refusal.path: refusal for refusal in refused(guest)}
    assert found["guests.a.runtime"].reason == "podman is missing"
    assert found["guests.a.runtime"].cure.startswith("install podman")
    with pytest.raises(VirtlabError, match="run by no container runtime"):
        planned(tmp_path, FILE.replace("platform: namespace", "platform: namespace, runtime: crun"))
    with pytest.raises(VirtlabError, match="docker"):
        planned(tmp_path, text.replace("podman", "docker"))
