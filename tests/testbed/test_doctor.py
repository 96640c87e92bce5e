"""The examination of this machine: tried, honest about what failed, with cures, and nothing left behind."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testbed_world import own_processes

from virtlab.testbed.build.machine import KERNEL_QDISCS
from virtlab.testbed.doctor import Examination, Finding, examine, noise, world
from virtlab.testbed.leader import trial
from virtlab.testbed.platforms.qemu import kvm

VIRTLAB = Path(sys.executable).with_name("virtlab")


@pytest.fixture(scope="module")
def examination() -> Examination:
    return examine(self_test=False)


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command; an empty `PATH` has it try no program, of which machines that boot take seconds."""
    return subprocess.run(
        [str(VIRTLAB), "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, **environment},
    )


def finding(name: str, state: str, *, needed: bool = False) -> Finding:
    return Finding(name, "group", state, "says", "cure", needed=needed)  # type: ignore[arg-type]


def test_every_finding_has_a_name_of_its_own_and_words(examination: Examination) -> None:
    names = [one.name for one in examination.findings]
    assert len(names) == len(set(names))
    assert all(one.says for one in examination.findings)


def test_everything_missing_has_a_cure(examination: Examination) -> None:
    lacking = [one.name for one in examination.findings if one.state in ("no", "limited") and not one.cure]
    assert lacking == []


def test_every_finding_is_in_the_reference(examination: Examination) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/doctor.md").read_text()
    patterns = {"qdisc": "`qdisc.KIND`", "program": "`program.NAME`"}
    for one in examination.findings:
        kind, _, rest = one.name.partition(".")
        names = (f"`{one.name}`", f"`.{rest}`", patterns.get(kind, f"`{one.name}`"))
        assert any(name in page for name in names), one.name


def test_each_kernel_discipline_is_tried(examination: Examination) -> None:
    tried = {one.name for one in examination.findings if one.group.startswith("queue disciplines")}
    assert tried == {f"qdisc.{kind}" for kind in KERNEL_QDISCS}


def test_the_examination_is_json_with_units_in_its_names(examination: Examination) -> None:
    values = json.loads(json.dumps(examination.json()))
    assert values["schema"] == "virtlab.doctor/1"
    clock = next(one for one in values["findings"] if one["name"] == "clock_source")
    assert clock["values"]["read_cost_ns"] >= 0


def test_without_something_needed_the_testbed_does_not_work() -> None:
    fine = Examination(
        {}, (finding("a", "limited", needed=True), finding("b", "no"), finding("c", "untried"))
    )
    assert (fine.works, fine.exit_code) == (True, 0)
    for state in ("no", "untried"):
        broken = Examination({}, (finding("a", "yes", needed=True), finding("b", state, needed=True)))
        assert (broken.works, broken.exit_code) == (False, 3)


def test_a_trial_tells_the_words_of_the_kernel() -> None:
    tried = trial.in_child(lambda: os.open("/nonexistent", os.O_RDONLY))
    assert (tried.ok, tried.errno, tried.error) == (False, 2, "No such file or directory")
    assert trial.in_child(lambda: {"answer": 42}).value == {"answer": 42}


def test_a_trial_that_hangs_or_dies_is_ended() -> None:
    before = own_processes()
    hung = trial.in_child(lambda: time.sleep(600), timeout_s=0.2)
    assert not hung.ok
    assert not trial.in_child(lambda: os._exit(7)).ok
    assert own_processes() <= before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_trial_can_be_made_as_an_ordinary_user() -> None:
    assert trial.in_child(os.geteuid, as_nobody=True).value == trial.NOBODY


@pytest.mark.parametrize(
    ("file", "text", "cure"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "max_user_namespaces=10000"),
        ("user/max_user_namespaces", "5000\n", "seccomp"),
    ],
)
def test_what_restricts_user_namespaces_is_named(tmp_path: Path, file: str, text: str, cure: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert cure in world.user_namespace_cure(tmp_path)


def test_an_agent_of_another_architecture_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "virtlab-agent"
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 0x1234) + bytes(64))
    foreign.chmod(0o755)
    done = doctor("--json", "--no-self-test", VIRTLAB_AGENT=str(foreign), PATH=str(tmp_path))
    assert done.returncode == 3
    agent = next(one for one in json.loads(done.stdout)["findings"] if one["name"] == "agent")
    assert agent["state"] == "no"
    assert "architecture" in agent["cure"]


def test_a_missing_agent_ends_with_3_and_the_cure(tmp_path: Path) -> None:
    done = doctor("--no-self-test", VIRTLAB_AGENT="/nonexistent/agent", PATH=str(tmp_path))
    assert done.returncode == 3
    assert "make agent" in done.stdout
    assert "does not work" in done.stdout


def test_echo_times_are_judged_against_the_computed_one() -> None:
    assert noise.COMPUTED_NS == 488_320
    good = noise.judge("n", [540_000] * 80 + [700_000] * 10, [], "soft_switch", switched=True)
    assert (good.state, good.values["excess_ns"], good.values["p99_ns"]) == ("yes", 51_680, 700_000)
    assert noise.judge("n", [900_000] * 90, [], "soft_switch", switched=True).state == "limited"
    starved = noise.judge("n", [30_000] * 90, ["guest a: starved"], "none", switched=False)
    assert (starved.state, "guest a: starved" in starved.says) == ("limited", True)
    lost = noise.judge("n", [540_000] * 20, ["probe starved"], "soft_switch", switched=True)
    assert lost.state == "no"
    assert "70 of 90" in lost.says
    assert "probe starved" in lost.says


def test_the_self_test_measures_a_real_testbed() -> None:
    done = doctor("--json")
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    if found["noise.switched"]["state"] == "untried":
        pytest.skip(found["noise.switched"]["says"])
    if found["world"]["state"] == "no":
        pytest.skip(found["world"]["says"])
    assert done.returncode == 0, done.stdout
    switched = found["noise.switched"]["values"]
    assert switched["p50_ns"] >= noise.COMPUTED_NS
    assert switched["count"] >= noise.ECHOES // 2
    assert found["noise.path"]["values"]["p50_ns"] < switched["p50_ns"]


def fake_qemu(folder: Path, script: str) -> str:
    path = folder / "qemu"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_machine_boots_only_when_its_code_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kvm.boot(fake_qemu(tmp_path, "exit 85"), "kvm")[0] is not None
    assert kvm.boot(fake_qemu(tmp_path, "echo no firmware >&2; exit 1"), "kvm") == (None, "no firmware")
    monkeypatch.setattr(kvm, "BOOT_TIMEOUT_S", 0.2)
    assert kvm.boot(fake_qemu(tmp_path, "exec sleep 60"), "kvm") == (None, "nothing within 0.2 s")


def test_a_kernel_boots_only_when_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tmp_path / "vmlinuz"
    prints = fake_qemu(tmp_path, "echo '[    0.000000] Linux version 6.1'; exec sleep 60")
    assert kvm.boot_kernel(prints, "kvm", kernel)[0] is not None
    ends = fake_qemu(tmp_path, "echo broken >&2")
    assert kvm.boot_kernel(ends, "kvm", kernel) == (None, "broken")
    monkeypatch.setattr(kvm, "BOOT_TIMEOUT_S", 0.2)
    silent = fake_qemu(tmp_path, "exec sleep 60")
    assert kvm.boot_kernel(silent, "kvm", kernel) == (None, "it printed nothing within 0.2 s")


READ_ONLY = """
set -e
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" doctor --json
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make /proc/sys read-only")
def test_a_world_that_cannot_set_values_is_none(tmp_path: Path) -> None:
    """As in a container whose /proc/sys is read-only: an ordinary user's world gets no other."""
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", READ_ONLY, str(VIRTLAB)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["world"]["state"] == "no"
    assert "Read-only file system" in found["world"]["says"]
    assert "unmask=ALL" in found["world"]["cure"]
    assert done.returncode == 3
