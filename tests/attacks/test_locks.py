"""The lock of the machine lies where every user can put a file: nothing in it is believed, shown or written to."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from virtlab.campaign import machine_lock
from virtlab.campaign.machine_lock import FILE_NAME, MachineLock
from virtlab.errors import MachineError
from virtlab.results import Holder

ANOTHER = 65_534
EVIL = {"pid": 1, "what": "x\x1b]0;owned\x07\x1b[2J\u202e", "since": "2026"}
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def held(place: Path) -> int:
    """Held by this process on a descriptor of its own, as by another."""
    descriptor = os.open(place, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def refused(folder: Path) -> str:
    with pytest.raises(MachineError) as caught:
        MachineLock("mine", folder=folder).acquire(wait=False)
    return str(caught.value)


@ROOT
def test_the_words_of_another_user_are_not_shown_but_the_process_by_the_kernel(tmp_path: Path) -> None:
    place = tmp_path / FILE_NAME
    place.write_text(json.dumps(EVIL))
    os.chown(place, ANOTHER, ANOTHER)
    descriptor = held(place)
    try:
        said = refused(tmp_path)
    finally:
        os.close(descriptor)
    assert f"process {os.getpid()} (of user {os.geteuid()})" in said
    assert said.isprintable()


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(EVIL),
        "[" * 100_000,
        '{"pid": 1e999, "what": "", "since": ""}',
        "9" * 9000,
        "\0" * (1 << 20),
    ],
)
def test_words_that_are_none_are_passed_over(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    descriptor = held(tmp_path / FILE_NAME)
    try:
        assert refused(tmp_path).isprintable()
    finally:
        os.close(descriptor)


@ROOT
def test_root_writes_nothing_into_a_file_of_another_user(tmp_path: Path) -> None:
    place = tmp_path / FILE_NAME
    place.write_text("theirs")
    os.chown(place, ANOTHER, ANOTHER)
    with MachineLock("mine", folder=tmp_path) as lock:
        assert lock.acquire(wait=False)
    assert place.read_text() == "theirs"


def test_a_second_name_of_a_file_of_ours_is_not_written_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    os.link(precious, tmp_path / FILE_NAME)
    with MachineLock("mine", folder=tmp_path) as lock:
        assert lock.acquire(wait=False)
    assert precious.read_text() == "keep me"


@pytest.mark.timeout(10)
def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    assert "not a regular file" in refused(tmp_path)


def test_users_who_meet_in_the_shared_folder_exclude_each_other_and_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, shared = tmp_path / "root", tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(machine_lock, "ROOT_FOLDER", root)
    monkeypatch.setattr(machine_lock, "SHARED_FOLDER", shared)
    theirs = [(root, False), (shared, True)]
    ours = [(root, True), (shared, False)]
    monkeypatch.setattr(machine_lock, "places", lambda: theirs)
    user = MachineLock("theirs")
    user.acquire(wait=False)  # before root ever was here
    monkeypatch.setattr(machine_lock, "places", lambda: ours)
    monkeypatch.setattr(machine_lock, "_make_root_folder", lambda: root.mkdir(exist_ok=True))
    with pytest.raises(MachineError, match="theirs"):
        MachineLock("root's").acquire(wait=False)
    user.release()
    with MachineLock("root's") as lock:
        assert lock.acquire(wait=False)
        (shared / FILE_NAME).unlink()  # a user may do that, and root's is still held
        with pytest.raises(MachineError, match="root's"):
            user.acquire(wait=False)


@ROOT
def test_root_s_lock_lies_where_only_root_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "virtlab"
    monkeypatch.setattr(machine_lock, "ROOT_FOLDER", root)
    monkeypatch.setattr(machine_lock, "SHARED_FOLDER", tmp_path / "none")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    before = os.umask(0o077)
    try:
        with MachineLock("mine") as lock:
            lock.acquire(wait=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert stat.S_IMODE((root / FILE_NAME).stat().st_mode) == 0o644
    root.chmod(0o777)
    with pytest.raises(MachineError, match="not root's alone"):
        MachineLock("mine").acquire(wait=False)


def test_what_a_holder_says_of_itself_is_one_line() -> None:
    assert str(Holder(7, "of user 1000")) == "process 7 (of user 1000)"
