"""One testbed run at a time per machine: a second one waits, or says who holds it, whoever its user is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from virtlab.campaign.machine_lock import FILE_NAME, MachineLock, places
from virtlab.errors import MachineError
from virtlab.results import Holder

HOLD = """
import sys, time
from pathlib import Path
from virtlab.campaign import MachineLock
lock = MachineLock("their study", folder=Path(sys.argv[1]))
lock.acquire(wait=False)
print("held", flush=True)
time.sleep(60)
"""


def held_by_another(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_refused_with_who_holds_the_machine(tmp_path: Path) -> None:
    other = held_by_another(tmp_path)
    try:
        with pytest.raises(MachineError, match=rf"process {other.pid} \(their study\) since 20") as caught:
            MachineLock("mine", folder=tmp_path).acquire(wait=False)
        assert caught.value.exit_code == 3
    finally:
        other.kill()
        other.communicate()
    with MachineLock("mine", folder=tmp_path) as lock:
        assert lock.acquire(wait=False)  # its holder died: nothing stale stays


def test_a_second_run_waits_and_says_for_whom_once(tmp_path: Path) -> None:
    other = held_by_another(tmp_path)
    said: list[Holder | None] = []
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:  # it has waited, and gone on waiting
            other.kill()
        return False

    with MachineLock("mine", folder=tmp_path) as lock:
        assert lock.acquire(wait=True, waiting=said.append, cancelled=cancelled)
    other.communicate()
    assert [holder.what for holder in said if holder] == ["their study"]


def test_waiting_ends_when_cancelled(tmp_path: Path) -> None:
    with MachineLock("first", folder=tmp_path) as first, MachineLock("second", folder=tmp_path) as second:
        first.acquire(wait=False)
        begun = time.monotonic()
        assert not second.acquire(wait=True, cancelled=lambda: time.monotonic() > begun + 0.3)


def test_the_lock_can_be_opened_by_every_user_of_the_machine(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with MachineLock("mine", folder=tmp_path) as lock:
            lock.acquire(wait=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o644


@pytest.mark.timeout(1500)  # it waits while a run holds the machine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_meets_the_lock_of_root() -> None:
    program = (
        "import os\n"
        "from virtlab.campaign import MachineLock\n"
        "os.setgroups([]); os.setuid(65534)\n"
        "MachineLock('theirs').acquire(wait=False)\n"
    )
    command = [sys.executable, "-c", program]
    with MachineLock("mine") as lock:
        lock.acquire(wait=True)
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"process {os.getpid()} (mine)" in refused.stderr
        assert refused.returncode != 0


def test_a_symbolic_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (tmp_path / FILE_NAME).symlink_to(precious)
    with pytest.raises(MachineError, match="XDG_RUNTIME_DIR"):
        MachineLock("mine", folder=tmp_path).acquire(wait=False)
    assert precious.read_text() == "keep me"


def test_where_run_lock_is_missing_the_runtime_folder_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert (tmp_path, True) in places()
    nowhere = tmp_path / "nowhere"
    wanted = [(nowhere, False), (nowhere, True), (tmp_path, True)]
    monkeypatch.setattr("virtlab.campaign.machine_lock.places", lambda: wanted)
    with MachineLock("mine") as lock:
        assert lock.acquire(wait=False)
    assert (tmp_path / FILE_NAME).exists()
