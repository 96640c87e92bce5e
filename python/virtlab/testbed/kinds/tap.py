"""Whether taps can be made here, by which guests with a kernel of their own and datapaths in user space get frames."""

from __future__ import annotations

import os

TUN = "/dev/net/tun"
CURE_TUN = "load the module tun; as root: chmod 0666 /dev/net/tun"


def tun_missing() -> str | None:
    """Why no tap can be made; None when one can."""
    if os.access(TUN, os.R_OK | os.W_OK):
        return None
    there = "cannot be opened by this user" if os.path.exists(TUN) else "is missing"  # noqa: PTH110 - a device
    return f"{TUN} {there}"
