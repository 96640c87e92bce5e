"""`up`, `shell`, `exec`, `down`: a world that outlives the command which built it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.errors import ExperimentError, MachineError
from virtlab.testbed.up import world as kept

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Not pytest's own folder, which nobody else can enter: a test below has to knock from outside.
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name)
        for world in kept.worlds().values():
            kept.end(world)


def run(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    code = "from virtlab.cli.main import main; import sys; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *words], input=given, capture_output=True, check=False, timeout=200
    )


def test_a_kept_world_takes_commands_and_ends_with_down(folder: Path) -> None:
    world = kept.keep(worlds.plan(worlds.bridged()), "w", "test", worlds.Patient())
    assert oct(world.socket.stat().st_mode & 0o777) == "0o600"
    done = run("exec", "a", "--", "sh", "-c", "hostname; cat; exit 7", given=b"given\n")
    assert (done.returncode, done.stdout) == (7, b"a\ngiven\n")
    shell = run("shell", "b", given=b"hostname\n")
    assert shell.stdout == b"b\n"
    assert run("exec", "c", "--", "true").returncode == 2
    assert b"w is gone" in run("down").stdout
    assert kept.worlds() == {}
    assert list((folder / "virtlab").iterdir()) == []
    assert run("down").returncode == 2


def test_a_kept_world_ends_by_itself_when_nobody_comes(folder: Path) -> None:
    kept.keep(worlds.plan(worlds.one_host()), "w", "test", worlds.Patient(), idle_ns=300_000_000)
    end = time.monotonic() + 60
    while kept.worlds() and time.monotonic() < end:
        time.sleep(1.0)  # whoever looks knocks, and the world begins to count anew
    assert kept.worlds() == {}


def test_names_are_checked_and_not_taken_twice(folder: Path) -> None:
    with pytest.raises(ExperimentError, match="not a valid name for a world"):
        kept.keep(worlds.plan(worlds.one_host()), "../w", "test", worlds.Patient())
    kept.keep(worlds.plan(worlds.one_host()), "w", "test", worlds.Patient())
    with pytest.raises(ExperimentError, match="kept already"):
        kept.keep(worlds.plan(worlds.one_host()), "w", "test", worlds.Patient())
    kept.keep(worlds.plan(worlds.one_host()), "v", "test", worlds.Patient())
    with pytest.raises(ExperimentError, match="several: v, w"):
        kept.find(None)


def test_a_folder_that_others_can_write_in_is_refused(folder: Path) -> None:
    (folder / "virtlab").mkdir(mode=0o700)
    (folder / "virtlab").chmod(0o777)
    with pytest.raises(MachineError, match="this user alone"):
        kept.worlds()
    (folder / "virtlab").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to knock as somebody else")
def test_another_user_is_not_let_in(folder: Path) -> None:
    world = kept.keep(worlds.plan(worlds.one_host()), "w", "test", worlds.Patient())
    for path in (folder, folder / "virtlab"):
        path.chmod(0o755)
    world.socket.chmod(0o666)
    script = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(60); "
        "sys.exit(0 if s.recv(1) == b'' else 1)"
    )
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("needs a Python that nobody can execute")
    done = subprocess.run(
        [python, "-c", script, str(world.socket)], user=65534, group=65534, extra_groups=[], check=False
    )
    (folder / "virtlab").chmod(0o700)
    assert done.returncode == 0
