"""Containers as guests: run, bounded, counted, and told of when they die."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import container_world as containers
import process_world as processes
import pytest
import testbed_world as worlds
from test_testbed_privileges import ROOT, as_nobody, has_control_groups

from virtlab.errors import GuestError, MachineError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.doctor.containers import examine
from virtlab.testbed.image import rootfs
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.kinds import container_home as home
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.leader.memory_accounts import accounts_for_swap
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    pytest.mark.timeout(300),
]


def has_busybox() -> bool:
    try:
        return find_busybox().is_file()
    except MachineError:
        return False


BUSYBOX = pytest.mark.skipif(not has_busybox(), reason="no static busybox is here")
COUNT = 20
RUNTIMES = [name for name in runtime.RUNTIMES if shutil.which(name)]
SECOND_NS = 1_000_000_000


def opened(plan: Plan) -> TestbedSession:
    session = Testbed().open(plan, worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def plan_of(world: dict[str, Any], **more: Any) -> Plan:
    return worlds.echo_plan(world, source="g1", target="g2", count=COUNT, **more)


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_container_measures_and_is_measured_like_any_guest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runtime.FORCED, name)
    plan = plan_of(containers.beside_a_namespace())
    plan = plan.model_copy(
        update={"collect": plan.collect.model_copy(update={"counters": ("vnics", "guests")})}
    )
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        realised = session.realised.objects["guests.g1"]
        assert realised.by == "container"
        assert name in realised.applied["runtime"]
        for trial in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{trial}", trial), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
            begin, end = sink.counters("begin"), sink.counters("end")
            key = ("guests.g1.vnics.eth0", "received_packets")
            assert end[key] - begin[key] >= COUNT
            if os.geteuid() == 0 and has_control_groups():
                assert end["guests.g1", "cpu_ns"] > begin["guests.g1", "cpu_ns"] > 0
                assert end["guests.g1", "memory_bytes"] > 0 == end["guests.g1", "oom_kills"]


@ROOT
@BUSYBOX
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
@pytest.mark.parametrize("name", RUNTIMES)
def test_limits_are_what_the_kernel_has_and_what_holds_the_guest_back(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runtime.FORCED, name)
    world = containers.beside_a_namespace(cpu_quota_ratio=0.1, memory_bytes=64 << 20)
    burn = ["sh", "-c", "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done"]
    actions = [{"id": "burn", "do": "exec", "guest": "g1", "argv": burn}]
    plan = worlds.plan(
        world, timeline=actions, limits={"run_ns": 120 * SECOND_NS}, collect={"counters": ["guests"]}
    )
    with opened(plan) as session:
        has = session.realised.objects["guests.g1"].read_back
        assert has.get("cpu.cfs_quota_us") == "10000" or has.get("cpu.max") == "10000 100000"
        assert str(64 << 20) in has.values()
        # By every runtime: without this one of them would swap where another is killed.
        without_swap = {"memory.memsw.limit_in_bytes": str(64 << 20), "memory.swap.max": "0"}
        assert not accounts_for_swap() or has.items() & without_swap.items()
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.counters("end")["guests.g1", "throttled_ns"] > 0


@ROOT
@BUSYBOX
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
def test_a_container_that_needs_more_memory_than_it_may_have_says_so() -> None:
    # The eater asks to be the one that is killed: the kernel could as well choose the agent beside it.
    eat = ["sh", "-c", "echo 1000 > /proc/self/oom_score_adj; head -c 100000000 /dev/zero | tail"]
    actions = [{"id": "eat", "do": "exec", "guest": "g1", "argv": eat}]
    plan = worlds.plan(
        containers.beside_a_namespace(memory_bytes=24 << 20),
        timeline=actions,
        limits={"run_ns": 60 * SECOND_NS},
        collect={"counters": ["guests"]},
    )
    with opened(plan) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.counters("end")["guests.g1", "oom_kills"] >= 1


@BUSYBOX
def test_a_command_runs_inside_with_processes_and_files_of_its_own() -> None:
    script = "hostname; ls -d /proc/[0-9]* | wc -l; ls / | tr '\\n' ' '; echo; cat /proc/1/comm"
    actions = [{"id": "ask", "do": "exec", "guest": "g1", "argv": ["sh", "-c", script]}]
    plan = worlds.plan(containers.beside_a_namespace(), timeline=actions, limits={"run_ns": 60 * SECOND_NS})
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
    host, processes, files, first = sink.artefacts["ask.out"].decode().splitlines()
    assert host == "g1"
    assert int(processes) < 10
    assert "virtlab-agent" in files
    assert not {"home", "boot"} & set(files.split())
    assert first.startswith("virtlab-agent")


@BUSYBOX
@pytest.mark.parametrize("users", [None, "own"])
def test_an_image_is_read_and_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: str | None
) -> None:
    """With users of its own, root inside is given the files of the image in the container's layer only."""
    if users == "own" and os.geteuid() != 0:
        pytest.skip("an ordinary user's containers are in that user's namespace")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "source"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (source / name).mkdir(parents=True)
    shutil.copy(find_busybox(), source / "bin" / "busybox")
    (source / "release").write_text("of the image\n")
    (source / "release").chmod(0o600)
    place = rootfs.add_rootfs("small", str(source))
    script = "/bin/busybox cat /release; echo mine > /release; /bin/busybox cat /release"
    actions = [{"id": "ask", "do": "exec", "guest": "g1", "argv": ["/bin/busybox", "sh", "-c", script]}]
    plan = worlds.plan(
        containers.beside_a_namespace(image="small", user_namespace=users),
        timeline=actions,
        limits={"run_ns": 60 * SECOND_NS},
    )
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert session.realised.objects["guests.g1"].applied["image"] == "small"
    assert (place / "release").stat().st_uid == os.geteuid()
    assert sink.artefacts["ask.out"] == b"of the image\nmine\n"
    assert (place / "release").read_text() == "of the image\n"
    assert sorted(path.name for path in place.iterdir()) == ["bin", "dev", "proc", "release", "sys", "tmp"]


@pytest.mark.parametrize("workload", ["tcp_stream", "tcp_rr", "udp_stream", "raw_stream", "burst_load"])
def test_every_kind_of_traffic_crosses_a_switch_between_containers(workload: str) -> None:
    parameters: dict[str, dict[str, Any]] = {
        "tcp_stream": {"duration_ns": SECOND_NS // 2, "message_bytes": 1000},
        "tcp_rr": {"duration_ns": SECOND_NS // 2, "request_bytes": 1, "response_bytes": 1},
        "udp_stream": {"duration_ns": SECOND_NS // 2, "payload_bytes": 500, "rate_bit_per_s": 1_000_000},
        "raw_stream": {"duration_ns": SECOND_NS // 2, "frame_bytes": 128, "rate_pps": 200},
        "burst_load": {
            "burst_bytes": 3000, "period_ns": 50_000_000, "streams": 1, "duration_ns": SECOND_NS // 2,
            "direction": "request_reply",
        },
    }  # fmt: skip
    role = {"workload": workload, "from": "a", "to": "b", **parameters[workload]}
    plan = worlds.plan(
        containers.containers(worlds.bridged(switches=1)),
        roles={"load": role},
        timeline=[{"id": "go", "do": "run", "role": "load"}],
        collect={"packets": ["load"]},
        limits={"run_ns": 60 * SECOND_NS},
    )
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert any(
            stream == "load" and len(next(iter(columns.values()))) for stream, _, columns in sink.blocks
        )


@pytest.mark.parametrize("victim", ["runtime", "first process"])
def test_a_container_that_dies_in_mid_run_is_named(victim: str) -> None:
    plan = plan_of(containers.beside_a_namespace())
    roles = {"probe": plan.roles["probe"].model_copy(update={"count": 2000})}
    with opened(plan.model_copy(update={"roles": roles})) as session:
        pid = processes.process_of(session, b"run\0" if victim == "runtime" else b"inside\0")
        sink = worlds.ActingSink(lambda: os.kill(pid, signal.SIGKILL))
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    assert any(reason.startswith("guests.g1: its container ended with ") for reason in outcome.reasons), (
        outcome.reasons
    )


PODMAN = pytest.mark.skipif(shutil.which(runtime.PODMAN) is None, reason="podman is missing")


@PODMAN
@BUSYBOX
def test_podman_runs_its_own_container_beside_ours_and_leaves_nothing_anywhere() -> None:
    before = containers.of_podman()
    world = containers.containers(worlds.one_host(2))
    world["guests"]["g1"]["runtime"] = "podman"
    world["guests"]["g2"]["runtime"] = RUNTIMES[0]
    asked = ["sh", "-c", "grep Seccomp: /proc/1/status; hostname; ls /run/.containerenv"]
    actions = [
        {"id": name, "do": "exec", "guest": name, "argv": asked, **after}
        for name, after in (("g1", {}), ("g2", {"after": {"event": "g1.finished"}}))
    ]
    actions.append(
        {"id": "measure", "do": "run", "role": "probe", "after": {"any": ["g2.finished", "g2.failed"]}}
    )
    with opened(plan_of(world, timeline=actions)) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert sink.rows("probe", "rtt/1") == COUNT, outcome.reasons
        realised = {name: session.realised.objects[f"guests.{name}"] for name in ("g1", "g2")}
    assert realised["g1"].applied["runtime"].startswith("podman version")
    assert realised["g1"].read_back["oci_runtime"] in runtime.OCI
    assert "oci_runtime" not in realised["g2"].read_back
    assert sink.artefacts["g1.out"].decode().split() == ["Seccomp:", "2", "g1", "/run/.containerenv"]
    assert sink.artefacts["g2.out"].decode().split()[:2] == ["Seccomp:", "2"], "and so has our bundle"
    assert containers.of_podman() == before


@PODMAN
def test_the_doctor_tries_podman_beside_the_runtime() -> None:
    found = {finding.name: finding for finding in examine()}
    assert set(found) == {"container", "container.podman"}
    assert found["container.podman"].state in {"yes", "limited"}
    assert ", by " in found["container.podman"].says


@PODMAN
@BUSYBOX
def test_podman_takes_an_image_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(runtime.FORCED, runtime.PODMAN)
    source = tmp_path / "source"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (source / name).mkdir(parents=True)
    shutil.copy(find_busybox(), source / "bin" / "busybox")
    place = rootfs.add_rootfs("small", str(source))
    actions = [{"id": "ask", "do": "exec", "guest": "g1", "argv": ["/bin/busybox", "touch", "/mine"]}]
    plan = worlds.plan(
        containers.beside_a_namespace(image="small"), timeline=actions, limits={"run_ns": 60 * SECOND_NS}
    )
    with opened(plan) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sorted(path.name for path in place.iterdir()) == ["bin", "dev", "proc", "sys", "tmp"]


def test_a_container_that_cannot_begin_is_told_with_its_runtimes_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home, "agent_path", lambda: Path("/nothing/here"))
    before = worlds.own_processes()
    with pytest.raises(
        GuestError, match=r"guests\.g1: its container ended with code 1; it said: .*nothing/here"
    ):
        opened(plan_of(containers.beside_a_namespace()))
    assert worlds.own_processes() <= before


@pytest.fixture
def homely() -> Iterator[Path]:
    """A home that an ordinary user can look into; what lies in root's own he cannot."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        assert list(Path(name).iterdir()) == [], "nothing is left there"


@ROOT
@pytest.mark.parametrize("name", RUNTIMES)
def test_an_ordinary_user_runs_containers_without_control_groups(
    name: str, homely: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runtime.FORCED, name)
    monkeypatch.setenv("HOME", str(homely))
    plan = plan_of(containers.beside_a_namespace())

    def work() -> None:
        assert Testbed().check(plan) == []
        with opened(plan) as built:
            sink = worlds.MemorySink()
            outcome = built.run(Trial("t0", 1), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
            assert built.realised.objects["guests.g1"].applied["control_group"] is None
        bounded = plan_of(containers.beside_a_namespace(cpu_quota_ratio=0.5))
        assert [refusal.cure for refusal in Testbed().check(bounded)] == ["run as root"]

    assert as_nobody(work) == ""
