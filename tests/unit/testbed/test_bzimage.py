"""The program inside a compressed kernel."""

from __future__ import annotations

import lzma
import struct
import sys
from pathlib import Path

import pytest

from virtlab.testbed.image import elf
from virtlab.testbed.image.bzimage import has_pvh_entry, unpacked_kernel


@pytest.mark.slow
def test_a_packed_kernel_is_unpacked_once_and_another_is_left_as_it_is() -> None:
    program = Path(sys.executable).resolve().read_bytes()
    if not elf.is_elf(program):
        pytest.skip("the interpreter is no ELF program")
    packed = lzma.compress(program, lzma.FORMAT_XZ)
    head = bytearray(2 * 512)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 16, len(packed) + 4)
    image = bytes(head) + bytes(16) + packed + struct.pack("<I", len(program)) + b"what follows"
    assert unpacked_kernel(image) == elf.loaded_part(program)
    assert unpacked_kernel(program) == program
    other = image.replace(b"\xfd7zXZ", b"\x1f\x8bother")
    assert unpacked_kernel(other) == other
    broken = image.replace(packed[40:80], bytes(40))
    assert unpacked_kernel(broken) == broken
    assert unpacked_kernel(image[: len(image) // 2]) == image[: len(image) // 2], "cut off"
    assert unpacked_kernel(image[:0x210]) == image[:0x210]


def test_a_kernel_names_its_entry_for_qemu_in_a_note() -> None:
    notes = [struct.pack("<III4sQ", 4, 8, kind, b"Xen", 0x100_0000) for kind in (17, 18, 19)]
    assert has_pvh_entry(b"before" + notes[0] + notes[1] + notes[2])
    assert not has_pvh_entry(b"before" + notes[0] + notes[2])
