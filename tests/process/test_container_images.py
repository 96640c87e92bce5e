"""Images of containers, read from folders, archives and engines by cp, tar and the engine."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from virtlab.errors import ExperimentError, MachineError
from virtlab.testbed.image import rootfs
from virtlab.testbed.image.entry import entry_point


def test_an_image_is_kept_replaced_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "file").write_text("1")
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        tar.add(tmp_path / "one" / "file", "other")
    rootfs.add_rootfs("a", str(tmp_path / "one"))
    assert rootfs.list_rootfs() == ["a"]
    place = rootfs.add_rootfs("a", str(tmp_path / "two.tar"))
    assert [path.name for path in place.iterdir()] == ["other"]
    rootfs.remove_rootfs("a")
    assert rootfs.find_rootfs("a") is None
    assert list(rootfs.rootfs_folder().iterdir()) == []


def test_what_somebody_left_who_was_killed_goes_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "file").write_text("1")
    home = rootfs.rootfs_folder()
    for name in (".new-x", ".old-.new-x"):
        (home / name / "etc").mkdir(parents=True)
    (home / ".new-x.tar").write_text("half of it")
    rootfs.add_rootfs("a", str(tmp_path / "one"))
    assert len(list(home.iterdir())) == 4, "somebody may still be at work"
    monkeypatch.setattr(rootfs, "LEFT_S", 0)
    rootfs.add_rootfs("b", str(tmp_path / "one"))
    assert sorted(path.name for path in home.iterdir()) == ["a", "b"]


def test_an_image_comes_out_of_an_engine_as_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "file").write_text("1")
    engine = tmp_path / "podman"
    log = tmp_path / "log"
    engine.write_text(
        f'#!/bin/sh\necho "$@" >> {log}\ncase $1 in create) echo f00 ;; '
        f'export) tar -c -f "$3" -C {tmp_path} file ;; '
        'image) echo \'{"Cmd": ["bash"]}\' ;; esac\n'
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = rootfs.add_rootfs("a", "podman:debian:12")
    assert [path.name for path in place.iterdir()] == ["file"]
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["create", "export", "image", "rm"]
    assert rootfs.list_rootfs() == ["a"]
    assert entry_point("a", place).argv == ("bash",)


@pytest.mark.parametrize("source", ["nowhere", "empty"])
def test_a_source_without_files_is_refused_and_leaves_nothing(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExperimentError, match=r"no '|is empty"):
        rootfs.add_rootfs("a", str(tmp_path / source))
    with pytest.raises(ExperimentError, match="is not a valid name"):
        rootfs.add_rootfs("../a", str(tmp_path))
    assert list(rootfs.rootfs_folder().iterdir()) == []


def test_a_broken_archive_is_told_in_the_programs_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "x.tar").write_text("no archive at all, " * 100)
    with pytest.raises(MachineError, match="tar: "):
        rootfs.add_rootfs("a", str(tmp_path / "x.tar"))
