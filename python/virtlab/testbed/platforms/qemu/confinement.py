"""What QEMU may still do while a guest runs: no new program, no way back to a privilege, and never root's rights.

Where virtlab is root, QEMU opens its files and devices, then takes a user number that belongs to no account, before
its guest's first instruction: an attacker who breaks out of the emulation owns no file of this machine. Each
guest's number is another, so that none reaches into the process of another. An ordinary user's QEMU has that user's
rights in the private world. Numbers: above what systemd gives to containers (its UIDS-GIDS page: 524288 to
1879048191), below 2^31, which some programs take for negative ones. A container that virtlab is root of may lack
them; 65534 is mapped as a rule.
"""

from __future__ import annotations

import os
from pathlib import Path

ACCOUNTS = 1_879_048_192
NOBODY = 65_534
_MAPS = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))


def account(channel: int) -> int | None:
    """For the QEMU on that channel of a world.

    None where it stays who it is: an ordinary user's, or of a root that has no other account.
    """
    if os.geteuid() != 0:
        return None
    maps = [path.read_text(encoding="ascii") for path in _MAPS]
    wanted = (ACCOUNTS + channel, NOBODY)
    return next((each for each in wanted if all(_holds(text, each) for text in maps)), None)


def words(owner: int | None) -> list[str]:
    """QEMU's words for it."""
    if owner is None:
        return ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"]
    # It gives its privileges away under the sandbox, by calls that `deny` forbids; none can be regained by them.
    return ["-sandbox", "on,obsolete=deny,spawn=deny", "-runas", f"{owner}:{owner}"]


def _holds(text: str, number: int) -> bool:
    """Whether a user namespace has a number, by its map: first inside, first outside, how many.

    >>> _holds("0 100000 65536\\n", 65535), _holds("0 100000 65536\\n", 65536)
    (True, False)
    """
    ranges = [[int(word) for word in line.split()] for line in text.splitlines()]
    return any(first <= number < first + count for first, _, count in ranges)
