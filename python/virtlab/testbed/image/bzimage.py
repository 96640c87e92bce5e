"""Compressed kernels (bzImage), and the program inside one.

A virtual machine without KVM takes six seconds to unpack one that is packed by xz; this process takes half of one,
once.
"""

from __future__ import annotations

import lzma
import struct

from virtlab.testbed.image import elf

_HEAD_BYTES = 0x250
_PHYS32_ENTRY = 18


def unpacked_kernel(image: bytes) -> bytes:
    """The ELF program inside a compressed kernel, as far as it is loaded; the image itself where it is packed
    otherwise or damaged.

    Layout: Documentation/arch/x86/boot.rst of Linux: sectors of the set-up code at 0x1f1, 'HdrS' at 0x202, offset and
    length of the payload at 0x248. The payload is followed by its length, so the decompressor stops at its end mark.
    """
    if image[0x202:0x206] != b"HdrS" or len(image) < _HEAD_BYTES:
        return image
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    payload = image[start : start + length]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return image
    decompressor = lzma.LZMADecompressor()
    try:
        content = decompressor.decompress(payload)
    except lzma.LZMAError:
        return image
    return elf.loaded_part(content) if decompressor.eof and elf.is_elf(content) else image


def has_pvh_entry(program: bytes) -> bool:
    """Whether QEMU can start an unpacked kernel: it names its entry in a note of owner Xen,
    XEN_ELFNOTE_PHYS32_ENTRY.
    """
    return any(struct.pack("<III4s", 4, size, _PHYS32_ENTRY, b"Xen") in program for size in (4, 8))
