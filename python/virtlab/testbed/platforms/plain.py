"""What a guest says, as plain lines: its bytes are hostile input, and end in errors on somebody's terminal.

Escape sequences (ECMA-48: CSI, OSC and the short ones) and other control characters are left out, so nothing that a
guest writes on its console moves a cursor, sets a title or clears a screen here.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def lines(content: bytes | bytearray) -> list[str]:
    """Lines that hold something.

    >>> lines(b"\\x1b[2J\\x1b[01;01HBdsDxe: loading\\r\\n\\n\\x1b]0;title\\x07Shell>\\x1b(B \\x9b31m\\xff")
    ['BdsDxe: loading', 'Shell> \\ufffd31m\\ufffd']
    """
    found = []
    for line in content.decode(errors="replace").splitlines():
        said = _CONTROLS.sub("", _ESCAPES.sub("", line)).strip()
        if said:
            found.append(said)
    return found
