"""What a virtual machine boots: the archive, the order of modules, programs without what is never loaded."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.cli.main import main
from virtlab.errors import MachineError
from virtlab.testbed.image import boot_image, build, find, kernels, modules
from virtlab.testbed.image.archive import Archive
from virtlab.testbed.image.elf import is_elf, is_static, loaded_part, module_facts
from virtlab.testbed.image.initramfs import cached, find_busybox
from virtlab.testbed.leader.process import agent_path


def module(*, depends: str = "", alias: tuple[str, ...] = ()) -> bytes:
    """A kernel module as far as its facts go: an ELF file with one section."""
    facts = b"".join(
        f"{key}={value}\0".encode() for key, value in [("depends", depends), *(("alias", a) for a in alias)]
    )
    names = b"\0.modinfo\0.shstrtab\0"
    at = 64
    sections = [
        struct.pack("<IIQQQQ", 0, 0, 0, 0, 0, 0),
        struct.pack("<IIQQQQ", 1, 1, 0, 0, at, len(facts)),
        struct.pack("<IIQQQQ", 10, 3, 0, 0, at + len(facts), len(names)),
    ]
    table_at = at + len(facts) + len(names)
    head = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<Q", head, 40, table_at)
    struct.pack_into("<HHH", head, 58, 40, len(sections), 2)
    return bytes(head) + facts + names + b"".join(sections)


def test_an_archive_is_read_back_by_cpio(tmp_path: Path) -> None:
    program = shutil.which("busybox") or shutil.which("cpio")
    if program is None:
        pytest.skip("neither busybox nor cpio is installed")
    archive = Archive()
    archive.file("lib/deep/inside.txt", b"hello")
    archive.file("init", b"#!/bin/sh\n", executable=True)
    archive.link("bin/sh", "busybox")
    command = [program, "cpio", "-idm"] if program.endswith("busybox") else [program, "-idm"]
    subprocess.run(command, cwd=tmp_path, input=bytes(archive), check=True, capture_output=True)
    assert (tmp_path / "lib/deep/inside.txt").read_bytes() == b"hello"
    assert os.access(tmp_path / "init", os.X_OK)
    assert (tmp_path / "bin/sh").readlink() == Path("busybox")


def test_modules_come_after_what_they_need_and_what_is_built_in_is_left_out() -> None:
    found = {"virtio_net": module(depends="net_failover,virtio"), "net_failover": module(depends="failover"),
             "failover": module(), "sch_htb": module(alias=("net-sch-htb",))}  # fmt: skip
    order = list(modules.closure(["virtio_net", "sch_htb"], found.get))
    assert order == ["failover", "net_failover", "virtio_net", "sch_htb"]
    dependencies, names = modules.tables(modules.closure(["virtio_net", "sch_htb"], found.get))
    assert "virtio_net.ko: net_failover.ko failover.ko\n" in dependencies
    assert "failover.ko:\n" in dependencies.splitlines(keepends=True)
    assert names == "alias net-sch-htb sch_htb\n"


def test_a_ring_of_needs_is_refused_by_nothing_that_loops() -> None:
    assert module_facts(module(depends="a,b"))["depends"] == ["a,b"]
    with pytest.raises(ValueError, match="not a kernel module"):
        module_facts(b"#!/bin/sh\n")


def test_the_agent_runs_without_what_is_never_loaded(tmp_path: Path) -> None:
    whole = agent_path().read_bytes()
    assert is_static(whole)
    assert not is_static(Path(sys.executable).resolve().read_bytes()) or not is_elf(
        Path(sys.executable).read_bytes()
    )
    small = loaded_part(whole)
    assert len(small) < len(whole)
    path = tmp_path / "agent"
    path.write_bytes(small)
    path.chmod(0o755)
    said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("virtlab-agent ")


def test_without_a_kernel_the_cure_is_the_command_that_fetches_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find("cloud") is None
    with pytest.raises(MachineError, match="virtlab image build --kernel cloud"):
        boot_image("cloud")


def test_a_new_image_forgets_those_of_other_days_and_what_a_killed_one_left_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.folder()
    folder.mkdir(parents=True)
    names = [
        "initramfs-xen-1.cpio",
        ".initramfs-xen-2.cpio.77",
        "initramfs-xen-3.cpio",
        ".initramfs-xen-4.cpio.78",
    ]
    for number, name in enumerate([*names, "initramfs-cloud-1.cpio"]):
        (folder / name).write_bytes(b"old")
        if number not in {2, 3}:
            os.utime(folder / name, (0, 0))
    made = cached("xen", "5", lambda: b"new")
    assert made.read_bytes() == b"new"
    assert {path.name for path in folder.iterdir()} == {*names[2:], "initramfs-cloud-1.cpio", made.name}


def test_a_package_without_a_kernel_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache/virtlab/images/.build-killed/unpacked").mkdir(parents=True)
    control = tmp_path / "tree" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text(
        "Package: empty\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: empty\n"
    )
    package = tmp_path / "empty.deb"
    subprocess.run(["dpkg-deb", "-b", str(tmp_path / "tree"), str(package)], check=True, capture_output=True)
    with pytest.raises(MachineError, match="holds no kernel"):
        build("cloud", package)
    assert [path.name for path in (tmp_path / "cache/virtlab/images").iterdir()] == [".lock"]


def test_a_package_with_a_kernel_is_kept_with_the_modules_that_a_guest_wants(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    try:
        find_busybox()
    except MachineError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    drivers = tree / "lib/modules/9.9-test/kernel/drivers"
    drivers.mkdir(parents=True)
    (drivers / "virtio_net.ko").write_bytes(module(depends="net-failover"))
    (drivers / "net-failover.ko").write_bytes(module())
    (drivers / "weather.ko").write_bytes(module())
    (tree / "boot").mkdir()
    (tree / "boot/vmlinuz-9.9-test").write_bytes(b"kernel")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: linux-image-test\nVersion: 9.9\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: test\n"
    )
    package = tmp_path / "linux-image-test_9.9_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree), str(package)], check=True, capture_output=True)
    kernel = build("cloud", package)
    assert kernel.version == "9.9-test"
    assert kernel.modules() == ["net_failover", "virtio_net"]
    first = boot_image("cloud").initramfs
    assert b"virtlab.agent" in first.read_bytes()
    assert boot_image("cloud").initramfs == first, "nothing changed, so nothing is made again"
    build("cloud", package)
    assert find("cloud") == kernel, "a second build replaces the first"


def program(place: Path, script: str) -> None:
    """A program that stands for one of the distribution's."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    place.chmod(0o755)


def test_a_package_is_found_whatever_language_apt_speaks_to_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says = 'if [ "$LC_ALL" = C ]; then echo "  Depends: linux-image-9"; else echo "  Hängt ab von: linux-image-9"; fi'
    program(tmp_path / "bin" / "apt-cache", says)
    program(tmp_path / "bin" / "apt-get", "echo package > linux-image-9_1_amd64.deb")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    found = kernels._fetch("linux-image-amd64", tmp_path)
    assert found.name == "linux-image-9_1_amd64.deb"


def test_a_full_disk_is_told_as_such_whoever_finds_it_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = "tar: ./boot: Cannot write: No space left on device\ndpkg-deb: error: tar subprocess ended with 2"
    program(tmp_path / "bin" / "dpkg-deb", f'echo "{words}" >&2; exit 2')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        MachineError, match=r"cannot be written \(No space left on device\); make room, or set"
    ):
        build("cloud", tmp_path / "some.deb")
    program(tmp_path / "bin" / "dpkg-deb", 'echo "some.deb is no archive" >&2; exit 2')
    with pytest.raises(MachineError, match="is no archive; give a package of Debian that is whole"):
        build("cloud", tmp_path / "some.deb")


def kernel_package(folder: Path, version: str) -> Path:
    """A Debian package with a file that stands for a kernel, and a module."""
    root = folder / version
    for path, content in (
        ("DEBIAN/control", f"Package: linux-{version}\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"),
        (f"boot/vmlinuz-{version}", f"the kernel {version}"),
        (f"lib/modules/{version}/modules.builtin", ""),
    ):  # fmt: skip
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    file = folder / f"linux-image-{version}_1_amd64.deb"
    subprocess.run(["dpkg-deb", "--build", root, file], check=True, capture_output=True)
    return file


def busybox_missing() -> str | None:
    """Why no machine's first programs can be packed here, or None."""
    try:
        find_busybox()
    except MachineError as error:
        return str(error)
    return None


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here")
@pytest.mark.skipif(busybox_missing() is not None, reason=str(busybox_missing()))
def test_every_kernel_is_made_of_the_package_that_is_named_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, other = kernel_package(tmp_path, "6.1.0-1-cloud-amd64"), kernel_package(tmp_path, "6.1.0-2-amd64")

    def built(*options: str | Path) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["image", "build", *map(str, options)])
        return int(ended.value.code or 0)

    assert built("--kernel", "all", "--package", one, "--package", other) == 0
    kept = {flavour: find(flavour) for flavour in ("cloud", "generic")}
    assert {flavour: found and found.version for flavour, found in kept.items()} == {
        "cloud": "6.1.0-1-cloud-amd64",
        "generic": "6.1.0-2-amd64",
    }
    capsys.readouterr()
    assert built("--kernel", "all", "--package", one) == 2
    assert built("--package", one, "--package", other) == 2
    assert capsys.readouterr().err.count("a package holds one; name one for each, in this order") == 2
