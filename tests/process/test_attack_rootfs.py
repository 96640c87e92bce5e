"""Root file systems of strangers: unpacked below their own folder, whatever they are called, where nobody else can
enter.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from virtlab.errors import MachineError, VirtlabError
from virtlab.testbed.image import rootfs


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def archive(place: Path, *entries: tarfile.TarInfo, content: bytes = b"evil") -> Path:
    with tarfile.open(place, "w") as tar:
        for each in entries:
            each.size = len(content) if each.isreg() else 0
            tar.addfile(each, io.BytesIO(content) if each.isreg() else None)
    return place


DEVICES = pytest.mark.skipif(os.geteuid() != 0, reason="only root unpacks devices")


def device(name: str, kind: bytes, major: int, minor: int) -> tarfile.TarInfo:
    """One that everybody may read and write."""
    made = entry(name, kind, mode=0o666)
    made.devmajor, made.devminor = major, minor
    return made


@pytest.mark.parametrize(
    "evil",
    [
        entry("bin/su", mode=0o4755),
        pytest.param(device("dev/mem", tarfile.CHRTYPE, 1, 1), marks=DEVICES),
        pytest.param(device("dev/ram0", tarfile.BLKTYPE, 1, 0), marks=DEVICES),
    ],
    ids=lambda evil: evil.name,
)
def test_a_setuid_program_or_device_of_an_image_is_none_of_this_machine(
    evil: tarfile.TarInfo, tmp_path: Path
) -> None:
    rootfs.rootfs_folder().mkdir(parents=True, mode=0o755)  # as it was made before
    source = archive(tmp_path / "image.tar", entry("etc/passwd"), evil)
    place = rootfs.add_rootfs("evil", str(source))
    kind = place.joinpath(evil.name).lstat().st_mode if os.path.lexists(place / evil.name) else 0
    if evil.isreg():
        assert kind & stat.S_ISUID or os.geteuid() != 0
    assert stat.S_IMODE(rootfs.rootfs_folder().stat().st_mode) == 0o700
    rootfs.rootfs_folder().chmod(0o755)
    assert rootfs.find_rootfs("evil") == place
    assert stat.S_IMODE(rootfs.rootfs_folder().stat().st_mode) == 0o700
    if os.geteuid() == 0:
        reached = os.fork()
        if reached == 0:
            os.setgroups([])
            os.setgid(65_534)
            os.setuid(65_534)
            os._exit(int(os.access(place / evil.name, os.F_OK)))
        assert os.waitstatus_to_exitcode(os.waitpid(reached, 0)[1]) == 0


@pytest.mark.parametrize(
    "name", ["127.0.0.1:image.tar", "root@host:image.tar", "--checkpoint-action=exec=sh", "-"]
)
def test_the_name_of_an_archive_is_neither_a_host_nor_an_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / name, entry("etc/passwd"))
    assert (rootfs.add_rootfs("plain", name) / "etc/passwd").read_bytes() == b"evil"


def test_the_name_of_a_folder_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "--target-directory=elsewhere"
    (folder / "etc").mkdir(parents=True)
    assert (rootfs.add_rootfs("plain", folder.name) / "etc").is_dir()


def test_an_image_of_an_engine_is_no_option() -> None:
    with pytest.raises(VirtlabError, match="not a valid name of an image"):
        rootfs.add_rootfs("evil", "podman:--volume=/:/host")


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../../../../outside/file")],
        [entry("{outside}/file")],
        [entry("way", tarfile.SYMTYPE, link="{outside}"), entry("way/file")],
        [entry("way", tarfile.SYMTYPE, link="../../../../../outside"), entry("way/file")],
        [entry("same", tarfile.LNKTYPE, link="{outside}/precious"), entry("same")],
    ],
)
def test_no_member_of_an_archive_is_written_outside(entries: list[tarfile.TarInfo], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep me")
    for each in entries:
        each.name = each.name.format(outside=outside)
        each.linkname = each.linkname.format(outside=outside)
    source = archive(tmp_path / "image.tar", entry("etc/passwd"), *entries)
    with contextlib.suppress(MachineError):  # tar refuses some as a whole
        rootfs.add_rootfs("evil", str(source))
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "keep me"
