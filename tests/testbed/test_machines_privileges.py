"""An ordinary user boots virtual machines and runs Open vSwitch in a private world, without sudo."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import disk_world as disks
import machine_world as machines
import pytest
import testbed_world as worlds
from test_testbed_privileges import NOBODY, as_nobody

import virtlab.testbed.platforms.qemu.machines  # loaded before the identity changes: see test_testbed_privileges
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed, image
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(400),
]
COUNT = 10
_ = virtlab.testbed.platforms.qemu.machines


def open_to_all(path: str) -> bool:
    return bool(Path(path).stat().st_mode & 0o006 == 0o006)


TUN = pytest.mark.skipif(not open_to_all("/dev/net/tun"), reason="/dev/net/tun is root's alone here")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the images that an ordinary user has as his own."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "virtlab" / "images"
        shutil.copytree(image.folder() / "cloud", home / "cloud")
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        yield home


def echoes(plan: Plan) -> None:
    """Plays it: every echo is answered."""
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as built:
        sink = worlds.MemorySink()
        outcome = built.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT


@TUN
@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_an_ordinary_user_boots_a_machine(cache: Path) -> None:
    world = machines.machines(worlds.one_host(2), "g1", memory_bytes=100 << 20)
    plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")

    assert as_nobody(lambda: echoes(plan)) == ""
    assert any(cache.glob("initramfs-cloud-*.cpio"))


@TUN
@pytest.mark.skipif(disks.missing() is not None, reason=str(disks.missing()))
def test_an_ordinary_user_boots_a_disk_of_somebody_else(cache: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        image = disks.raw(Path(folder) / "own.img", agent=True)
        image.chmod(0o444)
        world = machines.machines(worlds.one_host(2), "g1", image=str(image))
        plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")

        assert as_nobody(lambda: echoes(plan)) == ""


@TUN
@pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
def test_an_ordinary_user_runs_open_vswitch() -> None:
    world = worlds.one_host(3)
    world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
    plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")

    def work() -> None:
        assert Testbed().check(plan) == []
        with Testbed().open(plan, worlds.Patient()) as built:
            sink = worlds.MemorySink()
            built.run(Trial("t0", 1), sink)
            assert sink.rows("probe", "rtt/1") == COUNT

    assert as_nobody(work) == ""
