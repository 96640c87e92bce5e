"""What this machine has for guests, read from its kernel."""

from __future__ import annotations

import os
from pathlib import Path

MEMINFO, PRESSURE = Path("/proc/meminfo"), Path("/proc/pressure/memory")


def processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Its memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def swap_bytes(meminfo: Path = MEMINFO) -> int:
    """Its swap, used or not."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == "SwapTotal":
            return 1024 * int(value.split()[0])
    return 0


def has_pressure() -> bool:
    """Whether its kernel tells for how long tasks wait for memory (PSI)."""
    return PRESSURE.exists()
