"""What appliances have beside a kernel: a disk of their own, which stays as it was, or a disc with their
configuration.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import appliance_world as appliances
import disk_world as disks
import pytest
import testbed_world as worlds
from test_appliances import plan
from test_disk_machines import digest, scratch

from virtlab.errors import MachineError
from virtlab.plan import Observer, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.image import folder
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.appliance import iso
from virtlab.testbed.platforms.appliance.appliances import Appliances

pytestmark = pytest.mark.timeout(600)
ISO = pytest.mark.skipif(appliances.drive_missing() is not None, reason=str(appliances.drive_missing()))
COUNT = 20


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "configuration"


def left() -> list[Path]:
    """What is in the cache, and noted, of discs."""
    return [*folder().glob("appliance-*"), *far_ledger.folder().glob("*")]


@pytest.mark.skipif(disks.missing() is not None, reason=str(disks.missing()))
def test_packets_go_through_a_router_that_boots_its_own_disk_and_the_disk_stays_as_it_was(
    configuration: Path, tmp_path: Path
) -> None:
    disk = disks.raw(tmp_path / "own.img", agent=False)
    appliances.install_disk(configuration, disk, "raw")
    before, files = digest(disk), scratch()
    wanted = plan(tmp_path)
    assert Testbed().check(wanted) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        applied = session.realised.objects["guests.r1"].applied
        assert (applied["boots"], applied["boots_sha256"]) == ("own.img", before)
        console = sink.artefacts["console-r1.log"].decode(errors="replace")
        assert "own disk: written at" in console, "it wrote on what it took for its disk, and read that"
        assert scratch() <= files, "what it writes has no name"
    assert digest(disk) == before


@ISO
def test_packets_go_through_a_router_that_reads_its_configuration_from_its_disc_which_goes_with_the_run(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appliances.install_with_a_disc(configuration)
    modes: list[int] = []
    awaited = Appliances._await

    def looks(self: Appliances, names: list[str], observe: Observer) -> None:
        for made in self._isos:
            modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (made.path.parent, made.path))
        awaited(self, names, observe)

    monkeypatch.setattr(Appliances, "_await", looks)
    wanted = plan(tmp_path)
    assert Testbed().check(wanted) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        console = sink.artefacts["console-r1.log"].decode(errors="replace")
        assert "r1 has 2 ports" in console
        assert "ip address add" not in console, "nobody typed it"
    assert len(modes) == 2
    assert modes[0] & 0o077 == 0, "nobody else comes to a file with passwords"
    assert left() == []


@ISO
def test_a_disc_that_a_dead_owner_left_goes_when_the_next_is_made(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dead = iso.write({"user-data": "secret"}, "cidata")
    dead._entry.close(gone=False)  # as the death of its process would
    heir = iso.write({"user-data": "other"}, "cidata")
    assert [path for path in left() if path.suffix != ".json"] == [heir.path.parent]
    heir.close()
    assert left() == []


@ISO
def test_a_cache_without_room_for_a_disc_is_the_machines_fault_and_the_cure_is_told(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(MachineError, match=r"appliance: .*file.* cannot be written") as error:
        iso.write({"user-data": "secret"}, "cidata")
    assert "XDG_CACHE_HOME" in error.value.cure
    assert list(far_ledger.folder().glob("*")) == []


@ISO
@pytest.mark.skipif(not Path("/dev/full").exists() or os.geteuid() != 0, reason="/dev/full, as root")
def test_what_the_program_says_that_finds_no_room_is_told(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = Path.open

    def full(self: Path, *words: str, **more: str) -> object:
        return opened(Path("/dev/full") if self.suffix == ".iso" else self, *words, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(MachineError, match=r"made no image in .*cache") as error:
        iso.write({"user-data": "secret"}, "cidata")
    assert "make room" in error.value.cure
    assert left() == []
