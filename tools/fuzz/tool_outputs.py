"""Outputs of other tools, as `import` reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.imported.dataset import content_of
from virtlab.imported.mapping import ImportFile

COUNT = 10_000
FOLDER = Path(__file__).parents[2] / "tests/golden/imported"
CONTENTS = [path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.stat().st_size < 200_000]
WORDS = [
    *NUMBERS, *CHARACTERS, b"{", b"}", b"[", b"]", b",", b'"', b"null", b"true", b"\r\n", b"-", b"ms", b"usec", b"%",
    b"Mbits/sec", b"bits/sec", b"Average:", b"icmp_seq=", b"time=", b"12:00:00 AM", b"2026-13-40", b"1970-01-01",
    b"[  3]", b"[SUM]", b"\xff\xfe", b"{" * 2000, b"<", b"&", b"inf", b"1e308", b"00:00:00",
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[bytes]:
    """Damaged outputs of all tools that are read."""
    for position in range(count):
        yield damaged(random.Random(f"{seed} tool outputs {position}"), CONTENTS, WORDS)


def run_case(case: bytes) -> None:
    """What the output says; the tool is recognised."""
    content_of(ImportFile(Path("output.txt")), case)
