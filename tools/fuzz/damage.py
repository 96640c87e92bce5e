"""Right files with pieces cut, doubled, exchanged or replaced by words that matter to a reader."""

from __future__ import annotations

import random
from collections.abc import Sequence

NUMBERS = [
    b"0", b"-1", b"1e999", b"1e99999999 ms", b".nan", b"nan", b"inf", b"9" * 40, b"0x1F", b"1_0", b"1:30", b"1,5",
    b"99999999999", b"-0.0", b"1e-999", b"4294967296", b"18446744073709551616", b"9" * 5000,
]  # fmt: skip
CHARACTERS = [
    b"\x00", b"\x01", b"\x1b[2J", b"\x7f", b"\xc2\x9b31m", b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xef\xbb\xbf", b"\xff",
    b"\xe2\x80\xa8", b"\xf0\x9f\x90\x9b", b"\xed\xa0\x80", b"\xc2\x85", b"\r", b"\n", b"\t", b'"', b"'", b"\\",
]  # fmt: skip


def damaged(source: random.Random, contents: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of `contents` after one to four changes, mostly one: what is too wrong is refused before much is read."""
    content = source.choice(contents)
    for _ in range(source.choice([1, 1, 1, 2, 2, 4])):
        content = _changed(source, content, contents, words)
    return content


def _changed(
    source: random.Random, content: bytes, contents: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    kind = source.choice([0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7])
    at = source.randint(0, len(content))
    if kind == 0:  # a word put in, or over what stands there
        return content[:at] + source.choice(words) + content[at + source.choice([0, 0, 1, 3, 10, 40]) :]
    if kind == 1:  # a value of a line replaced
        lines = content.split(b"\n")
        row = source.randrange(len(lines))
        head, colon, _ = lines[row].partition(source.choice([b":", b",", b"=", b" "]))
        lines[row] = head + colon + b" " + source.choice(words)
        return b"\n".join(lines)
    if kind == 2:  # a number replaced
        starts = [place for place, octet in enumerate(content) if 48 <= octet <= 57]
        if not starts:
            return content + source.choice(NUMBERS)
        start = end = source.choice(starts)
        while end < len(content) and 48 <= content[end] <= 57:
            end += 1
        return content[:start] + source.choice(NUMBERS) + content[end:]
    if kind == 3:  # characters that are none of text
        return content[:at] + source.choice(CHARACTERS) + content[at:]
    if kind == 4:  # lines doubled, cut or moved
        lines = content.split(b"\n")
        first, second = source.randrange(len(lines)), source.randrange(len(lines))
        piece = lines[first : first + source.randint(1, 4)]
        if source.random() < 0.5:
            del lines[first : first + len(piece)]
        lines[second:second] = piece
        return b"\n".join(lines)
    if kind == 5:  # a piece of another file
        other = source.choice(contents)
        start = source.randint(0, len(other))
        return content[:at] + other[start : start + source.choice([5, 30, 200])] + content[at:]
    if kind == 6:  # bits turned over
        changed = bytearray(content)
        for _ in range(source.randint(1, 4)):
            if changed:
                changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
        return bytes(changed)
    return content[:at] if source.random() < 0.5 else content[at:]  # the file ends, or begins, here
