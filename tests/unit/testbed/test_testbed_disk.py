"""Disk images and what is put into them: told by their content, named by their digest, refused with the cure."""

from __future__ import annotations

import json
import os
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest

from virtlab.errors import MachineError
from virtlab.testbed.image import carried, firmware
from virtlab.testbed.image.disk import HEAD_BYTES, Disk, fingerprint, look
from virtlab.testbed.image.elf import is_static
from virtlab.testbed.leader.process import agent_path

BOOTABLE = bytes(510) + b"\x55\xaa"


def qcow2(size_bytes: int, base: str = "") -> bytes:
    place = 80 if base else 0
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", 2, place, len(base), 16, size_bytes)
    return head.ljust(80, b"\0") + base.encode()


def agent_missing() -> str | None:
    try:
        agent_path()
    except MachineError as error:
        return error.what
    return None


def test_a_disk_is_what_its_content_says_not_its_name(tmp_path: Path) -> None:
    image = tmp_path / "cloud.img"
    image.write_bytes(qcow2(5 << 30, "base.raw"))
    (tmp_path / "base.raw").write_bytes(BOOTABLE)
    found = look("guests.g.image", str(image))
    base = Disk(tmp_path / "base.raw", "raw", len(BOOTABLE))
    assert (found.format, found.size_bytes, found.base) == ("qcow2", 5 << 30, base)
    assert found.facts()["image_base"] == "base.raw"
    image.write_bytes(BOOTABLE + bytes(4096))
    found = look("guests.g.image", str(image))
    assert (found.format, found.size_bytes, found.base) == ("raw", 512 + 4096, None)
    assert found.facts() == {
        "image": "cloud.img", "image_format": "raw", "image_base": None, "disk_bytes": 4608,
        "image_sha256": fingerprint(image),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "there is no disk image"),
        (b"", "is not a disk to boot"),
        (bytes(4096), "no boot signature"),
        (b"QFI\xfb", "is not a disk"),
    ],
)
def test_what_is_no_disk_is_told_with_the_cure(content: bytes | None, what: str, tmp_path: Path) -> None:
    image = tmp_path / "own.img"
    if content is not None:
        image.write_bytes(content)
    with pytest.raises(MachineError, match=what) as error:
        look("guests.g.image", str(image))
    assert error.value.where == "guests.g.image"
    assert str(image) in error.value.what
    assert error.value.cure


def test_a_folder_is_no_disk(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read"):
        look("guests.g.image", str(tmp_path))


def test_a_path_is_of_the_working_folder_or_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "disks").mkdir()
    (tmp_path / "disks" / "own.raw").write_bytes(BOOTABLE)
    for name in ("disks/own.raw", "~/disks/own.raw", str(tmp_path / "disks/../disks/own.raw")):
        assert look("g", name).path == tmp_path / "disks" / "own.raw"


@pytest.mark.slow
def test_large_disks_are_told_apart_by_their_ends_size_and_time(tmp_path: Path) -> None:
    image = tmp_path / "large.raw"
    image.write_bytes(BOOTABLE)
    os.truncate(image, HEAD_BYTES + (8 << 20))
    os.utime(image, (1, 1))
    seen = {fingerprint(image)}
    assert fingerprint(image) in seen
    os.utime(image, (2, 2))
    seen.add(fingerprint(image))
    with image.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(image, (2, 2))
    seen.add(fingerprint(image))
    assert len(seen) == 3


@pytest.mark.skipif(agent_missing() is not None, reason=str(agent_missing()))
def test_what_goes_into_an_image_is_one_archive_that_needs_nothing_there(tmp_path: Path) -> None:
    place = carried.write(tmp_path / "agent.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["agent.tar"]
    with tarfile.open(place) as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert all(member.uid == member.gid == 0 for member in members.values())
        agent = tar.extractfile(carried.AGENT)
        assert agent is not None
        assert is_static(agent.read())
        link = members[carried.ENABLED]
        assert link.issym()
        assert link.linkname == f"/{carried.UNIT}"
    for name in (carried.AGENT, carried.STARTER, carried.OPENRC):
        assert members[name].mode == 0o755
    words = carried.instructions(place)
    for word in ("agent.tar", carried.INITTAB, carried.SYSV, "rc-update add virtlab-guest"):
        assert word in words


def test_an_archive_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "archive", lambda: b"")
    with pytest.raises(MachineError, match="cannot be written"):
        carried.write(tmp_path / "nowhere" / "agent.tar")


def described(folder: Path, name: str, **more: Any) -> Path:
    """A firmware's description, and its two files."""
    code, variables = (folder / f"{name}-{part}.fd" for part in ("code", "variables"))
    code.write_bytes(b"code of " + name.encode())
    variables.write_bytes(b"variables")
    said = {
        "interface-types": ["uefi"],
        "mapping": {
            "device": "flash",
            "executable": {"filename": str(code), "format": "raw"},
            "nvram-template": {"filename": str(variables), "format": "raw"},
        },
        "targets": [{"architecture": "x86_64", "machines": ["pc-i440fx-*", "pc-q35-*"]}],
        "features": ["acpi-s3"],
        **more,
    }
    (folder / f"{name}.json").write_text(json.dumps(said))
    return code


def test_firmware_is_the_first_whose_description_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firmware, "FOLDERS", (tmp_path,))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    assert firmware.find() is None
    described(tmp_path, "10-bios", **{"interface-types": ["bios"]})
    described(tmp_path, "20-secure", features=["requires-smm", "secure-boot"])
    described(tmp_path, "30-arm", targets=[{"architecture": "aarch64", "machines": ["virt-*"]}])
    described(tmp_path, "40-memory", mapping={"device": "memory", "filename": "/nothing"})
    (tmp_path / "50-broken.json").write_text("{")
    described(tmp_path, "55-gone").unlink()
    assert firmware.find() is None
    wanted = described(tmp_path, "60-plain")
    described(tmp_path, "70-later")
    found = firmware.find()
    assert found is not None
    assert found.executed == wanted
    assert found.facts()["firmware"] == "60-plain-code.fd"
    own = tmp_path / "own" / "qemu" / "firmware"
    own.mkdir(parents=True)
    (own / "60-plain.json").write_text("{}")
    found = firmware.find()
    assert found is not None
    assert found.executed.name == "70-later-code.fd", "the user's own description hides the installed one"
