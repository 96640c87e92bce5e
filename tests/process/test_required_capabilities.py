"""Where a machine is said to have a capability, a test that is skipped for want of it has failed, with the same
reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import required

ROOT = Path(__file__).parents[2]
OVS = ROOT / "tests/testbed/test_open_vswitch.py"
GONE = "Open vSwitch is not installed (ovs-vswitchd is missing)"


def without_programs(place: Path, needs: str) -> subprocess.CompletedProcess[str]:
    """Tests of Open vSwitch where no program is found."""
    environment = {**os.environ, "PATH": str(place), required.VARIABLE: needs}
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-n0", "-k", "fifty_ports or cannot_do", str(OVS)]
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_what_is_missing_is_skipped_and_is_a_failure_where_it_is_required(tmp_path: Path) -> None:
    skipped = without_programs(tmp_path, "")
    assert skipped.returncode == 0, skipped.stdout
    assert "2 skipped" in skipped.stdout
    failed = without_programs(tmp_path, "qemu,ovs")
    assert failed.returncode == 1, failed.stdout
    assert "'ovs', and a test of it was skipped: Open vSwitch is not installed (ovsdb-tool" in failed.stdout
    assert "skipped in" not in failed.stdout.splitlines()[-1]


def test_a_name_that_is_none_is_told_with_those_there_are(tmp_path: Path) -> None:
    wrong = without_programs(tmp_path, "ovs,tun")
    assert wrong.returncode == pytest.ExitCode.USAGE_ERROR
    assert "there is no tun; there are world, ovs, oci, qemu" in wrong.stderr


def test_a_skip_in_any_file_is_one_of_what_its_reason_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(required.CAPABILITIES, "ovs", required.Capability(("open_vswitch",), lambda: GONE))
    elsewhere = ROOT / "tests/testbed/test_forwarding_guests.py"
    assert GONE in str(required.lacking(["ovs"], elsewhere, GONE))
    assert required.lacking([], elsewhere, GONE) is None
    assert required.lacking(["oci"], elsewhere, GONE) is None


@pytest.mark.parametrize(
    ("name", "file", "reason", "fails"),
    [
        ("qemu", "test_disk_machines.py", "a disk with a boot loader is made with syslinux", True),
        ("ssh", "test_existing_hosts_cut.py", "sshd is missing (openssh-server)", True),
        ("ssh", "test_existing_hosts.py", "only root can run sshd for itself in namespaces", True),
        ("qemu", "test_machines_privileges.py", "/dev/net/tun is root's alone here", False),
        ("oci", "test_machines_privileges.py", "anything", False),
        ("lab", "test_open_vswitch_in_the_kernel.py", "anything", True),
    ],
)
def test_a_skip_in_a_file_of_a_capability_is_one_of_it_unless_another_user_is_wanted(
    monkeypatch: pytest.MonkeyPatch, name: str, file: str, reason: str, *, fails: bool
) -> None:
    files = required.CAPABILITIES[name].files
    monkeypatch.setitem(required.CAPABILITIES, name, required.Capability(files, lambda: None))
    assert (required.lacking([name], ROOT / "tests/testbed" / file, reason) is not None) is fails


def test_every_file_word_names_a_file_there_is() -> None:
    stems = [path.stem for path in (ROOT / "tests/testbed").glob("test_*.py")]
    for name, capability in required.CAPABILITIES.items():
        assert all(any(word in stem for stem in stems) for word in capability.files), name


def test_the_machine_that_must_pass_goes_without_nothing() -> None:
    [line] = [line for line in (ROOT / ".ci/run").read_text().splitlines() if required.VARIABLE in line]
    named = line.partition(f"{required.VARIABLE}=")[2].split()[0].split(",")
    assert set(named) == {name for name, one in required.CAPABILITIES.items() if not one.on_demand}
