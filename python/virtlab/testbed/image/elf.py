"""As much of ELF as an image needs: what of a program is loaded, whether it is static, what a kernel module says of
itself.

Layout: ELF-64 Object File Format; little endian, which is what every machine that we boot has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS = 1, 5
_HEADER_BYTES = 64


def is_elf(content: bytes) -> bool:
    """Whether it is a 64-bit little-endian ELF file."""
    return content[:6] == b"\x7fELF\x02\x01" and len(content) >= _HEADER_BYTES


def _segments(content: bytes) -> Iterator[tuple[int, int, int]]:
    """(kind, offset, bytes) of each program header."""
    (at,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for number in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at + number * size)
        yield kind, offset, length


def is_static(content: bytes) -> bool:
    """Whether a program needs no interpreter to be loaded."""
    return is_elf(content) and all(kind != _INTERPRETER for kind, _, _ in _segments(content))


def interpreter(content: bytes) -> str | None:
    """The path of the loader that a program asks for; None when it is static."""
    for kind, offset, length in _segments(content):
        if kind == _INTERPRETER:
            return content[offset : offset + length].rstrip(b"\0").decode()
    return None


def needed(content: bytes) -> list[str]:
    """Names of the libraries that a program or library is linked with (DT_NEEDED)."""
    dynamic = next(((at, n) for kind, at, n in _segments(content) if kind == _DYNAMIC), None)
    if dynamic is None:
        return []
    entries = [struct.unpack_from("<QQ", content, dynamic[0] + at) for at in range(0, dynamic[1], 16)]
    strings = next(value for tag, value in entries if tag == _STRINGS)
    start = _offset_of(content, strings)
    names = []
    for tag, value in entries:
        if tag == _NEEDED:
            at = start + value
            names.append(content[at : content.index(b"\0", at)].decode())
    return names


def _offset_of(content: bytes, address: int) -> int:
    """Where in the file an address of the loaded program lies."""
    (at,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for number in range(count):
        kind, _, offset, virtual, _, length = struct.unpack_from("<IIQQQQ", content, at + number * size)
        if kind == _LOAD and virtual <= address < virtual + length:
            return int(offset + address - virtual)
    raise ValueError("its dynamic section points nowhere")


def loaded_part(content: bytes) -> bytes:
    """A program without what is never loaded (symbols, debugging tables), which the kernel executes all the same."""
    end = max(offset + length for kind, offset, length in _segments(content) if kind == _LOAD)
    kept = bytearray(content[:end])
    kept[40:48] = bytes(8)  # where section headers were,
    kept[60:64] = bytes(4)  # and how many
    return bytes(kept)


def module_facts(content: bytes) -> dict[str, list[str]]:
    """The section .modinfo of a kernel module: 'key=value' strings by key, in their order. ValueError when it has
    none.
    """
    if not is_elf(content):
        raise ValueError("is not a kernel module")
    (at,) = struct.unpack_from("<Q", content, 40)
    size, count, names = struct.unpack_from("<HHH", content, 58)
    sections = [struct.unpack_from("<IIQQQQ", content, at + number * size) for number in range(count)]
    names_at = sections[names][4]
    found: dict[str, list[str]] = {}
    for name, _, _, _, offset, length in sections:
        start = names_at + name
        if content[start : content.index(b"\0", start)] == b".modinfo":
            for entry in content[offset : offset + length].split(b"\0"):
                key, equals, value = entry.decode(errors="replace").partition("=")
                if equals:
                    found.setdefault(key, []).append(value)
            return found
    raise ValueError("is not a kernel module")
