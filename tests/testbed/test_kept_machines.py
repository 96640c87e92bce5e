"""A virtual machine in a kept world: it lives on when whoever built it leaves, and commands run inside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.testbed.up import world as kept

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(400),
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[kept.World]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = kept.keep(worlds.plan(machines.beside_a_namespace()), "w", "a test", worlds.Patient())
    try:
        yield made
    finally:
        kept.end(made)


def inside(guest: str, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "virtlab"), "exec", "--name", "w", guest, "--", *argv]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def test_commands_run_in_the_machine_one_after_the_other(world: kept.World) -> None:
    assert world.leaders["g1"][0] > 0
    here = Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    for _ in range(2):
        said = inside("g1", "uname", "-r")
        assert (said.returncode, said.stderr) == (0, "")
        assert said.stdout.strip() not in {"", here}, "its own kernel, not ours"
    piped = inside("g1", "sh", "-c", "cat; exit 7", given="hello\n")
    assert (piped.returncode, piped.stdout) == (7, "hello\n")
    assert inside("g1", "ping", "-c", "1", "10.0.0.2").returncode == 0
    assert inside("g1", "no-such-program").returncode != 0
    assert inside("g2", "cat", "/proc/sys/kernel/osrelease").stdout.strip() == here
