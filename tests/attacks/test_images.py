"""Disk images of strangers: a header that names other files would have them read, and sent to whoever runs in the
guest.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.testbed.image.disk import Disk, look
from virtlab.testbed.platforms.appliance import recipe

DATA_ELSEWHERE = 1 << 2
BASE_FORMAT, DATA_FILE = 0xE2792ACA, 0x44415441
HEADER_BYTES = 104
SECRET = b"root:secret"


def qcow2(
    base: str = "", *, features: int = 0, extensions: dict[int, bytes] | None = None, version: int = 3
) -> bytes:
    """A header of the kind qcow2, of version 3 or 2, with its extensions and the name of its base."""
    more = b"".join(
        struct.pack(">II", kind, len(content)) + content.ljust(-(-len(content) // 8) * 8, b"\0")
        for kind, content in (extensions or {}).items()
    )
    more += bytes(8)
    begin = HEADER_BYTES if version == 3 else 72
    place = begin + len(more) if base else 0
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", version, place, len(base.encode()), 16, 1 << 20).ljust(
        72, b"\0"
    )
    if version == 3:
        head += struct.pack(">QQQII", features, 0, 0, 4, HEADER_BYTES)
    return (head + more + base.encode()).ljust(1 << 16, b"\0")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the folder of the images that none of them may have read."""
    place = tmp_path / "secret"
    place.write_bytes(SECRET)
    (tmp_path / "images").mkdir()
    return place


def image_in(tmp_path: Path, content: bytes, name: str = "evil.qcow2") -> Path:
    place = tmp_path / "images" / name
    place.write_bytes(content)
    return place


@pytest.mark.parametrize(
    "name",
    [
        "{secret}",
        "../secret",
        "./base.raw",
        "..",
        "file:base.raw",
        "file:{secret}",
        'json:{{"driver":"file","filename":"{secret}"}}',
        "nbd:127.0.0.1:10809",
        "http://127.0.0.1/base",
        "ssh://127.0.0.1/secret",
        "fat:rw:images",
        "host_device:base",
        "base\0.raw",
        "base\x1b[2J.raw",
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_a_base_is_a_bare_name_beside_the_image(
    name: str, version: int, tmp_path: Path, secret: Path
) -> None:
    image_in(tmp_path, SECRET, "base.raw")
    image = image_in(tmp_path, qcow2(name.format(secret=secret), version=version))
    with pytest.raises(MachineError, match="not the bare name of a file beside it") as error:
        look("guests.g.image", str(image))
    assert str(error.value).isprintable()
    assert error.value.cure


def test_a_base_that_is_a_link_is_not_followed(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "images" / "base.raw").symlink_to(secret)
    with pytest.raises(MachineError, match="it is a link"):
        look("guests.g.image", str(image_in(tmp_path, qcow2("base.raw"))))


@pytest.mark.parametrize("kind", [b"vmdk", b"nbd", b"host_device", b"vvfat"])
def test_a_base_is_raw_or_qcow2(kind: bytes, tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    image_in(tmp_path, SECRET, "base")
    image = image_in(tmp_path, qcow2("base", extensions={BASE_FORMAT: kind}))
    with pytest.raises(MachineError, match="not raw or qcow2"):
        look("guests.g.image", str(image))


@pytest.mark.parametrize(
    "content",
    [
        qcow2(features=DATA_ELSEWHERE, extensions={DATA_FILE: b"/etc/shadow"}),
        qcow2(features=DATA_ELSEWHERE),
        qcow2(extensions={DATA_FILE: b"base.raw"}),
    ],
)
def test_the_data_of_an_image_are_in_it(content: bytes, tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    with pytest.raises(MachineError, match="keeps its data in a file"):
        look("guests.g.image", str(image_in(tmp_path, content)))


def test_a_base_is_looked_at_like_the_image_itself(tmp_path: Path, secret: Path) -> None:
    image_in(tmp_path, qcow2(str(secret)), "middle.qcow2")
    with pytest.raises(MachineError, match=r"middle\.qcow2 names .* not the bare name"):
        look("guests.g.image", str(image_in(tmp_path, qcow2("middle.qcow2"))))
    image_in(tmp_path, qcow2(features=DATA_ELSEWHERE), "middle.qcow2")
    with pytest.raises(MachineError, match=r"middle\.qcow2 keeps its data"):
        look("guests.g.image", str(tmp_path / "images" / "evil.qcow2"))


def test_images_that_build_upon_each_other_for_ever_are_refused(tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    image_in(tmp_path, qcow2("other.qcow2"))
    image_in(tmp_path, qcow2("evil.qcow2"), "other.qcow2")
    with pytest.raises(MachineError, match="itself in the end"):
        look("guests.g.image", str(tmp_path / "images" / "evil.qcow2"))
    for number in range(100):
        image_in(tmp_path, qcow2(f"{number + 1}.qcow2"), f"{number}.qcow2")
    with pytest.raises(MachineError, match="more than 8 images"):
        look("guests.g.image", str(tmp_path / "images" / "0.qcow2"))


@pytest.mark.timeout(10)
def test_what_is_no_regular_file_is_neither_opened_for_long_nor_booted(tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    os.mkfifo(tmp_path / "images" / "base.raw")
    for place in (image_in(tmp_path, qcow2("base.raw")), tmp_path / "images" / "base.raw"):
        with pytest.raises(MachineError, match="no regular file"):
            look("guests.g.image", str(place))


@pytest.mark.parametrize(
    "content",
    [
        qcow2()[:72],
        qcow2()[:4] + struct.pack(">I", 1) + qcow2()[8:],
        qcow2()[:20] + struct.pack(">I", 63) + qcow2()[24:],
        qcow2(extensions={0x1234: b""})[:108] + struct.pack(">I", 1 << 31) + bytes(100),
        qcow2("x" * 1024),
    ],
)
def test_a_damaged_header_is_no_disk(content: bytes, tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    with pytest.raises(MachineError, match="is damaged"):
        look("guests.g.image", str(image_in(tmp_path, content)))


def test_qemu_is_told_every_file_and_its_kind(tmp_path: Path, secret: Path) -> None:
    assert secret.exists()
    lowest = image_in(
        tmp_path, qcow2(str(secret)), "base.raw"
    )  # its bytes are a disk's, whatever they look like
    middle = image_in(tmp_path, qcow2("base.raw", extensions={BASE_FORMAT: b"raw"}), "middle.qcow2")
    image = image_in(tmp_path, qcow2("middle.qcow2", version=2))
    found = look("guests.g.image", str(image))
    size = lowest.stat().st_size
    assert found == Disk(image, "qcow2", 1 << 20, Disk(middle, "qcow2", 1 << 20, Disk(lowest, "raw", size)))
    assert found.drive()[1].split(",") == [
        f"file={image}", "format=qcow2",
        "backing.driver=qcow2", "backing.file.driver=file", f"backing.file.filename={middle}",
        "backing.backing.driver=raw", "backing.backing.file.driver=file", f"backing.backing.file.filename={lowest}",
        "if=virtio", "snapshot=on", "werror=report",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "content", "what"),
    [
        ("qcow2", qcow2("/etc/shadow"), "not the bare name"),
        ("vmdk", b'# Disk DescriptorFile\nRW 1 FLAT "/etc/shadow" 0\n', "not a format of a disk here"),
    ],
)
def test_the_disk_of_a_recipe_names_no_file_either(
    kind: str, content: bytes, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    place = tmp_path / "virtlab" / "appliances" / "evil"
    place.mkdir(parents=True)
    (place / "disk").write_bytes(content)
    (place / "appliance.toml").write_text(f'disk = "disk"\nformat = "{kind}"\n')
    with pytest.raises(MachineError, match=what):
        recipe.load("evil")
